"""For all tests of the command line: a tiny pair that none of them changes, and ways to run a command.

A command is given as a person types it; what follows it, such as paths, is not split.
"""

import json
import shlex

import pytest
from pairs import build_pair, call

BUILDING = "building the native backend, once: some seconds\n"  # which test it hits depends on their order


@pytest.fixture(scope="session", autouse=True)
def built(libraries):
    """The native library, which the commands would else build."""


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Returns the folder of a pair of random models."""
    return build_pair(tmp_path_factory.mktemp("pairs") / "tiny")


@pytest.fixture
def command(capsys):
    """Runs a command; returns standard output and standard error."""

    def run(line, *arguments, status=0):
        code, out, err = call(capsys, *shlex.split(line), *arguments)
        assert code == status, err
        return out, err.replace(BUILDING, "")

    return run


@pytest.fixture
def document(command):
    """Runs a command with `--json`; returns its document and what people read."""

    def run(line, *arguments, status=0):
        out, err = command(line, *arguments, "--json", status=status)
        return json.loads(out), err

    return run


@pytest.fixture
def refused(command):
    """Runs a command that must be refused before it prints anything; returns the one line that it says."""

    def run(line, *arguments):
        out, err = command(line, *arguments, status=2)
        assert out == "" and err.startswith("minispec: ") and err.endswith("\n") and err.count("\n") == 1, err
        return err

    return run


@pytest.fixture
def generate(document, pair):
    """Runs `generate --json`, which says nothing else; returns its document."""

    def run(line="", *arguments, folder=pair, prompt="The cat sat"):
        report, err = document(f"generate {line}", "--pair", folder, "--prompt", prompt, *arguments)
        assert err == ""
        return report

    return run
