# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion, which the command line makes of its table of commands."""

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

from pipeline import BUILD

BIN = BUILD / "bin"


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=60, **more)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    run(BIN / "reprise", "man", folder)
    return sorted(folder.iterdir())


def commands():
    lines = run(BIN / "reprise", "--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.strip().split("  ")[0].strip() for line in lines.splitlines()]


def test_the_page_of_the_configuration_says_what_stands_for_something_else(pages):
    text = plain(next(page for page in pages if page.name == "reprise.yaml.5"))
    assert "${env:NAME}" in text and "${file:PATH}" in text and "${NAME}" not in text


def test_there_is_a_page_for_each_group_and_command(pages):
    names = {page.name for page in pages}
    for command in commands():
        assert f"reprise-{command.split()[0]}.1" in names
    assert {"reprise.1", "reprise.yaml.5"} <= names
    assert "reprise-man.1" not in names


def test_a_page_says_what_help_says(pages):
    text = {page.name: plain(page) for page in pages}
    for command in commands():
        shown = run(BIN / "reprise", *command.split(), "--help").stdout
        page = text[f"reprise-{command.split()[0]}.1"]
        for option in re.findall(r"^ +(--[a-z-]+)", shown, re.M):
            assert option in page, (command, option)
        for code in re.findall(r"^  (\d  .*)$", shown, re.M):
            assert " ".join(code.split()) in page, (command, code)
    for service in ("router", "delayer", "archiver"):
        page = text[f"reprise-{service}.8"]
        shown = run(BIN / f"reprise-{service}", "--help").stdout.splitlines()
        assert shown[1] in page
        for option in re.findall(r"--[a-z]+", "\n".join(shown)):
            assert option in page, (service, option)


def test_the_configuration_s_page_has_every_parameter(pages):
    page = next(plain(page) for page in pages if page.name == "reprise.yaml.5")
    reference = run(BIN / "reprise-router", "--reference").stdout
    parameters = re.findall(r"^(\S+)$", reference, re.M)
    assert len(parameters) > 50
    for parameter in parameters:
        assert parameter in page


def plain(page):
    """A page's text on one line."""
    env = dict(os.environ, MANWIDTH="200", LC_ALL="C.UTF-8")
    shown = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=200", page], env=env, check=True,
                           capture_output=True, timeout=60).stdout.decode()
    return " ".join(re.sub(".\b", "", shown).split())


def test_no_reader_of_man_pages_complains(pages):
    for page in pages:
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], text=True,
                              capture_output=True, timeout=60)
        assert (lint.returncode, lint.stdout) == (0, ""), page
    for page in pages:
        groff = run("groff", "-ww", "-man", "-T", "utf8", "-z", page)
        assert groff.stderr == "", page


BASH = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$(($# - 2))
_reprise
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    script = tmp_path_factory.mktemp("bash") / "reprise"
    script.write_text(run(BIN / "reprise", "completion", "bash").stdout)
    return lambda *words: run("bash", "-c", BASH, "bash", script, *words).stdout.split()


def test_bash_completes_commands(bash):
    assert {command.split()[0] for command in commands()} < set(bash("reprise", ""))
    assert "man" not in bash("reprise", "")
    assert bash("reprise", "dlq", "sh") == ["show"]
    assert bash("reprise", "-c", "x.yaml", "pol") == ["policy"]
    assert bash("reprise", "--config", "=", "x.yaml", "dlq", "sho") == ["show"]


def test_bash_completes_every_option(bash):
    for command in commands():
        shown = run(BIN / "reprise", *command.split(), "--help").stdout
        options = set(re.findall(r"^ +(--[a-z-]+)", shown, re.M)) | {"--config", "--help"}
        assert options == set(bash("reprise", *command.split(), "--")), command


def test_bash_completes_what_an_option_can_be(bash):
    assert bash("reprise", "dlq", "list", "--reason", "ex") == ["exhausted"]
    assert bash("reprise", "dlq", "list", "--status", "=", "repl") == ["replaying", "replayed"]
    assert bash("reprise", "dlq", "list", "--format", "") == ["table", "wide", "json"]
    assert bash("reprise", "dlq", "show", "--payload", "h") == ["hex"]
    assert bash("reprise", "dlq", "list", "--type", "") == []
    assert bash("reprise", "completion", "z") == ["zsh"]


def test_bash_completes_files(bash):
    here = str(Path(__file__).parent / "test_pag")
    assert bash("reprise", "policy", "check", here) == [str(Path(__file__))]
    assert bash("reprise", "-c", here) == [str(Path(__file__))]


class Zsh:
    """A zsh at a terminal, as somebody types into it."""

    def __init__(self, script):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], dict(os.environ, TERM="dumb", PS1="$ "))
        self.type(f"autoload -U compinit && compinit -D -u && source {script}; echo set-'up'\n")
        self.wait("set-up")

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, text):
        shown, deadline = "", time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([self.fd], [], [], 1)[0]:
                shown += os.read(self.fd, 4096).decode(errors="replace")

    def completes(self, line, expected):
        self.type(line + "\t")
        self.wait(expected)
        self.type("\x15")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_zsh_completes_commands_options_and_values(tmp_path):
    script = tmp_path / "_reprise"
    script.write_text(run(BIN / "reprise", "completion", "zsh").stdout)
    zsh = Zsh(script)
    try:
        zsh.completes("reprise pol", "policy")
        zsh.completes("reprise dlq sho", "show")
        zsh.completes("reprise -c x.yaml topics ch", "check")
        zsh.completes("reprise dlq list --reas", "--reason")
        zsh.completes("reprise dlq list --reason exh", "exhausted")
        zsh.completes("reprise dlq list --status=disc", "discarded")
        zsh.completes("reprise dlq show --payload h", "hex")
        zsh.completes("reprise completion b", "bash")
    finally:
        zsh.close()
