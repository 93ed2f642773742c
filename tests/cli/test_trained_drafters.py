"""`--drafter exit`, `medusa`, `eagle`, `parallel`: those of the shipped target, and others by `train`."""

import json

import pytest
from native_models import has_compiler
from pairs import call

TRAINED = {
    "exit": 2.0,
    "medusa": 1.8,
    "eagle": 3.0,
    "parallel": 3.0,
}  # and the tokens a target call that they are to reach at least
PROMPT = "Once there were two friends. Rue the cat had a kite. She lived by the hill and slept on the mat."
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing that was trained on this machine is found."""
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def generate(capsys, *arguments):
    """Returns what `generate` says of the shipped pair, in float64: there greedy texts are equal."""
    settings = ("--json", "--max-new-tokens", 60, "--ignore-eos", "--prompt", PROMPT)
    status, out, err = call(capsys, "generate", *settings, "--dtype", "float64", *arguments)
    assert status == 0, err
    return json.loads(out)


@pytest.mark.parametrize("name", TRAINED)
def test_it_gives_the_targets_text_in_fewer_calls(capsys, name):
    """Greedy: token for token, on each backend that it has; and drafts of any width are kept."""
    alone = generate(capsys, "--target-only", "--verifier", "greedy")
    for backend in BACKENDS:
        for k in (1, 4, 9):
            settings = ("--drafter", name, "--verifier", "greedy", "--backend", backend, "--k", k)
            found = generate(capsys, *settings)
            assert found["tokens"] == alone["tokens"] and found["drafter"] == name
            assert k != 4 or found["tokens_per_target_call"] >= TRAINED[name]


@pytest.mark.parametrize("name", TRAINED)
def test_it_samples_in_fewer_calls(capsys, name):
    """At temperature 1 as well; the demo shows it too."""
    calls = [
        generate(capsys, "--drafter", name, "--seed", seed)["tokens_per_target_call"] for seed in range(3)
    ]
    assert sum(calls) / 3 >= TRAINED[name]
    options = ("--no-train", "--backend", "torch", "--max-new-tokens", 20, "--k", 3, "--json")
    status, out, err = call(capsys, "demo", "--drafter", name, *options)
    assert status == 0, err
    runs = json.loads(out)["pairs"][0]["runs"]
    assert [run["drafter"] for run in runs] == [name] * 2 and runs[0]["same_as_target_only"]


def test_one_is_trained_and_used(capsys, home):
    """`train --drafter` writes a file into the cache, which then comes before the shipped one."""
    status, out, err = call(capsys, "train", "--drafter", "exit", "--scale", 0.01, "--json")
    assert status == 0, err
    report = json.loads(out)
    path = home / "drafters" / "stories" / "exit.safetensors"
    assert report["file"] == str(path) and path.is_file()
    assert {"parameters", "seconds", "steps", "loss", "tokens_per_target_call"} <= report.keys()
    assert (report["steps"], report["drafter"], report["pair"]) == (8, "exit", "stories")
    ours = generate(capsys, "--drafter", "exit", "--verifier", "greedy")
    path.unlink()
    shipped = generate(capsys, "--drafter", "exit", "--verifier", "greedy")
    assert ours["tokens"] == shipped["tokens"]
    assert [r["drafted"] for r in ours["rounds"]] != [r["drafted"] for r in shipped["rounds"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("generate", "--prompt", "a", "--drafter", "exit", "--k", "auto"), "give a number, such as --k 4"),
        (("generate", "--prompt", "a", "--drafter", "exit", "--exact"), "leave out --exact"),
        (("demo", "--no-train", "--drafter", "medusa"), "give a number, such as --k 4"),
        (("train", "--drafter", "model"), "--drafter 'model' is unknown; choose exit or medusa"),
        (("train", "--pair", "stories"), "--pair names the target that a --drafter is trained for"),
        (("train", "--drafter", "exit", "--text", "a.txt"), "leave out --text"),
        (("train", "--drafter", "exit", "--fresh"), "leave out --fresh"),
        (("train", "--drafter", "exit", "--device", "tpu"), "--device 'tpu' is unknown"),
        (("train", "--drafter", "exit", "--out", __file__), "File exists"),
        (("train", "--drafter", "exit", "--pair", "nowhere"), "there is no pair called 'nowhere'"),
        (("train", "--drafter", "exit", "--scale", 0), "--scale must be above 0"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, arguments, said):
    """Status 2, and nothing is trained."""
    status, out, err = call(capsys, *arguments)
    assert status == 2 and said in err and len(err.strip().splitlines()) == 1 and out == ""


def test_a_pair_without_it_says_how_to_train_it(capsys, pair):
    """And a pair that does not say what it was trained on cannot get one."""
    status, _, err = call(capsys, "generate", "--pair", pair, "--prompt", "the", "--drafter", "medusa")
    assert status == 2 and "minispec train --drafter medusa --pair" in err
    status, _, err = call(capsys, "train", "--drafter", "medusa", "--pair", pair)
    assert status == 2 and "does not say which text the pair was trained on" in err
