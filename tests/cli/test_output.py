"""What goes where: the text as it is on standard output, all else on standard error."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pairs import call, tiny_tokenizer

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
