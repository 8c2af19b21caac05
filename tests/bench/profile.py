# SPDX-License-Identifier: Apache-2.0
"""Where a service's time goes: runs it on a full topic under perf, and prints the hottest functions."""

import argparse
import signal
import subprocess
import tempfile

from stage import now_ms, processor_us, run, servers, wait_for_metric
from throughput import POLICIES

FILLED = {
    "router": ("failed-tasks", "event", "reprise_router_events_total"),
    "delayer": ("retry-1s", "tier", "reprise_delayer_settled_total"),
    "archiver": ("dead-letter", "letter", "reprise_archiver_rows_total"),
}


def profile(stage, options, data):
    topic, kind, metric = FILLED[options.service]
    with stage.pipeline("profile", 8, policies=POLICIES) as pipeline:
        target = pipeline.create_target("t", partitions=8)
        run("fill", bootstrap=stage.kafka.bootstrap, topic=pipeline.prefix + topic, kind=kind,
            count=options.count, size=options.size, target=target, due=now_ms() - 60_000)  # fmt: skip
        (service,) = pipeline.start(options.service)
        pid = service.process.pid
        perf = subprocess.Popen(
            ["perf", "record", "-q", "-g", "-F", "499", "-o", data, "-p", str(pid)]
        )
        wait_for_metric([service], metric, options.count)
        print(f"{processor_us(pid) / options.count:.2f} us of processor a record")
        perf.send_signal(signal.SIGINT)
        perf.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service", choices=FILLED)
    parser.add_argument("--size", type=int, default=200, help="bytes a record (default 200)")
    parser.add_argument("--count", type=int, default=300_000, help="records (default 300000)")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(suffix=".perf") as data:
        with servers() as stage:
            profile(stage, options, data.name)
        subprocess.run(
            f"perf report -i {data.name} --no-children --stdio -g none | grep -v '^#' | head -40",
            shell=True, check=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
