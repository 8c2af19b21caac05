# SPDX-License-Identifier: Apache-2.0
"""fastavro and our codec read what the other wrote, in every framing."""

import base64
import contextlib
import http.server
import io
import json
import ssl
import subprocess
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


@contextlib.contextmanager
def serve(schemas, context=None):
    """The schemas of a dict, by id, for whoever knows the password; the port where they are."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            password = "Basic " + base64.b64encode(b"reprise:s3cret").decode()
            schema = schemas.get(int(self.path.removeprefix("/schemas/ids/")))
            if self.headers["Authorization"] != password:
                self.answer(401, {"error_code": 40101})
            elif schema is None:
                self.answer(404, {"error_code": 40403})
            else:
                self.answer(200, {"schema": json.dumps(schema)})

        def answer(self, status, body):
            body = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *arguments: None
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
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


def test_we_read_newer_writers_by_the_registry_s_schemas(rng):
    schemas, values, tasks = {}, [], random_records("FailedTask", rng, 50)
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
    with serve(schemas) as port:
        lines = codec_tool.run("decode", "FailedTask", values, f"http://127.0.0.1:{port}")
    for task, line in zip(tasks, lines):
        assert json.loads(line) == codec_tool.with_hex(task)
    assert lines[-1] == "error: schema registry: schema id 999 is not known there"


def test_the_registry_s_certificate_is_checked(tmp_path, rng):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
         "-out", certificate, "-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    task = codec_tool.random_task(rng)
    values = [contract.confluent(task, 7)]
    with serve({7: contract.FAILED_TASK}, context) as port:
        url = f"https://127.0.0.1:{port}"
        trusted = codec_tool.run("decode", "FailedTask", values, url, certificate)
        distrusted = codec_tool.run("decode", "FailedTask", values, url)
    assert json.loads(trusted[0]) == codec_tool.with_hex(task)
    assert distrusted[0].startswith("error: schema registry: SSL certificate problem")
