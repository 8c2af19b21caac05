# SPDX-License-Identifier: Apache-2.0
"""A schema registry that hangs holds up the records that need it, and hardly anything else."""

import http.server
import json
import threading

import contract
import pytest
from pipeline import header, now_ms

POLICIES = {
    "soon": {"max_attempts": 3, "backoff": {"fixed": "300ms"}, "jitter": 0},
    "later": {"max_attempts": 3, "backoff": {"fixed": "5s"}, "jitter": 0},
}


class Registry(http.server.ThreadingHTTPServer):
    """Knows every id, and answers while it is told to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers, self.asked = threading.Event(), threading.Event()
        self.answers.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def hang(self):
        self.answers.clear()
        self.asked.clear()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.set()
        self.server.answers.wait(120)
        text = json.dumps({"schema": json.dumps(contract.FAILED_TASK)}).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            pass  # whoever asked did not wait

    def log_message(self, *_):
        pass


@pytest.fixture
def registry():
    with Registry() as server:
        yield server
        server.answers.set()
        server.shutdown()


def fail(pipeline, task_id, kind, partition, encode=contract.single_object):
    task = {
        "task_id": task_id,
        "task_type": kind,
        "target": pipeline.target("handler"),
        "key": None,
        "payload": b"payload",
        "headers": [],
        "attempt": 1,
        "error": {"class": "Oops", "message": "", "category": None, "causes": []},
        "source": "tests",
        "first_failed_at": None,
        "failed_at": now_ms(),
    }
    topic = f"{pipeline.prefix}failed-tasks"
    pipeline.producer.produce(topic, encode(task), partition=partition)
    assert pipeline.producer.flush(30) == 0


def test_a_registry_that_hangs_holds_up_only_what_needs_it(new_pipeline, registry):
    # A request may take longer than the others are given.
    url = f"http://127.0.0.1:{registry.server_port}"
    pipeline = new_pipeline(
        "registry", policies=POLICIES, schema_registry={"url": url, "timeout": "40s"}
    )
    handler = pipeline.reader(pipeline.create_target("handler"))
    pipeline.start("router", "delayer", "archiver")

    # The router knows the schema, the delayer does not yet.
    fail(pipeline, "parked", "later", 0, lambda task: contract.confluent(task, 7))
    pipeline.reader(f"{pipeline.prefix}retry-3s").of_task("parked")
    registry.hang()
    assert registry.asked.wait(30)
    # And here is one that the router cannot read.
    fail(pipeline, "unread", "soon", 0, lambda task: contract.confluent(task, 8))
    others = [f"other-{number}" for number in range(60)]
    for number, task_id in enumerate(others):
        fail(pipeline, task_id, "soon", 1 + number % 3)
    for task_id in others:
        handler.of_task(task_id, timeout=20)
    came = [header(record, "reprise-task-id") for record in handler.records]
    assert sorted(came) == sorted(others)

    registry.answers.set()
    handler.of_task("parked", timeout=60)
    handler.of_task("unread", timeout=60)
    assert pipeline.dead_letters() == []
