"""What a person can get wrong at the command line ends in one clear line and exit status 2."""

import os
import shutil
import subprocess
import sys

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, call, edit_json, random_models

from minispec.cli.main import run
from minispec.io.checkpoint import save_model
from minispec.native.library import native_functions

PROMPT = ("--prompt", "The cat")


def complaint(capsys, *arguments):
    """Runs a command that must fail, and returns its one line."""
    status = run([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert status == 2, err
    assert out == ""
    assert err.startswith("minispec: ") and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", ""], "prompt is empty"),
        ([], "no prompt"),
        (["--prompt", "The cat " * 200], "context holds 96"),
        (["--prompt", "\udcff"], "not UTF-8"),
        (["--prompt", "a", "--k", "-1"], "k must be at least 0"),
        (["--prompt", "a", "--k", "-1", "--drafter", "tree"], "k must be at least 0, not -1"),
        (["--prompt", "a", "--temperature", "-1"], "temperature"),
        (["--prompt", "a", "--temperature", "nan"], "temperature"),
        (["--prompt", "a", "--top-p", "0"], "top-p"),
        (["--prompt", "a", "--top-p", "1.5"], "top-p"),
        (["--prompt", "a", "--top-k", "0"], "top-k"),
        (["--prompt", "a", "--verifier", "best"], "greedy or rejection"),
        (["--prompt", "a", "--drafter", "oracle"], "choose model or ngram or suffix"),
        (["--prompt", "a", "--verifier", "greedy", "--temperature", "1"], "temperature 0"),
        (["--prompt", "a", "--max-new-tokens", "-3"], "max-new-tokens"),
        (["--prompt", "a", "--threads", "0"], "threads"),
        (["--prompt", "a", "--dtype", "int3"], "dtype"),
        (["--prompt", "a", "--device", "abacus"], "device"),
        (["--prompt", "a", "--stop", ""], "stop"),
        (["--prompt", "a", "--wings"], "--wings"),
        (["--prompt", "a", "--k", "many"], "integer"),
        (["--prompt", "a", "--k", "2.5"], "or auto"),
        (["--prompt", "The cat " * 200, "--k", "auto"], "context holds 96"),
        (["--prompt", "a", "--k", "auto", "--verifier", "greedy", "--temperature", "1"], "temperature 0"),
    ],
)
def test_generate_says_what_is_wrong(capsys, pair, arguments, words):
    """Each wrong option of `generate` is named, with what would be right."""
    assert words in complaint(capsys, "generate", "--pair", pair, *arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu(capsys, pair):
    """Asking for a GPU where there is none is a clear line."""
    assert "no GPU" in complaint(capsys, "generate", "--pair", pair, "--prompt", "a", "--device", "cuda")


def test_weights_with_nan(capsys, tmp_path):
    """Logits that are not finite end the run with a line, not with a text."""
    target, _ = random_models()
    target.norm.weight.data[0] = float("nan")
    folder = build_pair(tmp_path / "ill", target=target)
    for k in ("4", "auto"):
        assert "not finite" in complaint(capsys, "generate", "--pair", folder, "--prompt", "a", "--k", k)
    if not has_compiler():
        return
    native_functions(torch.float32)  # is built, so that nothing has to be said about it
    for backend in ("native", "auto"):
        arguments = ("--pair", folder, "--prompt", "a", "--backend", backend)
        assert "not finite" in complaint(capsys, "generate", *arguments)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"", "is empty"),
        (b"\xff\xfe\xff", "not UTF-8"),
        (b"too short", "too short"),
    ],
)
def test_texts_that_cannot_be_trained_on(capsys, minispec_home, tmp_path, content, words):
    """A text file that is missing, empty, not UTF-8 or too short is refused before any training."""
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert words in complaint(capsys, "train", "--text", path, "--out", tmp_path / "pair")
    assert not (tmp_path / "pair").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--preset", "huge"], "quick or stories or english or python"),
        (["train", "--scale", "0"], "--scale"),
        (["train", "--scale", "nan"], "--scale"),
        (["bench", "--k", "0"], "--k"),
        (["bench", "--repeats", "0"], "--repeats"),
        (["demo", "--k", "0"], "--k"),
        (["demo", "--drafter", "oracle"], "choose model or ngram or suffix"),
        (["demo", "--drafter", "ngram", "--html", "page.html"], "leave out --drafter ngram"),
        (["prove", "--drafter", "oracle"], "choose model or ngram or suffix"),
        (["dance"], "dance"),
    ],
)
def test_other_commands(capsys, minispec_home, arguments, words):
    """The other commands refuse wrong options as clearly."""
    assert words in complaint(capsys, *arguments)


def test_bytes_that_are_not_utf8(pair):
    """Bytes that are not UTF-8 are refused, as an argument and as input."""
    command = [sys.executable, "-m", "minispec", "generate", "--pair", str(pair), "--prompt"]
    for argument, given in ((b"\xff", b""), (b"-", b"\xff\xfe")):
        done = subprocess.run([*command, argument], input=given, capture_output=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(b"minispec: ") and done.stderr.count(b"\n") == 1, done.stderr
        assert b"UTF-8" in done.stderr


def test_a_folder_that_cannot_be_written(capsys, minispec_home, tmp_path):
    """A file where a folder should be: nothing is trained away, the file stays as it was."""
    text = tmp_path / "text.txt"
    text.write_text("One two three four five.\n\n" * 40 + "Six seven.\n\n" * 400, encoding="utf-8")
    blocked = tmp_path / "file"
    blocked.write_text("mine", encoding="utf-8")
    arguments = ["train", "--text", text, "--scale", "0.002", "--out", blocked / "pair"]
    assert "cannot write" in complaint_after_bars(capsys, *arguments)
    assert blocked.read_text(encoding="utf-8") == "mine"


def complaint_after_bars(capsys, *arguments):
    """Like `complaint`, for a command that has shown progress on standard output before."""
    status = run([str(a) for a in arguments])
    _, err = capsys.readouterr()
    assert status == 2 and err.count("\n") == 1, err
    return err


def test_help_of_every_command(capsys):
    """Every command explains itself."""
    for command in ("demo", "train", "generate", "bench"):
        assert run([command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_closed_pipe_and_ctrl_c_end_quietly(pair, tmp_path):
    """A reader that goes away, or Ctrl-C, leaves no traceback."""
    import signal
    import time

    command = f"{sys.executable} -m minispec generate --pair {pair} --prompt a --stream | head -c 5"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr
    # A parent that runs in the background may have set Ctrl-C to be ignored; a terminal has not.
    listen = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = f"{listen}from minispec.cli import main; print('here', flush=True); main(sys.argv[1:])"
    waiting = subprocess.Popen(
        [sys.executable, "-c", start, "generate", "--pair", str(pair), "--prompt", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert waiting.stdout.readline() == b"here\n"
    time.sleep(0.5)  # by then it waits for its prompt, or will soon
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130 and b"Traceback" not in err, err


# Damaged pairs and unusable folders, through every command.


@pytest.fixture
def refused(capsys, minispec_home):
    """Runs a command that must be refused; returns the one line that it says."""

    def run(*arguments):
        status, out, err = call(capsys, *arguments)
        assert (status, out) == (2, "")
        assert err.startswith("minispec: ") and err.endswith("\n") and err.count("\n") == 1
        return err

    return run


def truncate(folder):
    path = folder / "draft/model.safetensors"
    path.write_bytes(path.read_bytes()[:500])


DAMAGE = {
    "truncated": (truncate, "draft/model.safetensors cannot be read as safetensors"),
    "no config": (
        lambda folder: (folder / "target/config.json").unlink(),
        "target/config.json cannot be read",
    ),
    "foreign": (lambda folder: edit_json(folder / "draft/config.json", model_type="gpt2"), "reads 'llama'"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is not a tokenizer file"),
    "bad record": (lambda folder: edit_json(folder / "pair.json", prompts=[["a"]]), "should hold token ids"),
    "vocabularies": (
        lambda folder: save_model(random_models(vocab_size=299)[1], folder / "draft"),
        "draft and target must share one vocabulary",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_pair_is_refused_by_every_command(name, refused, pair, tmp_path):
    """Each command names the file and the reason before it prints anything."""
    damage, says = DAMAGE[name]
    shutil.copytree(pair, tmp_path / "bad")
    damage(tmp_path / "bad")
    for command in (("generate", *PROMPT), ("demo", "--no-train"), ("bench",)):
        assert says in refused(*command, "--pair", tmp_path / "bad")


def test_an_unknown_pair_is_refused_by_every_command(refused, pair, minispec_home):
    """Each command says which pairs there are, whatever the name is made of."""
    shutil.copytree(pair, minispec_home / "mine")
    for name in ("nope", "", "/no/such/folder", "\udcff", "a\0b"):
        for command in (("generate", *PROMPT), ("demo", "--no-train"), ("bench",)):
            says = refused(*command, "--pair", name)
            assert "there is no pair called" in says and "mine" in says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("generate", *PROMPT, "--temperature", "inf"), "not inf"),
        (("generate", *PROMPT, "--top-p", "nan"), "top-p must be above 0 and at most 1, not nan"),
        (("generate", *PROMPT, "--threads", 10**12), "'--threads'"),
        (("generate", *PROMPT, "--seed", -1), "'--seed'"),
        (("generate", *PROMPT, "--seed", 10**30), "'--seed'"),
        (("generate", *PROMPT, "--device", "cpu:x"), "--device 'cpu:x' is unknown"),
        (("generate", *PROMPT, "stray"), "stray"),
        (("demo", "--no-train", "--prompt", ""), "the prompt is empty"),
        (("demo", "--no-train", "--prompt", "\udcff"), "the prompt is not UTF-8"),
        (("demo", "--no-train", "--prompt", "word " * 200), "the context holds 96"),
        (("demo", "--no-train", "--max-new-tokens", 0), "--max-new-tokens must be at least 1"),
        (("bench", "--k", 3, "--k", -2), "--k': Input should be greater than or equal to 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_extreme_options_are_refused(arguments, says, refused, pair):
    """Numbers that are infinite, undefined or absurd, and texts that are none, are named."""
    assert says in refused(*arguments, "--pair", pair)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--scale", "1e308"), "--scale must be above 0 and at most 1000"),
        (("--scale", -1), "--scale must be above 0"),
        (("--tokenizer", "words"), "choose bpe or characters"),
        (("--seed", -1), "'--seed'"),
        (("--text", "/no/such/text"), "cannot be read"),
    ],
)
def test_train_refuses_before_it_makes_anything(arguments, says, refused, minispec_home):
    """A wrong option of `train` leaves no file."""
    assert says in refused("train", *arguments)
    assert list(minispec_home.iterdir()) == []


def test_a_text_of_two_short_passages_is_too_short(refused, tmp_path, minispec_home):
    """A text that can be split but fills no window is refused too."""
    (tmp_path / "book.txt").write_bytes(b"two\n\n" + b"short " * 70 + b"\n\nones")
    assert "too short to train on" in refused("train", "--text", tmp_path / "book.txt")
    assert list(minispec_home.iterdir()) == []


def test_train_refuses_a_folder_before_it_trains(refused, tmp_path, minispec_home):
    """Where other files are, or no pair can be, is known before the training, and nothing is lost."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/thesis.txt").write_text("years", encoding="utf-8")
    for path in (tmp_path / "work", tmp_path / "work/thesis.txt", tmp_path / "work/thesis.txt/pair"):
        assert "cannot write a pair to" in refused("train", "--out", path)
    assert (tmp_path / "work/thesis.txt").read_text(encoding="utf-8") == "years"
    assert list(minispec_home.iterdir()) == []
