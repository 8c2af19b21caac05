# SPDX-License-Identifier: Apache-2.0
"""Programs in Java: their libraries from Maven Central, and a compiler that needs no more than a Java runtime."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "reprise"


def fetch(pom, name):
    """The folder of the jars that a pom names. They stay in the cache, under their name once they are whole."""
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = pathlib.Path(tempfile.mkdtemp(prefix=f".fetching-{name}.", dir=CACHE))
            # Maven takes the home folder from the system's list of users, whatever HOME says.
            repository = pathlib.Path.home() / ".m2/repository"
            subprocess.run(
                ["mvn", "-B", "-q", "-f", pom, "dependency:copy-dependencies",
                 f"-Dmaven.repo.local={repository}", f"-DoutputDirectory={unfinished / 'jars'}"],
                check=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            (unfinished / "jars").rename(folder)
            shutil.rmtree(unfinished)
    return folder


def compile(source, jars, out):
    """Returns the class path with which the program runs."""
    compiler = next(jars.glob("ecj-*.jar"))
    subprocess.run(
        ["java", "-jar", compiler, "-17", "-nowarn", "-cp", ":".join(map(str, jars.glob("*.jar"))),
         "-d", out, source],
        check=True,
    )  # fmt: skip
    return f"{out}:{jars}/*"
