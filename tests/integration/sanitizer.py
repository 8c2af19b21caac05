# SPDX-License-Identifier: Apache-2.0
"""What the sanitizers of a build that has them say of any program of ours that a test starts, also of what it
leaked when it ended."""

import os
import pathlib
import shutil

from pipeline import BUILD

SUPPRESSIONS = pathlib.Path(__file__).with_name("leaks.supp")


class Sanitizer:
    """Each process writes its report into a file of its own here, whatever becomes of its output."""

    def __init__(self):
        self.folder = BUILD / "integration" / f"sanitizer-{os.getpid()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("ASAN", "UBSAN", "TSAN"):
            add_options(f"{name}_OPTIONS", f"log_path='{self.folder}/report'")
        # Freed memory that is kept aside counts as resident, and tests look at that.
        add_options("ASAN_OPTIONS", "detect_leaks=1:quarantine_size_mb=32")
        add_options("UBSAN_OPTIONS", "print_stacktrace=1")
        add_options("LSAN_OPTIONS", f"suppressions='{SUPPRESSIONS}':print_suppressions=0")

    def take_reports(self):
        """What came since the last call."""
        reports = sorted(self.folder.iterdir())
        texts = [report.read_text(errors="replace") for report in reports]
        for report in reports:
            report.unlink()
        return texts

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def add_options(variable, options):
    os.environ[variable] = ":".join(filter(None, [os.environ.get(variable), options]))
