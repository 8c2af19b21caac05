# SPDX-License-Identifier: Apache-2.0
"""What is installed can be built against, by pkg-config and by CMake, also once it was moved."""

import os
import pathlib
import re
import subprocess

import contract
import pytest
from pipeline import BUILD

pytestmark = pytest.mark.alone

CONSUMER = pathlib.Path(__file__).parent / "programs/consumer"


def run(*command, **options):
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, **options
    )
    assert done.returncode == 0, (command, done.stdout.decode(), done.stderr.decode())
    return done.stdout


@pytest.fixture(scope="module")
def cached():
    """The build's settings."""
    lines = (BUILD / "CMakeCache.txt").read_text().splitlines()
    cache = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#/")
    cache = {name.split(":")[0]: value for name, value in cache.items()}
    if cache["REPRISE_SANITIZE"]:
        pytest.skip("whoever links a sanitized library must be sanitized, too")
    return cache


@pytest.fixture(scope="module")
def prefix(cached, tmp_path_factory):
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    return (folder / "first").rename(folder / "moved")


def check(program, cached):
    libraries = cached.get("pkgcfg_lib_RDKAFKA_rdkafka", "")
    event = run(program, env={"LD_LIBRARY_PATH": os.path.dirname(libraries)})
    task = contract.read_failed_task(event)
    assert (task["task_id"], task["task_type"], task["attempt"]) == ("task-1", "payment", 2)
    assert len(task["headers"]) == 3 and task["failed_at"] == 1763700000123


def rdkafka(cached):
    """Where the build found librdkafka's .pc file; it need not be the system's."""
    return pathlib.Path(cached["pkgcfg_lib_RDKAFKA_rdkafka"]).parent


def test_pkg_config(prefix, cached, tmp_path):
    (pc,) = prefix.rglob("libreprise.pc")
    paths = {"PKG_CONFIG_PATH": f"{pc.parent}:{rdkafka(cached) / 'pkgconfig'}"}
    flags = run(
        "pkg-config", "--cflags", "--libs", "libreprise", env=os.environ | paths
    ).decode().split()  # fmt: skip
    assert str(prefix) in os.path.normpath(flags[0])
    run(cached["CMAKE_C_COMPILER"], CONSUMER / "main.c", "-o", tmp_path / "consumer", *flags)
    check(tmp_path / "consumer", cached)


def test_cmake(prefix, cached, tmp_path):
    run(
        "cmake", "-S", CONSUMER, "-B", tmp_path, "-G", "Ninja",
        f"-DCMAKE_C_COMPILER={cached['CMAKE_C_COMPILER']}",
        f"-DCMAKE_PREFIX_PATH={prefix};{rdkafka(cached).parent}",
    )  # fmt: skip
    run("cmake", "--build", tmp_path)
    check(tmp_path / "consumer", cached)


def test_what_is_missing_is_named(prefix, cached, tmp_path):
    done = subprocess.run(
        ["cmake", "-S", CONSUMER, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_C_COMPILER={cached['CMAKE_C_COMPILER']}"],
        env=os.environ | {"PKG_CONFIG_LIBDIR": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "reprise needs rdkafka, which pkg-config does not find" in " ".join(done.stderr.split())


def test_the_programs_are_installed(prefix):
    """None of them can be told to die, as those can that the tests of faults run."""
    for name in ("reprise", "reprise-router", "reprise-delayer", "reprise-archiver"):
        program = prefix / "bin" / name
        assert b"Usage" in run(program, "--help")
        assert b"REPRISE_CRASH_POINT" not in program.read_bytes()
        (library,) = re.findall(r"librdkafka\.so\.1 => (\S+)", run("ldd", program).decode())
        assert library.startswith((os.path.normpath(prefix), "/usr/")), "others cannot read the builder's cache"
    assert (prefix / "share/reprise/schemas/failed_task.avsc").exists()
