"""The commands of the page on SmolLM2, on a small model of its name: from a loopback hub, and as a file."""

import re
import shlex
from pathlib import Path

import pytest
from gguf_files import byte_level, write_gguf
from loopback_hub import COMMIT, Hub, forget_library, serving, settings_of
from native_models import needs_compiler
from pairs import call, random_models, tiny_tokenizer

from minispec.io.checkpoint import save_model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "real_model.md"
TEXT = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
COMMANDS = [shlex.split(command)[1:] for command in re.findall(r"^minispec generate .*", TEXT, re.M)]


@needs_compiler
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[2])
def test_the_commands_run(command, capsys, tmp_path, monkeypatch):
    """They print the prompt and more, and name a model of a hub with its commit."""
    monkeypatch.chdir(tmp_path)
    what = command[command.index("--target") + 1]
    model = random_models()[0]
    if what.endswith(".gguf"):
        Path(what).parent.mkdir(parents=True)
        write_gguf(what, model, tokenizer=byte_level(tiny_tokenizer()))
    folder = tmp_path / "hub"
    save_model(model, folder)
    tiny_tokenizer().save(folder / "tokenizer.json")
    with serving(Hub(folder, what)) as address:
        for name, value in settings_of(address, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        forget_library(monkeypatch)
        status, out, err = call(capsys, *command)
    prompt = command[command.index("--prompt") + 1]
    assert status == 0 and out.startswith(prompt) and len(out) > len(prompt) + 10, err
    assert (f"--target {what}@{COMMIT}" in err) == (not what.endswith(".gguf"))


def test_both_ways_are_there():
    """The page has a command for each."""
    assert len(COMMANDS) == 2
