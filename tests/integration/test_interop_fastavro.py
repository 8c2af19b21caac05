# SPDX-License-Identifier: Apache-2.0
"""fastavro and our codec read what the other wrote, in every framing."""

import http.server
import io
import json
import threading

import fastavro
import pytest

import codec_tool
import contract

RECORDS = {"FailedTask": contract.FAILED_TASK, "DeadLetter": contract.DEAD_LETTER}


def plain(schema):
    """Without logical types, which fastavro would turn into datetimes."""
    if isinstance(schema, dict):
        return {name: plain(inner) for name, inner in schema.items() if name != "logicalType"}
    return [plain(inner) for inner in schema] if isinstance(schema, list) else schema


def bare(schema, record):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain(schema)), record)
    return out.getvalue()


def single_object(schema, record):
    return b"\xc3\x01" + contract.fingerprint(schema) + bare(schema, record)


def random_records(name, rng, n=200):
    if name == "FailedTask":
        return [codec_tool.random_task(rng) for _ in range(n)]
    return [codec_tool.random_letter(rng, contract.REASONS) for _ in range(n)]


@pytest.fixture
def registry():
    """Schemas by id, in a dict, and the url where they are served."""
    schemas = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            schema = schemas.get(int(self.path.removeprefix("/schemas/ids/")))
            body = json.dumps(
                {"error_code": 40403} if schema is None else {"schema": json.dumps(schema)}
            ).encode()
            self.send_response(404 if schema is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield schemas, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", RECORDS)
def test_we_read_what_fastavro_wrote(name, rng):
    records = random_records(name, rng)
    lines = codec_tool.run("decode", name, [single_object(RECORDS[name], r) for r in records])
    for record, line in zip(records, lines):
        assert json.loads(line) == codec_tool.with_hex(record)


@pytest.mark.parametrize("name", RECORDS)
def test_we_write_the_bytes_that_fastavro_writes(name, rng):
    values = [single_object(RECORDS[name], r) for r in random_records(name, rng)]
    assert codec_tool.run("encode", name, values) == [value.hex() for value in values]


def test_we_read_bare_records(rng):
    tasks = random_records("FailedTask", rng)
    lines = codec_tool.run("decode", "FailedTask", [bare(contract.FAILED_TASK, t) for t in tasks])
    for task, line in zip(tasks, lines):
        assert json.loads(line) == codec_tool.with_hex(task)


def test_we_read_json_as_python_writes_it(rng):
    tasks = random_records("FailedTask", rng)
    lines = codec_tool.run("decode", "FailedTask", [contract.as_json(t) for t in tasks])
    for task, line in zip(tasks, lines):
        assert json.loads(line) == codec_tool.with_hex(task)


def test_we_read_newer_writers_by_the_registry_s_schemas(registry, rng):
    schemas, url = registry
    values, tasks = [], random_records("FailedTask", rng, 50)
    for schema_id, task in enumerate(tasks, start=1):
        fields = [dict(field) for field in plain(contract.FAILED_TASK)["fields"]]
        rng.shuffle(fields)
        fields.insert(rng.randrange(len(fields)), {"name": "region", "type": "string"})
        fields.append({"name": "labels", "type": {"type": "map", "values": ["null", "double"]}})
        newer = {"type": "record", "name": "reprise.v1.FailedTask", "fields": fields}
        schemas[schema_id] = newer
        record = task | {"region": "eu", "labels": {"a": 1.5, "b": None}}
        values.append(b"\x00" + schema_id.to_bytes(4, "big") + bare(newer, record))
    values.append(b"\x00" + (999).to_bytes(4, "big") + b"x")
    lines = codec_tool.run("decode", "FailedTask", values, url)
    for task, line in zip(tasks, lines):
        assert json.loads(line) == codec_tool.with_hex(task)
    assert lines[-1] == "error: schema registry: schema id 999 is not known there"
