"""What a person can get wrong at the command line ends in one line that names it, and exit status 2."""

import io
import os
import shutil
import subprocess
import sys

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, call, random_models

from minispec.io.checkpoint import save_model
from minispec.io.tokenizer import train_tokenizer
from minispec.native.library import native_functions

LONG = "The cat " * 200
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
# Commands, run beside a pair called `tiny`, and what the line must name.
GENERATE = [
    ("", "prompt"),
    ("--prompt ''", "prompt"),
    (f"--prompt '{LONG}'", "context"),
    (f"--prompt '{LONG}' --k auto", "context"),
    ("--prompt \udcff", "UTF-8"),
    *(
        (f"--prompt a {line}", line.split()[-2])
        for line in ("--k many", "--k 2.5", "--seed -1", "--threads 0")
    ),
    *(
        (f"--prompt a --{line}", line.split()[0])
        for line in ("top-k 0", "top-p 1.5", "dtype int3", "wings 2")
    ),
    *((f"--prompt a --temperature {value}", "temperature") for value in ("-1", "nan", "inf")),
    ("--prompt a --k -1", "k must"),
    ("--prompt a --k -1 --drafter tree", "k must"),
    ("--prompt a --k many --target-only", "--k"),
    ("--prompt a --k auto --drafter exit", "--k"),
    ("--prompt a --verifier best", "best"),
    ("--prompt a --verifier greedy --temperature 1", "temperature"),
    ("--prompt a --verifier greedy --temperature 1 --k auto", "temperature"),
    ("--prompt a --verifier typical --drafter tree", "typical"),
    ("--prompt a --drafter oracle", "oracle"),
    ("--prompt a --drafter medusa", "medusa"),
    ("--prompt a --drafter exit --exact", "--exact"),
    ("--prompt a --exact --backend native", "--backend"),
    ("--prompt a --backend lean", "lean"),
    ("--prompt a --max-new-tokens -3", "max-new-tokens"),
    ("--prompt a --threads 1000000000000", "--threads"),
    ("--prompt a --seed 4294967296", "--seed"),
    ("--prompt a --dtype int8", "--backend native"),
    ("--prompt a --device abacus", "abacus"),
    ("--prompt a --device cpu:x", "cpu:x"),
    pytest.param("--prompt a --device cuda", "cuda", marks=NO_GPU),
    ("--prompt a --stop ''", "stop"),
    ("--prompt a --system Hi", "--chat"),
    ("--prompt a stray", "stray"),
    ("--prompt a --batch-size 2", "--requests"),
    ("--requests nowhere.jsonl", "nowhere.jsonl"),
    ("--requests .", "folder"),
    ("--requests a.jsonl --batch-size 0", "--batch-size"),
    *(
        (f"--requests a.jsonl --{more}", f"--{more.split()[0]}")
        for more in ("prompt a", "stop a", "stream", "logprobs", "json", "k auto")
    ),
]
MODELS = [  # models that are no pair, or none
    ("--pair nope", "'nope'"),
    ("--pair 'a\0b'", "no pair"),
    ("--pair bad", "target/config.json"),
    ("--target tiny/target --drafter model", "--draft"),
    ("--target tiny/target --drafter tree", "--draft"),
    ("--draft tiny/draft", "--target"),
    ("--target tiny/target --draft tiny/draft --pair stories", "exclude"),
    ("--target no --draft tiny/draft", "file no"),
    ("--target tiny/target --draft tiny/alone", "vocabulary"),
    ("--target tiny/target --draft tiny/small", "299"),
    ("--target bare/target --draft tiny/draft", "tokenizer.json"),
]
COMMANDS = [
    ("demo --no-train --prompt '' --pair tiny", "prompt"),
    ("demo --no-train --prompt \udcff", "UTF-8"),
    (f"demo --no-train --prompt '{LONG}' --pair tiny", "context"),
    ("demo --max-new-tokens 0", "max-new-tokens"),
    ("demo --k 0", "--k"),
    ("demo --html nowhere/page.html --pair tiny", "nowhere/page.html"),
    ("demo --html / --pair tiny", "folder"),
    ("bench --backend lean", "lean"),
    ("bench --section weather", "weather"),
    ("bench --quick --full", "--full"),
    ("bench --k 17", "'--k'"),
    ("bench --output missing/report.json", "missing/report.json"),
    pytest.param("bench --device cuda", "cuda", marks=NO_GPU),
    ("bench --target tiny/target --draft tiny/draft", "--prompts"),
    ("prove --drafter oracle", "oracle"),
    ("prove --backend lean", "lean"),
    ("atlas --rule magic", "magic"),
    ("zoo inverted-ratio", "ratio-inverted"),
    ("dance", "dance"),
    ("export stories", "folder"),
    ("export nowhere out", "nowhere"),
    ("export stories a.jsonl", "a.jsonl"),
    ("export stories a.jsonl/out", "folder"),
]
TRAIN = [
    ("--preset huge", "huge"),
    *((f"--scale {value}", "--scale") for value in ("0", "nan", "1000.5")),
    ("--tokenizer words", "words"),
    ("--seed -1", "--seed"),
    ("--device tpu", "tpu"),
    ("--pair tiny", "--drafter"),
    ("--text /no/such/text", "/no/such/text"),
    ("--text empty.txt", "empty"),
    ("--text bytes.txt", "UTF-8"),
    ("--text short.txt", "short"),
    ("--text uneven.txt", "short"),
    ("--parallel both", "both"),
    ("--parallel fsdp", "torchrun"),
    ("--accumulate 7", "32"),
    ("--accumulate 0", "--accumulate"),
    ("--for x", "--drafter"),
    ("--preset stories", "--out"),
    ("--out stories", "stories"),
    ("--out work", "work"),
    ("--out a.jsonl", "a.jsonl"),
    ("--out round", "round"),
    (f"--out {'n' * 250}", "cannot write"),
    ("--text runs.txt", "runs"),
    ("--drafter exit --parallel ddp --accumulate 2", "--parallel"),
    ("--drafter medusa --for x", "--for"),
    ("--drafter medusa --pair tiny", "text"),
    ("--drafter eagle3 --device cuda", "--device"),
    ("--drafter model", "'model'"),
    ("--drafter exit --text a.txt", "--text"),
    ("--drafter exit --preset quick --fresh", "--preset"),
    ("--drafter exit --device tpu", "tpu"),
    ("--drafter exit --pair nowhere", "nowhere"),
    ("--drafter exit --scale 0", "--scale"),
    ("--drafter exit --out a.jsonl", "a.jsonl"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with pairs, some of them damaged, and files that are no use."""
    made = tmp_path_factory.mktemp("work")
    tiny = build_pair(made / "tiny")
    shutil.copytree(tiny, made / "bad")
    (made / "bad/target/config.json").unlink()
    shutil.copytree(tiny / "target", made / "bare/target")
    shutil.copytree(tiny / "draft", tiny / "alone")
    train_tokenizer(["abc abc"] * 9 + ["q" * 9], "bpe", 300).save(tiny / "alone/tokenizer.json")
    (tiny / "small").mkdir()
    save_model(random_models(vocab_size=299)[1], tiny / "small")
    (made / "work").mkdir()
    (made / "round").symlink_to("round")
    texts = {"a.jsonl": b"{}", "work/thesis.txt": b"years", "empty.txt": b"", "bytes.txt": b"\xff\xfe\xff"}
    texts |= {"short.txt": b"too short", "uneven.txt": b"two\n\n" + b"short " * 70 + b"\n\nones"}
    texts |= {"runs.txt": b"Day. " * 999}
    for name, content in texts.items():
        (made / name).write_bytes(content)
    return made


def cases():
    """Yields each whole command, what it must name, and where it cannot be tried."""
    tables = {"generate --pair tiny": GENERATE, "generate --prompt a": MODELS, "": COMMANDS, "train": TRAIN}
    for command, table in tables.items():
        for case in table:
            line, named = getattr(case, "values", case)
            yield pytest.param(f"{command} {line}", named, marks=getattr(case, "marks", ()))


@pytest.mark.parametrize(("line", "named"), [*cases()])
def test_one_line_names_what_is_wrong(line, named, folder, refused, minispec_home, monkeypatch):
    """Before anything is decoded, trained, built or made."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    said = refused(line)
    assert named in said and len(said) < 1100
    assert list(minispec_home.iterdir()) == [] and sorted(folder.rglob("*")) == before


def test_an_unknown_pair_is_told_which_there_are(refused, pair, minispec_home):
    """And neither its name nor what another option is given is echoed whole."""
    shutil.copytree(pair, minispec_home / "mine")
    assert "mine" in refused("generate --prompt a --pair nope")
    assert len(refused("generate --prompt a --pair", "x" * 5000)) < 300


def test_processes_that_do_not_know_of_each_other(refused, minispec_home, monkeypatch):
    """What torchrun has started must share the training; each would train it for itself."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--parallel" in refused("train")
    assert list(minispec_home.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_refused_before_the_training(refused, tmp_path, monkeypatch):
    """It is where a training keeps its state, wherever the pair goes."""
    monkeypatch.setattr("minispec.cli.train.train_pair", lambda *_, **__: pytest.fail("it was trained"))
    monkeypatch.setenv("MINISPEC_HOME", "/dev/null/here")
    assert "/dev/null/here" in refused("train --out", tmp_path / "pair")


def test_weights_with_nan(refused, tmp_path):
    """Logits that are not finite end the run with a line, not with a text."""
    target, _ = random_models()
    target.norm.weight.data[0] = float("nan")
    folder = build_pair(tmp_path / "ill", target=target)
    settings = ["--k 4", "--k auto"]
    if has_compiler():
        native_functions(torch.float32)  # is built, so that nothing has to be said about it
        settings += ["--backend native"]
    for setting in settings:
        assert "not finite" in refused(f"generate --prompt a {setting}", "--pair", folder)


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
