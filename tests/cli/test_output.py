"""What goes where: the text as it is on standard output, all else on standard error."""

import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pairs import tiny_tokenizer

from minispec.cli import options
from minispec.cli.main import app, run


def test_people_get_the_text_to_the_letter(command, document, pair):
    """No line is wrapped, no tab expanded, no `:cat:` made a picture, no `[bold]` taken for markup."""
    prompt = "[bold]:cat: of\t80 columns and more, " + "on and on " * 5
    options = ("generate --seed 2 --max-new-tokens 5 --prompt", prompt, "--pair", pair)
    text = document(*options)[0]["text"]
    assert command(*options) == (prompt + text + "\n", "")


def test_streaming_shows_the_prompt_the_marks_and_the_legend(command, document, pair):
    """The prompt unwrapped, then text with a glyph before each stretch, then the legend.

    Beside `--json` all that is on standard error, and the document is the same as without streaming.
    """
    prompt = ":dog: [red] " + "on and on " * 7
    options = ("generate --k 3 --seed 1 --prompt", prompt, "--pair", pair)
    shown, err = command(*options, "--stream")
    assert err == ""
    quiet = document(*options)[0]
    streamed, beside = document(*options, "--stream")
    assert streamed["rounds"] == quiet["rounds"] and beside == shown
    text, legend = shown.split("\n", 1)
    assert text.startswith(prompt) and "✓" in text and "★" in text
    assert "drafted and accepted" in legend


def test_the_prompt_may_come_from_standard_input(generate, refused, pair, monkeypatch):
    """`--prompt -` reads UTF-8 from standard input, whatever the terminal's encoding; closed, it is empty."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("naïve".encode()), encoding="cp1252"))
    assert generate("--max-new-tokens 1", prompt="-")["prompt_tokens"] == tiny_tokenizer().encode("naïve")
    monkeypatch.setattr(sys, "stdin", None)
    assert "the prompt is empty" in refused("generate --prompt -", "--pair", pair)


@pytest.mark.parametrize("name", ["", *(registered.name for registered in app.registered_commands)])
def test_help(name, command):
    """Every command explains itself; `minispec` alone prints help too, with status 2 and no complaint."""
    out, err = command(f"{name} --help")
    assert "--help" in out and err == ""
    if not name:
        plain, err = command("", status=2)
        assert err == "" and all(registered.name in plain for registered in app.registered_commands)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_one_line(pair):
    """Output that cannot be written is one clear line and exit status 2."""
    command = [sys.executable, "-m", "minispec", "generate", "--pair", pair, "--prompt", "a", "--json"]
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("minispec: ") and outcome.stderr.count("\n") == 1
    assert "No space left" in outcome.stderr


@pytest.mark.parametrize("line", ["--help", "generate --prompt a --max-new-tokens 3"])
def test_closed_standard_output_is_no_success(line, capsys, pair, monkeypatch):
    """What was printed is lost, so the status is not 0, and a line says so."""
    monkeypatch.setattr(sys, "stdout", None)
    more = ["--pair", str(pair)] if "generate" in line else []
    assert run([*line.split(), *more]) == 2
    assert capsys.readouterr().err == "minispec: standard output is closed: the results are lost\n"


def test_a_prompt_without_end_is_refused_early(pair):
    """50 MB, or more without end, on standard input: one line that says the limit, and little is read."""
    command = [sys.executable, "-m", "minispec", "generate", "--pair", pair, "--prompt", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, stdout=pipe) as process:
        written = 0
        with suppress(BrokenPipeError):
            while written < 50 * 2**20:
                written += process.stdin.write(b"The cat " * 2**13)
                process.stdin.flush()
        with suppress(BrokenPipeError):
            process.stdin.close()
        message = process.stderr.read()
    assert process.returncode == 2 and written < 2**22
    assert message == b"minispec: the prompt has more than 1,048,576 bytes; no context is so long\n"


def test_too_little_memory_is_one_line(refused, monkeypatch):
    """As Python says it, and as torch does."""
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9")):
        monkeypatch.setattr(options, "load_pair", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        assert "not enough memory" in refused("generate --prompt a")
