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
from pairs import build_pair, edit_json, random_models, tiny_tokenizer

from minispec import __version__, load_pair, load_tokenizer
from minispec.cli.main import print_error
from minispec.io.checkpoint import save_model
from minispec.io.source import load_model, load_models
from minispec.io.tokenizer import train_tokenizer
from minispec.native.backend import on_backend


@pytest.fixture
def trainings(monkeypatch):
    """Where pairs would have been trained; nothing is."""
    folders = []

    def noting(recipe, folder, *_, **__):
        folders.append(folder)
        raise ValueError("it would be trained")

    monkeypatch.setattr("minispec.cli.train.train_and_publish", noting)
    return folders


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--target target --drafter model", "the drafter model needs a draft model: give one with --draft"),
        ("--target target --drafter tree", "the drafter tree needs a draft model"),
        ("--draft draft", "--draft names a draft for the model of --target: give that, too"),
        ("--target target --draft draft --pair stories", "exclude each other"),
        (
            "--target no --draft draft",
            "there is no folder or file no, and on a hub names have the form owner/name",
        ),
        ("--target target --draft alone", "must share one vocabulary: id"),
        ("--target target --draft small", "the draft has 299 tokens, the target 300"),
        ("--target ../bare/target --draft draft", "has no tokenizer.json, nor has the folder"),
    ],
)
def test_what_does_not_go_together_is_one_line(refused, pair, tmp_path, monkeypatch, options, words):
    """A draft alone, a drafter without one, a pair besides, no folder, other vocabularies or tokenizers."""
    copy = shutil.copytree(pair, tmp_path / "pair")
    monkeypatch.chdir(copy)
    shutil.copytree(copy / "draft", copy / "alone")
    train_tokenizer(["abc abc"] * 9 + ["q" * 9], "bpe", 300).save(copy / "alone" / "tokenizer.json")
    (copy / "small").mkdir()
    save_model(random_models(vocab_size=299)[1], copy / "small")
    shutil.copytree(copy / "target", tmp_path / "bare" / "target")
    assert words in refused(f"generate --prompt a {options}")


def test_folders_may_be_texts(pair):
    """Whatever takes a folder takes it as a str, too."""
    loaded = load_models(str(pair / "target"), str(pair / "draft"))
    assert loaded.name == "target + draft"
    for path in (str(pair / "tokenizer.json"), str(pair), pair):
        assert load_tokenizer(path).vocab_size == loaded.tokenizer.vocab_size


@pytest.mark.parametrize("name", ["stories", "runs", "native", ".hidden", "a\x1b[31m", "\udcff"])
def test_a_name_that_no_pair_can_have_is_refused_before_the_training(
    name, refused, minispec_home, tmp_path, trainings
):
    """One that would hide a shipped pair or a folder of the cache, or cannot be printed; nothing is made."""
    err = refused("train --text", tmp_path / f"{name}.txt")
    assert err.strip().isprintable() and trainings == []
    assert ("comes with the package" if name == "stories" else "is no name for a pair") in err
    assert list(minispec_home.iterdir()) == []


def test_a_preset_does_not_hide_the_shipped_pair(refused, minispec_home, tmp_path, trainings):
    """`--preset stories` needs a folder, and with one it is trained."""
    assert "give the pair another folder with --out" in refused("train --preset stories")
    assert trainings == []
    assert "it would be trained" in refused("train --preset stories --out", tmp_path / "mine")
    assert trainings == [tmp_path / "mine"]


@pytest.mark.parametrize("in_the_cache", [True, False])
def test_out_does_not_hide_the_shipped_pair_either(
    in_the_cache, refused, minispec_home, tmp_path, monkeypatch, trainings
):
    """Pairs are looked for in this folder and in the cache, before those of the package."""
    monkeypatch.chdir(tmp_path)
    err = refused("train --out", minispec_home / "stories" if in_the_cache else "stories")
    assert "comes with the package" in err and trainings == []


def test_a_cache_that_cannot_be_written_is_refused_before_the_training(refused, tmp_path, monkeypatch):
    """It is where a training keeps its state, wherever the pair goes."""
    monkeypatch.setattr("minispec.cli.train.train_pair", lambda *_, **__: pytest.fail("it was trained"))
    monkeypatch.setenv("MINISPEC_HOME", "/dev/null/here")
    assert "cannot write /dev/null/here/runs" in refused("train --out", tmp_path / "pair")
    assert "cannot write /dev/null/here" in refused("train --drafter medusa --out /dev/null/here")


@pytest.mark.skipif(os.name == "nt", reason="paths and links of POSIX")
@pytest.mark.parametrize("where", ["n" * 250, f"{'n' * 300}/pair", "round", "\udcff\x1b" + "n" * 250])
def test_a_folder_that_cannot_be_made_is_refused_before_the_training(
    where, refused, minispec_home, tmp_path, monkeypatch, trainings
):
    """Names that are too long, here or above, and a link that leads to itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "round").symlink_to("round")
    assert "cannot write " in refused("train --out", where) and trainings == []
    assert sorted(path.name for path in tmp_path.iterdir() if path != minispec_home) == ["round"]


def test_a_name_with_escape_sequences_is_refused_in_a_pair(tmp_path):
    """What `pair.json` calls a pair is printed by several commands."""
    folder = build_pair(tmp_path / "pair")
    for name in ("\x1b[2Jpair", 5):
        edit_json(folder / "pair.json", name=name)
        with pytest.raises(ValueError, match="name should be a text that can be printed"):
            load_pair(folder)


def test_messages_do_not_control_the_terminal(capsys):
    """Escape sequences in a message are shown as text."""
    assert print_error("no \x1b[31mfile\x07\u202e") == 2
    assert capsys.readouterr().err == "minispec: no \\x1b[31mfile\\x07\\u202e\n"


def test_the_version(command):
    """`--version` prints it and ends."""
    assert command("--version") == (f"minispec {__version__}\n", "")


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
