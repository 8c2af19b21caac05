# SPDX-License-Identifier: Apache-2.0
"""Memory, start, recovery, sizes, and the codec."""

import subprocess
import tempfile
import time

from stage import BUILD, now_ms, resident_mib, run, wait_for, wait_for_metric

HELD = "reprise_delayer_held_tasks"


def memory(stage, figures, options):
    """Tasks that wait for an hour, so that none begins another lap meanwhile."""
    with stage.pipeline("memory", 4, tiers=["60s", "1h"]) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        (process,) = pipeline.start("delayer")
        figures.add("memory, delayer: 0 tasks", "MiB", resident_mib(process.process.pid))
        waiting = 0
        for count in options.pending:
            run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}retry-1h", kind="tier",
                count=count - waiting, size=200, target=target, due=now_ms() + 3_600_000)  # fmt: skip
            waiting = count
            time.sleep(2)
            what = f"memory, delayer: {count:,} tasks of 200 B wait"
            figures.add(what, "MiB", resident_mib(process.process.pid), goal=64)
            process.kill()
            process.start().wait_ready(60)
            time.sleep(2)
            figures.add(f"{what}, after a restart", "MiB", resident_mib(process.process.pid), goal=64)
        assert process.wait_ready().metric(HELD) == 0, "they were to wait in the log"


def recovery(stage, figures, options):
    with stage.pipeline("recovery", 4, tiers=["60s", "10m"]) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        (process,) = pipeline.start("delayer")
        before = resident_mib(process.process.pid)
        run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}retry-60s", kind="tier",
            count=options.held, size=200, target=target, due=now_ms() + 300_000)  # fmt: skip
        wait_for_metric([process], HELD, options.held)
        grown = (resident_mib(process.process.pid) - before) * 2**20 / options.held
        figures.add("memory, delayer: per held task of 200 B", "B", grown)
        for _ in range(options.rounds):
            process.kill()
            began = time.monotonic()
            process.start()
            wait_for(lambda: process.metric(HELD) >= options.held, "the held tasks", 120)
            figures.add(f"recovery after SIGKILL with {options.held:,} held tasks", "s",
                        time.monotonic() - began)  # fmt: skip


def startup(stage, figures, options):
    for _ in range(options.rounds):
        with stage.pipeline("start", 4) as pipeline:
            target = pipeline.create_target("t", message_timestamp_type="LogAppendTime")
            run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}failed-tasks",
                kind="event", count=1, target=target)  # fmt: skip
            time.sleep(1.5)  # then nothing is left to wait
            began = time.time()
            pipeline.start("router")
            sent = wait_for(lambda: first_append(stage, target), "the first task", 60)
            figures.add("start, from exec to the first task sent", "s", sent - began)
            for service in pipeline.start("delayer", "archiver") + pipeline.services[:1]:
                figures.add(f"memory, {service.name}: idle", "MiB", resident_mib(service.process.pid))
    for name in ("reprise-router", "reprise-delayer", "reprise-archiver", "reprise"):
        program = BUILD / "bin" / name
        with tempfile.NamedTemporaryFile() as stripped:
            subprocess.run(["strip", "-o", stripped.name, program], check=True)
            for what, path in (("stripped", stripped.name), ("with debug information", program)):
                size = subprocess.run(["stat", "-Lc", "%s", path], capture_output=True, check=True).stdout
                figures.add(f"size of {name}, {what}", "MiB", int(size) / 2**20)


def first_append(stage, topic):
    try:
        return stage.appended(topic)[0]
    except ValueError:  # nothing there yet
        return None


def codec(_stage, figures, options):
    for _ in range(options.rounds):
        codec_round(figures)


def codec_round(figures):
    done = subprocess.run([BUILD / "bin/codec_bench"], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        what, took = line.split(" million/s")
        figures.add(f"codec, {' '.join(what.split()[:-1])}", "ns", float(took.split()[0]))
