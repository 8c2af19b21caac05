# SPDX-License-Identifier: Apache-2.0
"""The crash points, as the build lists them (libcommon/src/crash_point.h)."""

import subprocess

from pipeline import BUILD


def all_points():
    """(number, name, kinds) of each."""
    text = subprocess.run([BUILD / "bin/crash_points"], capture_output=True, text=True, check=True).stdout
    lines = [line.split("\t") for line in text.splitlines()]
    return [(int(number), name, kinds.split()) for number, name, kinds in lines]


def crash_points(*kinds):
    """(number, name) of those of these kinds."""
    found = [(number, name) for number, name, of in all_points() if set(of) & set(kinds)]
    assert found, f"no points of {kinds}"
    return found
