# SPDX-License-Identifier: Apache-2.0
"""Java's Avro reads our single-object values, and writes the same bytes."""

import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import codec_tool
from test_interop_fastavro import RECORDS, random_records, single_object

INTEROP = codec_tool.ROOT / "tests/integration/interop"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "reprise"


@pytest.fixture(scope="module")
def jars():
    """Java's Avro and a compiler. They stay in the cache, under their name once they are whole."""
    folder = CACHE / "interop-avro-1.12.0"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / ".interop.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = pathlib.Path(tempfile.mkdtemp(prefix=".fetching-interop.", dir=CACHE))
            # Maven takes the home folder from the system's list of users, whatever HOME says.
            repository = pathlib.Path.home() / ".m2/repository"
            subprocess.run(
                ["mvn", "-B", "-q", "-f", INTEROP / "pom.xml", "dependency:copy-dependencies",
                 f"-Dmaven.repo.local={repository}", f"-DoutputDirectory={unfinished / 'jars'}"],
                check=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            (unfinished / "jars").rename(folder)
            shutil.rmtree(unfinished)
    return folder


@pytest.fixture(scope="module")
def classpath(jars, tmp_path_factory):
    out = tmp_path_factory.mktemp("classes")
    compiler = next(jars.glob("ecj-*.jar"))
    subprocess.run(
        ["java", "-jar", compiler, "-17", "-cp", ":".join(map(str, jars.glob("*.jar"))), "-d", out,
         INTEROP / "AvroInterop.java"],
        check=True,
    )  # fmt: skip
    return f"{out}:{jars}/*"


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
