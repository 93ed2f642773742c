"""What goes where: the text as it is on standard output, all else on standard error."""

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pairs import call, tiny_tokenizer

from minispec.cli import options

PROMPT = "The cat sat"


def test_people_get_the_text_to_the_letter(capsys, pair):
    """No line is wrapped, no tab expanded, no `:cat:` made a picture, no `[bold]` taken for markup."""
    prompt = "[bold]:cat: of\t80 columns and more, " + "on and on " * 5
    options = ("generate", "--pair", pair, "--prompt", prompt, "--seed", 2, "--max-new-tokens", 5)
    text = json.loads(call(capsys, *options, "--json")[1])["text"]
    assert call(capsys, *options) == (0, prompt + text + "\n", "")


def test_streaming_shows_the_prompt_the_marks_and_the_legend(capsys, pair):
    """`--stream` shows the prompt unwrapped, then text with a glyph before each stretch, then the legend."""
    prompt = ":dog: [red] " + "on and on " * 7
    status, out, err = call(capsys, "generate", "--pair", pair, "--prompt", prompt, "--stream", "--k", 3)
    assert (status, err) == (0, "")
    assert out.startswith(prompt) and "✓" in out and "★" in out
    assert "drafted and accepted" in out.split("\n", 1)[1]


def test_a_terminal_gets_no_control_sequences(capsys, pair, monkeypatch):
    """A prompt's are written out where people read, and stay as they are where a program does."""
    prompt = "The \x1b[2Jcat"
    options = ("generate", "--pair", pair, "--prompt", prompt, "--max-new-tokens", 2)
    assert call(capsys, *options)[1].startswith(prompt)
    assert call(capsys, *options, "--stream")[1].startswith(r"The \x1b[2Jcat")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = call(capsys, *options)[1]
    assert shown.startswith(r"The \x1b[2Jcat") and "\x1b" not in shown


def test_streaming_beside_json_goes_to_standard_error(capsys, pair):
    """With both, standard output is one JSON document, the same as without streaming."""
    options = ("generate", "--pair", pair, "--prompt", PROMPT, "--json", "--seed", 1)
    quiet = json.loads(call(capsys, *options)[1])
    status, out, err = call(capsys, *options, "--stream")
    assert status == 0 and json.loads(out)["rounds"] == quiet["rounds"]
    assert err.startswith(PROMPT) and "✓" in err


def test_the_prompt_may_come_from_standard_input(capsys, pair, monkeypatch):
    """`--prompt -` reads UTF-8 from standard input, whatever the terminal's encoding; closed, it is empty."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("naïve".encode()), encoding="cp1252"))
    options = ("generate", "--pair", pair, "--prompt", "-", "--json", "--max-new-tokens", 1)
    assert json.loads(call(capsys, *options)[1])["prompt_tokens"] == tiny_tokenizer().encode("naïve")
    monkeypatch.setattr(sys, "stdin", None)
    assert call(capsys, *options)[::2] == (
        2,
        'minispec: the prompt is empty; give at least one character, such as --prompt "The cat"\n',
    )


def test_without_a_command_there_is_help(capsys):
    """`minispec` alone prints the help that `--help` prints, with exit status 2 and no empty complaint."""
    asked, plain = call(capsys, "--help"), call(capsys)
    assert (asked[0], plain[0]) == (0, 2) and asked[2] == plain[2] == ""
    assert all(command in plain[1] for command in ("demo", "train", "generate", "bench"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_one_line(pair):
    """Output that cannot be written is one clear line and exit status 2."""
    command = [sys.executable, "-m", "minispec", "generate", "--pair", pair, "--prompt", "a", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert done.returncode == 2
    assert done.stderr.startswith("minispec: ") and done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="descriptors are closed by a shell of POSIX")
def test_closed_standard_output_is_no_success(pair):
    """What was printed is lost, so the status is not 0, and a line says so."""
    start = f"{sys.executable} -m minispec"
    for command, status in (
        (f"generate --pair {pair} --prompt a --json", 2),
        ("--help", 2),
    ):
        done = subprocess.run(["sh", "-c", f"{start} {command} >&-"], capture_output=True, text=True)
        assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
        assert done.stderr == "minispec: standard output is closed: the results are lost\n"


def test_a_prompt_without_end_is_refused_early(pair):
    """50 MB, or more without end, on standard input: one line that says the limit, and little is read."""
    command = [sys.executable, "-m", "minispec", "generate", "--pair", pair, "--prompt", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        written = 0
        with suppress(BrokenPipeError):
            while written < 50 * 2**20:
                written += run.stdin.write(b"The cat " * 2**13)
                run.stdin.flush()
        with suppress(BrokenPipeError):
            run.stdin.close()
        said, printed = run.stderr.read(), run.stdout.read()
    assert run.returncode == 2 and printed == b"" and written < 2**22
    assert said == b"minispec: the prompt has more than 1,048,576 bytes; no context is so long\n"


def test_a_long_name_is_shortened(capsys, minispec_home):
    """Neither a pair's name nor what another option is given is echoed whole."""
    for odd in (("--pair", "x" * 5000), ("--device", "d" * 5000), ("--k", "9" * 4000 + "x")):
        status, out, said = call(capsys, "generate", "--prompt", "a", *odd)
        assert (status, out) == (2, "") and said.count("\n") == 1 and len(said) < 1100
    said = call(capsys, "generate", "--prompt", "a", "--pair", "x" * 5000)[2]
    assert "there is no pair called 'xxx" in said and len(said) < 300


def test_too_little_memory_is_one_line(capsys, pair, monkeypatch):
    """As Python says it, and as torch does."""
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9")):
        monkeypatch.setattr(options, "open_pair", lambda *_, error=error: (_ for _ in ()).throw(error))
        status, _, said = call(capsys, "generate", "--prompt", "a", "--pair", pair)
        assert status == 2 and "not enough memory" in said and said.count("\n") == 1
