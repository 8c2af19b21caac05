# SPDX-License-Identifier: Apache-2.0
"""`reprise dlq edit`: a task that is changed and sent again, while the original stays."""

import http.server
import json
import os
import pty
import shlex
import stat
import subprocess
import threading
import time

import pytest

import contract
from pipeline import BUILD
from test_archiver import Archive, letter

BIG = 9007199254740993
ORDER = b'{"amount": 10.10,\n "id": 9007199254740993, "currency": null}'
HEADERS = [
    {"key": "trace", "value": b"a"},
    {"key": "trace", "value": b"b"},
    {"key": "none", "value": None},
    {"key": "raw", "value": b"\0\xff"},
]


SCHEMA = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},'
    ' {"name": "note", "type": ["null", "string"]}]}'
)
AVRO = b"\x82\x80\x80\x80\x80\x80\x80\x20\x02\x04ab"  # BIG, "ab"


class Edits(Archive):
    def __init__(self, new_pipeline):
        super().__init__(new_pipeline, "edit")
        self.target = self.pipeline.create_target("orders")
        self.other = self.pipeline.create_target("other")
        self.readers = {topic: self.pipeline.reader(topic) for topic in (self.target, self.other)}
        self.pipeline.start("archiver")
        self.number = 0

    def die(self, **task):
        """The id of a new dead letter."""
        self.number += 1
        task = {"task_id": f"edit-{self.number}", "target": self.target, "key": b"k\0", "headers": HEADERS,
                "payload": ORDER} | task
        self.send(contract.write_dead_letter(letter(self.number, task=task)))
        self.wait_for_all()
        return self.query("select id from dead_letter where task_id = %s", f"edit-{self.number}")[0][0]

    def run(self, *arguments, code=0, config=None, **more):
        command = [BUILD / "bin/reprise", *arguments, "--config", config or self.pipeline.config_file]
        done = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL, **more)
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == code, text
        return text

    def edit(self, id, *arguments, **more):
        return self.run("dlq", "edit", str(id), *arguments, **more)

    def arrived(self, topic=None):
        """The one record of the newest dead letter."""
        topic = topic or self.target
        return self.readers[topic].of_task(f"edit-{self.number}", timeout=60)[0]

    def state(self, id):
        return self.query("select status, replays from archive where id = %s", id)[0]


    def show(self, id, *arguments):
        return self.run("dlq", "show", str(id), *arguments)


YES = ("--reason", "ticket 4711", "--yes")


@pytest.fixture(scope="module")
def edits(new_pipeline):
    return Edits(new_pipeline)


def own(record):
    return [(key, value) for key, value in record.headers if not key.startswith("reprise-")]


def test_a_program_changes_what_it_says_and_no_more(edits):
    id = edits.die()
    text = edits.edit(id, "--jq", '.payload.currency = "EUR" | .headers[1].value = "c"', *YES, "--as", "ada")
    assert '-     "currency": null' in text and '+     "currency": "EUR"' in text
    assert str(BIG) not in [line[2:] for line in text.splitlines() if line[:1] in "+-"]
    record = edits.arrived()
    assert record.value == b'{"amount":10.10,"id":9007199254740993,"currency":"EUR"}'
    assert record.key == b"k\0"
    assert own(record) == [("trace", b"a"), ("trace", b"c"), ("none", None), ("raw", b"\0\xff")]
    assert edits.state(id) == ("replayed", 1)
    assert edits.query("select payload from dead_letter where id = %s", id)[0][0] == ORDER
    actor, action, reason, detail = edits.query(
        "select actor, action, reason, detail from audit where action = 'edit' order by at desc limit 1")[0]
    assert (actor, action, reason) == ("ada", "edit", "ticket 4711")
    assert f"id = {id}" in detail["filter"] and detail["total"] == 1


def test_a_dry_run_and_a_refusal_do_nothing(edits):
    id = edits.die()
    change = ("--jq", ".payload.amount = 1")
    assert '+     "amount": 1' in edits.edit(id, *change, "--dry-run")
    edits.edit(id, *change, "--reason", "x", code=6)
    edits.edit(id, *change, code=2)
    edits.edit(id, "--jq", ".payload.id += 1", *YES, code=2)
    edits.edit(id, "--jq", ".", *YES, code=4)
    edits.edit(2**60, "--jq", ".", *YES, code=4)
    assert edits.state(id) == ("dead", 0)


def test_a_file_gives_the_document(edits, tmp_path):
    id = edits.die()
    document = json.loads(edits.edit(id, "--print"))
    assert document["target"] == edits.target and document["payload"]["id"] == BIG
    assert document["headers"][3] == {"key": "raw", "value": {"base64": "AP8="}}
    text = edits.edit(id, "--print").replace(edits.target, edits.other)
    text = text.replace('"key": "k\\u0000"', '"key": {"base64": "AAE="}').replace(
        '"headers": [', '"headers": [{"key": "new", "value": null},')
    file = tmp_path / "edited.json"
    file.write_text(text)
    edits.edit(id, "--file", file, *YES)
    record = edits.arrived(edits.other)
    assert record.value == ORDER
    assert record.key == b"\0\1"
    assert own(record)[0] == ("new", None) and len(own(record)) == 5


def test_an_editor_changes_the_document(edits, tmp_path):
    id = edits.die()
    script = tmp_path / "my editor"
    script.write_text('#!/bin/sh\nstat -c %a "$1" >> "$0.modes"\nsed -i s/10.10/20.20/ "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    env = dict(os.environ, VISUAL=shlex.quote(str(script)), TMPDIR=str(tmp_path))
    assert f"You edit {tmp_path}/reprise-edit-" in edits.edit(id, *YES, env=env)
    value = edits.arrived().value
    assert value.split() == ORDER.replace(b"10.10", b"20.20").replace(b"{", b"{ ").replace(b"}", b" }").split()
    assert (tmp_path / "my editor.modes").read_text() == "600\n"
    assert not list(tmp_path.glob("reprise-edit-*"))


def test_what_an_editor_spoils_is_kept_and_not_sent(edits, tmp_path):
    id = edits.die()
    env = dict(os.environ, EDITOR="sed -i s/target/tarjet/", TMPDIR=str(tmp_path))
    env.pop("VISUAL", None)
    text = edits.edit(id, *YES, env=env, code=2)
    assert "'tarjet' that means nothing" in text
    (kept,) = tmp_path.glob("reprise-edit-*")
    assert f"what you wrote is in {kept};" in text and "tarjet" in kept.read_text()
    edits.edit(id, *YES, env=env | {"EDITOR": "false"}, code=1)
    assert edits.state(id) == ("dead", 0)


def test_what_an_editor_made_is_kept_where_it_is_refused(edits, tmp_path):
    small = edits.pipeline.create_target("tiny", max_message_bytes=300)
    editor = "sed -i 's/\"note\": null/\"note\": \"" + "n" * 400 + "\"/'"
    id = edits.die(target=small, payload=b'{"id": 1, "note": null}')
    env = dict(os.environ, EDITOR=editor, TMPDIR=str(tmp_path))
    env.pop("VISUAL", None)
    text = edits.edit(id, *YES, env=env, code=1)
    (kept,) = tmp_path.glob("reprise-edit-*")
    assert f"what you wrote is in {kept};" in text and "nnnn" in kept.read_text()
    assert edits.state(id) == ("dead", 0)


def test_a_target_that_is_not_there_is_refused(edits):
    id = edits.die()
    text = edits.edit(id, "--jq", '.target += "-none"', *YES, code=1)
    assert "-none" in text
    assert edits.state(id) == ("dead", 0)


def test_text_that_postgresql_cannot_hold_is_sent_as_it_came(edits):
    odd = [{"key": "odd\0key"[:3], "value": b"1"}]
    id = edits.die(headers=odd, task_type="pay\0ment", payload=b"\xffraw")
    text = edits.edit(id, "--jq", '.payload.base64 = "AP8="', *YES)
    assert '+     "base64": "AP8="' in text
    assert edits.arrived().value == b"\0\xff"


def test_control_characters_never_reach_the_terminal(edits):
    id = edits.die(payload=b'"\xc2\x9b31m\\u001b[2J\xe2\x80\xae"')
    text = edits.edit(id, "--jq", '.payload += "\\u009b1m"', "--dry-run")
    assert not any(c in text for c in "\x1b\x9b\u202e")
    # A file gets what is there, a terminal does not.
    assert "\u202e" in edits.edit(id, "--print")
    ours, theirs = pty.openpty()
    command = [BUILD / "bin/reprise", "dlq", "edit", str(id), "--print", "--config", edits.pipeline.config_file]
    assert subprocess.run(command, stdin=theirs, stdout=theirs, timeout=60).returncode == 0
    shown = os.read(ours, 65536).decode()
    assert "payload" in shown and not any(c in shown for c in "\x1b\x9b\u202e")
    os.close(ours)
    os.close(theirs)


def test_what_was_replayed_can_be_edited_again(edits):
    id = edits.die()
    edits.edit(id, "--jq", ".payload.n = 1", *YES)
    text = edits.edit(id, "--jq", ".payload.n = 2", *YES)
    assert "it is replayed already" in text
    assert [r.value[-7:] for r in edits.readers[edits.target].of_task(f"edit-{edits.number}", 2, timeout=60)] == [
        b',"n":1}', b',"n":2}']
    assert edits.state(id) == ("replayed", 2)


def test_show_tells_what_was_done_and_what_came_of_it(edits):
    id = edits.die()
    text = edits.show(id)
    assert f"dead letter {id}: EXHAUSTED by policy default, execution 3, max_attempts 3" in text
    assert "status        dead" in text and "comes from" not in text
    assert f"reprise dlq replay --id {id} --reason WHY" in text
    edits.edit(id, "--jq", ".payload.n = 1", *YES, "--as", "ada")
    job = edits.query("select job from archive where id = %s", id)[0][0]
    again = HEADERS + [{"key": "reprise-replay-id", "value": job.encode()}]
    edits.send(contract.write_dead_letter(letter(edits.number, task={
        "task_id": f"edit-{edits.number}", "target": edits.target, "headers": again, "attempt": 4})))
    edits.wait_for_all()
    (child,) = edits.query("select id from dead_letter where replay_job = %s", job)[0]
    text = edits.show(id)
    assert f"replay {job} by ada: ticket 4711 (edited)" in text
    assert "status        replayed since" in text and f", by replay {job}" in text
    assert f": dead letter {child}" in text
    assert f"reprise dlq replay --id {id} --status replayed --reason WHY" in text
    text = edits.show(child)
    assert f"comes from    dead letter {id}, sent again by replay {job}" in text
    assert "execution 4 failed" in text


@pytest.mark.parametrize(
    "target, said",
    [("-none", "there is no topic"), ("elsewhere", "targets.allow does not allow the target elsewhere")],
)
def test_show_tells_that_a_target_would_refuse_it(edits, target, said):
    id = edits.die(target=target if target[0] != "-" else edits.target + target)
    assert said in edits.show(id)


def test_show_reads_avro_by_a_schema(edits, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text(SCHEMA)
    id = edits.die(payload=AVRO)
    text = edits.show(id, "--payload-schema", schema)
    assert "12 bytes of Avro" in text
    assert '"id": 9007199254740993' in text and '"note": "ab"' in text
    edits.edit(id, "--payload-schema", schema, "--jq", '.payload.note = null', *YES)
    assert edits.arrived().value == b"\x82\x80\x80\x80\x80\x80\x80\x20\x00"
    assert "bytes of Avro" not in edits.show(id)


def test_a_schema_of_a_file_reads_what_has_an_id_in_front(edits, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text(SCHEMA)
    id = edits.die(payload=b"\0\0\0\0\x09" + AVRO)
    text = edits.show(id, "--payload-schema", schema)
    assert "17 bytes of Avro" in text
    assert '"id": 9007199254740993' in text and '"note": "ab"' in text
    edits.edit(id, "--payload-schema", schema, "--jq", '.payload.note = null', *YES)
    assert edits.arrived().value == b"\0\0\0\0\x09\x82\x80\x80\x80\x80\x80\x80\x20\x00"


def test_show_tells_what_today_s_policies_would_decide(edits):
    id = edits.die(task_type="mail", error={"class": "SMTPRecipientsRefused", "message": "", "category": "NETWORK",
                                            "causes": []}, attempt=1)  # fmt: skip
    text = edits.show(id)
    assert "policy default decides the same: " in text


def test_a_replay_shows_what_its_program_changes(edits):
    id = edits.die()
    replay = ("dlq", "replay", "--id", str(id), "--dry-run", "--jq")
    text = edits.pipeline.cli(*replay, '.payload.currency = "EUR"')
    assert f"What jq makes of {id}:" in text and '+     "currency": "EUR"' in text
    assert edits.state(id) == ("dead", 0)
    edits.pipeline.cli(*replay, ".payload.", code=2)


class Registry(http.server.ThreadingHTTPServer):
    """Knows schema 7, slowly."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.5)
        known = self.path.startswith("/schemas/ids/7")
        text = json.dumps({"schema": SCHEMA} if known else {"error_code": 40403}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def test_avro_of_a_registered_schema_keeps_its_id(edits):
    id = edits.die(payload=b"\0\0\0\0\7" + AVRO)
    other = edits.die(payload=b"\0\0\0\0\x08" + AVRO)
    with Registry() as registry:
        file = edits.pipeline.folder / "registry.yaml"
        edits.pipeline.write_config(file, {"schema_registry": {"url": f"http://127.0.0.1:{registry.server_port}"}})
        shown = edits.run("dlq", "show", str(id), config=file)
        assert '"id": 9007199254740993' in shown
        assert '"base64"' in edits.edit(other, "--print", config=file)
        edits.edit(id, "--jq", ".payload.note = null", *YES, config=file)
        registry.shutdown()
    (record,) = edits.readers[edits.target].of_task(f"edit-{edits.number - 1}", timeout=60)
    assert record.value == b"\0\0\0\0\7\x82\x80\x80\x80\x80\x80\x80\x20\x00"
