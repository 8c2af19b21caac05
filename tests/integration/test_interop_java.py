# SPDX-License-Identifier: Apache-2.0
"""Java's Avro reads our single-object values, and writes the same bytes."""

import json
import subprocess

import pytest

import codec_tool
import java
from test_interop_fastavro import RECORDS, random_records, single_object

INTEROP = codec_tool.ROOT / "tests/integration/interop"


@pytest.fixture(scope="module")
def classpath(tmp_path_factory):
    jars = java.fetch(INTEROP / "pom.xml", "interop-avro-1.12.0")
    return java.compile(INTEROP / "AvroInterop.java", jars, tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("name, file", [("FailedTask", "failed_task"), ("DeadLetter", "dead_letter")])
def test_java_reads_our_values_and_writes_the_same(name, file, classpath, rng):
    records = random_records(name, rng)
    ours = codec_tool.run("encode", name, [single_object(RECORDS[name], r) for r in records])
    done = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", classpath, "AvroInterop",
         codec_tool.ROOT / f"schemas/{file}.avsc"],
        input="".join(line + "\n" for line in ours), encoding="utf-8", capture_output=True,
        check=True, timeout=100,
    )  # fmt: skip
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(records)
    for record, line, value in zip(records, lines, ours):
        read, written = line.rsplit("\t", 1)
        assert written == value
        assert json.loads(read) == as_java_prints(record)


def as_java_prints(value):
    """Bytes as text of ISO 8859-1."""
    if isinstance(value, dict):
        return {name: as_java_prints(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_java_prints(inner) for inner in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
