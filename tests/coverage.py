# SPDX-License-Identifier: Apache-2.0
"""What the tests have run of our sources, from the counts that a build with --coverage leaves: by file, the
least covered first. usage: coverage.py BUILD-FOLDER [--aim], which fails where the aim is missed"""

import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ("libcommon/src/", "services/")
AIM = (95, 90)  # % of lines, of branches


def reports(folder):
    for counts in pathlib.Path(folder).rglob("*.gcno"):  # also of what never ran
        if "/tests/" not in str(counts):
            done = subprocess.run(
                ["gcov", "--branch-probabilities", "--json-format", "--stdout", counts.name],
                cwd=counts.parent, capture_output=True, text=True, check=True,
            )  # fmt: skip
            yield from map(json.loads, done.stdout.splitlines())


def main():
    lines = collections.defaultdict(collections.Counter)
    branches = collections.defaultdict(collections.Counter)
    for report in reports(sys.argv[1]):
        for file in report["files"]:
            path = pathlib.Path(report["current_working_directory"], file["file"]).resolve()
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            if not name.startswith(OURS):
                continue
            source = path.read_text().splitlines()
            for line in file["lines"]:
                lines[name][line["line_number"]] += line["count"]
                if "assert(" in source[line["line_number"] - 1]:
                    continue  # one of its branches is never to be taken
                for i, branch in enumerate(line["branches"]):
                    branches[name][line["line_number"], i] += branch["count"]

    def share(counts):
        return 100 * sum(n > 0 for n in counts) / max(1, len(counts))

    def all_of(tables):
        return [n for table in tables.values() for n in table.values()]

    for name in sorted(lines, key=lambda name: share(lines[name].values())):
        print(f"{share(lines[name].values()):5.1f}% of lines, "
              f"{share(branches[name].values()):5.1f}% of branches  {name}")  # fmt: skip
    total = share(all_of(lines)), share(all_of(branches))
    print(f"{total[0]:5.1f}% of lines, {total[1]:5.1f}% of branches  in all")
    if sys.argv[2:] == ["--aim"] and any(is_now < aim for is_now, aim in zip(total, AIM)):
        sys.exit(f"the aim is {AIM[0]}% of lines and {AIM[1]}% of branches")


if __name__ == "__main__":
    main()
