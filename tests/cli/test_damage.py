"""Damaged pairs and unusable places, through every command: one line, exit status 2, nothing lost."""

import shutil

import pytest
from pairs import build_pair, call, edit_json, random_models

from minispec.io.checkpoint import save_model

PROMPT = ("--prompt", "The cat")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return build_pair(tmp_path_factory.mktemp("pairs") / "tiny")


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
        (("generate", *PROMPT, "--threads", 10**12), "--threads must be between 1 and 1024"),
        (("generate", *PROMPT, "--seed", -1), "'--seed'"),
        (("generate", *PROMPT, "--seed", 10**30), "'--seed'"),
        (("generate", *PROMPT, "--device", "cpu:x"), "--device 'cpu:x' is unknown"),
        (("generate", *PROMPT, "stray"), "stray"),
        (("demo", "--no-train", "--prompt", ""), "the prompt is empty"),
        (("demo", "--no-train", "--prompt", "\udcff"), "the prompt is not UTF-8"),
        (("demo", "--no-train", "--prompt", "word " * 200), "the context holds 96"),
        (("demo", "--no-train", "--max-new-tokens", 0), "--max-new-tokens must be at least 1"),
        (("bench", "--k", 3, "--k", -2), "--k must be 1 to 16 here, not -2"),
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
    """A wrong option of `train` leaves no file behind."""
    assert says in refused("train", *arguments)
    assert list(minispec_home.iterdir()) == []


def test_a_text_of_two_short_passages_is_too_short(refused, tmp_path, minispec_home):
    """A text that can be split but fills no window is refused too."""
    (tmp_path / "book.txt").write_bytes(b"two\n\n" + b"short " * 70 + b"\n\nones")
    assert "too short to train on" in refused("train", "--text", tmp_path / "book.txt")
    assert list(minispec_home.iterdir()) == []


def test_train_refuses_a_place_before_it_trains(refused, tmp_path, minispec_home):
    """Where other files are, or no pair can be, is known before the training, and nothing is lost."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/thesis.txt").write_text("years", encoding="utf-8")
    for place in (tmp_path / "work", tmp_path / "work/thesis.txt", tmp_path / "work/thesis.txt/pair"):
        assert "cannot write a pair to" in refused("train", "--out", place)
    assert (tmp_path / "work/thesis.txt").read_text(encoding="utf-8") == "years"
    assert list(minispec_home.iterdir()) == []
