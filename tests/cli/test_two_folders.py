"""Two models from folders of their own, checks before the work, and what every command shares."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from gguf_files import byte_level, write_gguf
from loopback_hub import COMMIT, MODEL, Hub, forget_library, serving, settings_of
from native_models import needs_compiler
from pairs import tiny_tokenizer

from minispec.cli.main import print_error
from minispec.io.source import load_model, load_models
from minispec.native.backend import on_backend


def test_two_folders_are_as_good_as_a_pair(document, pair):
    """The same text as with `--pair`, whose folders they are."""
    line = "generate --prompt 'The cat' --max-new-tokens 12"
    folders = ("--target", pair / "target", "--draft", pair / "draft")
    texts = [document(line, *which)[0]["tokens"] for which in (folders, ("--pair", pair))]
    assert texts[0] == texts[1] and len(texts[0]) == 12


@needs_compiler
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_target_alone_drafts_by_look_up(backend, document, pair, tmp_path):
    """From a folder or a GGUF file, the text of the target alone, by automatic choice."""
    write_gguf(tmp_path / "model.gguf", load_model(pair / "target"), tokenizer=byte_level(tiny_tokenizer()))
    line = f"generate --prompt 'The cat sat. The cat' --temperature 0 --backend {backend}"
    for target in (pair / "target", tmp_path / "model.gguf"):
        report, err = document(line, "--target", target)
        alone, _ = document(f"{line} --target-only", "--pair", pair)
        assert report["tokens"] == alone["tokens"] and report["drafter"] == "auto" and err == ""


@needs_compiler
def test_a_target_alone_is_in_memory_once(pair):
    """Its draft is itself, with the native backend and in 8 bits, too."""
    loaded = load_models(pair / "target")
    for models in (loaded, replace(loaded, kept=torch.int8)):
        computed = on_backend(models, "native")
        assert computed.draft is computed.target
    assert on_backend(loaded, "torch").draft is loaded.target


def test_a_model_on_a_hub_is_named_with_its_commit(document, pair, tmp_path, monkeypatch):
    """On standard error, as it can be had again; a name that has it already is not repeated."""
    shutil.copyfile(
        pair / "tokenizer.json", shutil.copytree(pair / "target", tmp_path / "hub") / "tokenizer.json"
    )
    with serving(Hub(tmp_path / "hub")) as address:
        for name, value in settings_of(address, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        forget_library(monkeypatch)
        line = "generate --prompt 'The cat' --max-new-tokens 5 --target"
        report, err = document(f"{line} {MODEL}")
        assert err == f"--target {MODEL}@{COMMIT}\n" and len(report["tokens"]) == 5
        again, err = document(f"{line} {MODEL}@{COMMIT}")
        assert err == "" and again["tokens"] == report["tokens"]


def test_messages_do_not_control_the_terminal(capsys):
    """Escape sequences in a message are shown as text."""
    assert print_error("no \x1b[31mfile\x07\u202e") == 2
    assert capsys.readouterr().err == "minispec: no \\x1b[31mfile\\x07\\u202e\n"


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_ctrl_c_while_importing_is_one_line(tmp_path):
    """`python -m minispec` imports torch for seconds: Ctrl-C then is a line and status 130."""
    # It takes the place of torch, and tells when it is imported.
    (tmp_path / "torch.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    listen = "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = f"{listen}os.execv(sys.executable, [sys.executable, '-m', 'minispec', 'doctor'])"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    waiting = subprocess.Popen(
        [sys.executable, "-c", start],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert waiting.stdout.readline() == b"here\n"
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, err) == (130, b"minispec: interrupted\n")
