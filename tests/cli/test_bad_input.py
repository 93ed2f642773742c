"""What a person can get wrong at the command line ends in one clear line and exit status 2."""

import io
import os
import shutil
import subprocess
import sys

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, call, random_models

from minispec.native.library import native_functions

LONG = "The cat " * 200
COMMANDS = ("generate --prompt a", "demo --no-train", "bench")
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
WRONG = [  # with a pair
    ("generate", "no prompt"),
    ("generate --prompt ''", "prompt is empty"),
    (f"generate --prompt '{LONG}'", "context holds 96"),
    (f"generate --prompt '{LONG}' --k auto", "context holds 96"),
    ("generate --prompt \udcff", "not UTF-8"),
    ("generate --prompt a --k -1", "k must be at least 0"),
    ("generate --prompt a --k -1 --drafter tree", "k must be at least 0, not -1"),
    ("generate --prompt a --k many", "integer"),
    ("generate --prompt a --k many --target-only", "integer"),
    ("generate --prompt a --k 2.5", "or auto"),
    ("generate --prompt a --k auto --drafter exit", "give a number, such as --k 4"),
    ("generate --prompt a --temperature -1", "temperature"),
    ("generate --prompt a --temperature nan", "temperature"),
    ("generate --prompt a --temperature inf", "not inf"),
    ("generate --prompt a --top-p 1.5", "top-p must be above 0 and at most 1, not 1.5"),
    ("generate --prompt a --top-k 0", "top-k"),
    ("generate --prompt a --verifier best", "greedy or rejection"),
    ("generate --prompt a --verifier greedy --temperature 1", "temperature 0"),
    ("generate --prompt a --verifier greedy --temperature 1 --k auto", "temperature 0"),
    ("generate --prompt a --verifier typical --drafter tree", "the typical verifier is for chains"),
    ("generate --prompt a --drafter oracle", "choose model or ngram or suffix"),
    ("generate --prompt a --drafter medusa", "minispec train --drafter medusa --pair"),
    ("generate --prompt a --exact --backend native", "leave out --backend native"),
    ("generate --prompt a --exact --backend auto", "leave out --backend auto"),
    ("generate --prompt a --max-new-tokens -3", "max-new-tokens"),
    ("generate --prompt a --threads 0", "'--threads'"),
    ("generate --prompt a --threads 1000000000000", "'--threads'"),
    ("generate --prompt a --seed -1", "'--seed'"),
    ("generate --prompt a --seed 4294967296", "'--seed'"),
    ("generate --prompt a --dtype int3", "dtype"),
    ("generate --prompt a --dtype int8", "8 bits: use --backend native"),
    ("generate --prompt a --device abacus", "device"),
    ("generate --prompt a --device cpu:x", "--device 'cpu:x' is unknown"),
    pytest.param("generate --prompt a --device cuda", "no GPU", marks=NO_GPU),
    ("generate --prompt a --stop ''", "stop"),
    ("generate --prompt a --wings", "--wings"),
    ("generate --prompt a stray", "stray"),
    *((f"{command} --backend lean", "choose torch or native or auto") for command in COMMANDS),
    ("demo --no-train --prompt ''", "the prompt is empty"),
    ("demo --no-train --prompt \udcff", "the prompt is not UTF-8"),
    (f"demo --no-train --prompt '{LONG}'", "the context holds 96"),
    ("demo --no-train --max-new-tokens 0", "'--max-new-tokens': Input should be greater than or equal to 1"),
    ("demo --k 0", "--k must be at least 1"),
    ("demo --drafter oracle", "choose model or ngram or suffix"),
    ("demo --drafter ngram --html page.html", "leave out --drafter ngram"),
    ("demo --drafter medusa", "give a number, such as --k 4"),
    ("demo --verifier best", "greedy or rejection"),
    ("demo --verifier block --drafter tree --k 4", "the block verifier is for chains"),
    ("demo --verifier block --html page.html", "leave out --verifier"),
    ("demo --html nowhere/page.html", "cannot write nowhere/page.html: there is no folder"),
    ("demo --html /", "is a folder"),
    ("train --drafter medusa", "does not say which text the pair was trained on"),
    ("train", "--pair names the target that a --drafter is trained for"),
]
WRONG_WITHOUT_PAIR = [
    ("generate --prompt a --drafter exit --exact", "leave out --exact"),
    ("prove --drafter oracle", "choose model or ngram or suffix"),
    ("prove --backend lean", "choose torch or native or auto"),
    ("dance", "dance"),
    ("train --preset huge", "quick or stories or english or python"),
    ("train --scale 0", "--scale must be above 0"),
    ("train --scale nan", "--scale"),
    ("train --scale 1000.5", "--scale must be above 0 and at most 1000"),
    ("train --tokenizer words", "choose bpe or characters"),
    ("train --seed -1", "'--seed'"),
    ("train --device tpu", "--device 'tpu' is unknown"),
    ("train --text /no/such/text", "cannot be read"),
    ("train --parallel both", "--parallel 'both' is unknown; choose ddp or fsdp"),
    ("train --parallel fsdp", "torchrun --nproc-per-node 2 -m minispec train --parallel fsdp"),
    ("train --accumulate 7", "32 sequences, which cannot be cut into 7 equal parts"),
    ("train --accumulate 0", "'--accumulate'"),
    ("train --drafter exit --parallel ddp --accumulate 2", "leave out --parallel and --accumulate"),
    ("train --drafter medusa --for x", "--for names the target of --drafter eagle3"),
    ("train --for x", "give --drafter eagle3, too"),
    ("train --drafter eagle3 --device cuda", "leave out --device"),
    ("train --drafter model", "--drafter 'model' is unknown; choose exit or medusa"),
    ("train --drafter exit --text a.txt", "leave out --text"),
    ("train --drafter exit --preset quick --fresh", "leave out --preset and --fresh"),
    ("train --drafter exit --device tpu", "--device 'tpu' is unknown"),
    ("train --drafter exit --pair nowhere", "there is no pair called 'nowhere'"),
    ("train --drafter exit --scale 0", "--scale must be above 0"),
    (f"train --drafter exit --out {__file__}", "File exists"),
    ("export stories", "Missing argument 'folder'"),
    ("export nowhere out", "there is no pair called 'nowhere'"),
    (f"export stories {__file__}", "cannot write "),
    (f"export stories {__file__}/out", "is not a folder"),
]


@pytest.mark.parametrize(("line", "words"), WRONG)
def test_a_wrong_option_is_named(line, words, refused, pair, minispec_home):
    """With what would be right; and nothing is made or built."""
    assert words in refused(line, "--pair", pair)
    assert list(minispec_home.iterdir()) == []


@pytest.mark.parametrize(("line", "words"), WRONG_WITHOUT_PAIR)
def test_a_wrong_option_of_another_command_is_named(line, words, refused, minispec_home):
    """Before anything is trained or made."""
    assert words in refused(line)
    assert list(minispec_home.iterdir()) == []


def test_processes_that_do_not_know_of_each_other(refused, minispec_home, monkeypatch):
    """What torchrun has started must share the training; each would train it for itself."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "2 processes were started: say with --parallel ddp or fsdp" in refused("train")
    assert list(minispec_home.iterdir()) == []


def test_weights_with_nan(refused, tmp_path):
    """Logits that are not finite end the run with a line, not with a text."""
    target, _ = random_models()
    target.norm.weight.data[0] = float("nan")
    folder = build_pair(tmp_path / "ill", target=target)
    settings = ["--k 4", "--k auto"]
    if has_compiler():
        native_functions(torch.float32)  # is built, so that nothing has to be said about it
        settings += ["--backend native", "--backend auto"]
    for setting in settings:
        assert "not finite" in refused(f"generate --prompt a {setting}", "--pair", folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\xff", "not UTF-8"),
        (b"too short", "too short"),
        (b"two\n\n" + b"short " * 70 + b"\n\nones", "too short to train on"),
    ],
)
def test_texts_that_cannot_be_trained_on(content, words, refused, minispec_home, tmp_path):
    """One that is empty, not UTF-8, too short, or can be split but fills no window: before any training."""
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    assert words in refused("train --text", path)
    assert list(minispec_home.iterdir()) == []


def test_a_prompt_of_bytes_that_are_no_text(refused, pair, monkeypatch):
    """Standard input is read as bytes, whatever its encoding."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="latin-1"))
    assert "UTF-8" in refused("generate --prompt -", "--pair", pair)


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
def test_a_closed_pipe_ends_quietly(pair):
    """A reader that goes away leaves no traceback."""
    command = f"{sys.executable} -m minispec generate --pair {pair} --prompt a --stream | head -c 5"
    outcome = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert b"Traceback" not in outcome.stderr and b"Exception" not in outcome.stderr


def test_ctrl_c_is_one_line(pair, monkeypatch, capsys):
    """Wherever it comes, here while the prompt is awaited."""

    class Interrupted:
        @property
        def buffer(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    outcome = call(capsys, "generate", "--pair", pair, "--prompt", "-")
    assert outcome == (130, "", "minispec: interrupted\n")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_pair_that_cannot_be_loaded_is_refused(line, refused, pair, tmp_path, minispec_home):
    """Of a damaged one the line names the file; of an unknown one it says which pairs there are."""
    shutil.copytree(pair, tmp_path / "bad")
    (tmp_path / "bad/target/config.json").unlink()
    assert "target/config.json cannot be read" in refused(line, "--pair", tmp_path / "bad")
    shutil.copytree(pair, minispec_home / "mine")
    for name in ("nope", "", "\udcff", "a\0b"):
        message = refused(line, "--pair", name)
        assert "there is no pair called" in message and "mine" in message


def test_train_refuses_a_folder_before_it_trains(refused, tmp_path, minispec_home):
    """Where other files are, or no pair can be, is known before the training, and nothing is lost."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/thesis.txt").write_text("years", encoding="utf-8")
    for path in (tmp_path / "work", tmp_path / "work/thesis.txt", tmp_path / "work/thesis.txt/pair"):
        assert "cannot write " in refused("train --out", path)
    assert (tmp_path / "work/thesis.txt").read_text(encoding="utf-8") == "years"
    assert list(minispec_home.iterdir()) == []
