"""`--backend`: the same texts from both, the native one where it can be had, one line where it cannot."""

import json
import os
import subprocess
import sys

import pytest
from native_models import has_compiler, needs_compiler
from pairs import call

import minispec.cli.generate as generate_module
from minispec.cli.main import run
from minispec.native import library

BUILDING = "building the native backend, once: some seconds\n"
LACKING = "needs a C++ compiler and found none"


@pytest.fixture
def used(monkeypatch):
    """On which backend each run of `generate` computed."""
    names, real = [], generate_module.on_backend

    def noting(*arguments):
        models = real(*arguments)
        names.append(models.backend.name)
        return models

    monkeypatch.setattr(generate_module, "on_backend", noting)
    return names


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """A machine without a C++ compiler, on which nothing has been built."""
    library.native_functions.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    yield
    library.native_functions.cache_clear()


def generate(capsys, pair, *arguments, prompt="The cat"):
    """Runs `generate --json`; returns its document and what people read."""
    options = ("--json", "--dtype", "float64", "--max-new-tokens", 40, *arguments)
    status, out, err = call(capsys, "generate", "--pair", pair, "--prompt", prompt, *options)
    assert status == 0, err
    return json.loads(out), err.replace(BUILDING, "")


def refused(capsys, *arguments):
    """Runs a command that must be refused in one line; returns it."""
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("minispec: ") and err.count("\n") == 1 and "Traceback" not in err, err
    return err


# generate.


@needs_compiler
@pytest.mark.parametrize(
    "settings",
    [
        ("--verifier", "greedy"),
        ("--seed", 1),
        ("--seed", 2, "--temperature", "0.3", "--k", 6),
        ("--seed", 3, "--top-k", 5, "--top-p", "0.9"),
        ("--seed", 4, "--verifier", "coupled"),
        ("--seed", 5, "--target-only"),
    ],
    ids=str,
)
def test_both_backends_say_the_same(settings, capsys, pair, used):
    """In float64: the same rounds, drafts, acceptance and text from the same seed."""
    plain, native = (generate(capsys, pair, "--backend", name, *settings) for name in ("torch", "native"))
    assert used == ["torch", "native"]
    for part in ("text", "tokens", "rounds", "target_calls", "acceptance", "finish"):
        assert plain[0][part] == native[0][part]
    assert plain[1] == native[1] == ""


def test_torch_is_what_generate_does_by_default(capsys, pair, used):
    """Without the option, and with it."""
    assert generate(capsys, pair)[0]["tokens"] == generate(capsys, pair, "--backend", "torch")[0]["tokens"]
    assert used == ["torch", "torch"]


@needs_compiler
def test_auto_is_native_where_there_is_a_compiler(capsys, pair, used):
    """And says nothing."""
    assert generate(capsys, pair, "--backend", "auto")[1] == ""
    assert used == ["native"]


def test_auto_without_a_compiler_is_torch_and_one_line(capsys, pair, used, no_compiler):
    """The text is torch's; why it is not the native backend stands on standard error, in one line."""
    found, err = generate(capsys, pair, "--backend", "auto", "--seed", 1)
    assert found["tokens"] == generate(capsys, pair, "--seed", 1)[0]["tokens"] and used == ["torch", "torch"]
    assert err.startswith("computing with the torch backend: ") and LACKING in err and err.count("\n") == 1


def test_native_without_a_compiler_is_refused(capsys, pair, no_compiler):
    """By every command that has the option: one line and status 2."""
    for command in (
        ("generate", "--pair", pair, "--prompt", "a"),
        ("demo", "--pair", pair, "--no-train"),
        ("bench", "--pair", pair, "--quick"),
        ("prove",),
    ):
        assert LACKING in refused(capsys, *command, "--backend", "native")


@pytest.mark.parametrize("command", ["generate", "demo", "bench", "prove"])
def test_an_unknown_backend_is_refused_with_a_list(command, capsys, pair):
    """One line, and status 2."""
    options = {"generate": ("--pair", pair, "--prompt", "a"), "prove": ()}.get(command, ("--pair", pair))
    says = refused(capsys, command, *options, "--backend", "lean")
    assert "--backend 'lean' is unknown; choose torch or native or auto" in says


def test_exact_mode_is_torchs_alone(capsys, pair):
    """`--exact` with another backend contradicts itself."""
    options = ("generate", "--pair", pair, "--prompt", "a", "--exact")
    for name in ("native", "auto"):
        assert f"leave out --backend {name}" in refused(capsys, *options, "--backend", name)


@needs_compiler
def test_the_first_time_it_says_that_it_builds(capsys, pair, minispec_home, monkeypatch):
    """One line before some seconds of silence, and none the next time."""
    monkeypatch.setattr(library, "FLAGS", ("-O0", "-std=c++17", "-shared", "-fPIC"))  # built in a second
    library.native_functions.cache_clear()
    options = ("generate", "--pair", pair, "--prompt", "a", "--max-new-tokens", 2, "--backend", "native")
    assert call(capsys, *options)[::2] == (0, BUILDING)
    assert call(capsys, *options)[::2] == (0, "")
    assert len(list((minispec_home / "native").glob("*.so"))) == 1
    library.native_functions.cache_clear()


@needs_compiler
def test_nothing_is_built_for_what_is_refused(capsys, pair, minispec_home):
    """A pair or a prompt that cannot be decoded is refused first."""
    library.native_functions.cache_clear()
    for command in ("generate", "demo"):
        options = (command, "--pair", pair, "--backend", "native")
        assert "context holds 96" in refused(capsys, *options, "--prompt", "The cat " * 200)
        assert "there is no pair" in refused(capsys, command, "--pair", "nope", "--prompt", "a")
    assert "there is no pair" in refused(capsys, "bench", "--pair", "nope", "--backend", "native")
    assert list(minispec_home.iterdir()) == []


# The demo.


def table_of(text):
    """Returns the lines of the demo's table of runs."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("tiny, K ="))
    end = next(number for number in range(start, len(lines)) if lines[number].startswith("  speed-up:"))
    return lines[start:end]


@pytest.mark.parametrize("backend", ["auto", "torch", "native"])
@pytest.mark.parametrize("columns", [100, 80, 60])
def test_the_demos_table_fits_its_terminal(columns, backend, capsys, pair, monkeypatch):
    """Every backend that was asked for is in it, no line is too long, and nothing is cut off."""
    if backend == "native" and not has_compiler():
        pytest.skip("there is no C++ compiler here")
    monkeypatch.setenv("COLUMNS", str(columns))
    options = ("--no-train", "--prompt", "The cat", "--max-new-tokens", 20, "--backend", backend)
    status, out, _ = call(capsys, "demo", "--pair", pair, *options)
    table = table_of(out)
    assert status == 0 and max(map(len, table)) <= columns and "…" not in out
    starts = ("target-only ", "greedy ", "rejection ")
    rows = [line.split()[:2] for line in table if line.strip().startswith(starts)]
    names = [backend] if backend != "auto" else ["torch", "native"] if has_compiler() else ["torch"]
    if columns >= 80:
        assert rows == [
            [label, name]
            for rule in ("greedy", "rejection")
            for name in names
            for label in ("target-only", rule)
        ]
    for name in names:  # the word may be folded, but it is whole
        assert " ".join(table).count(name) == 4 or columns < 80


def test_the_demo_without_a_compiler_shows_torch(capsys, pair, no_compiler):
    """Its table has one backend, and one line says why the other is missing."""
    options = ("--no-train", "--prompt", "The cat", "--max-new-tokens", 20)
    status, out, err = call(capsys, "demo", "--pair", pair, *options)
    assert status == 0
    assert err.startswith("computing with the torch backend: ") and LACKING in err and err.count("\n") == 1
    assert sum("torch" in line for line in table_of(out)) == 4
    assert not any("native" in line for line in table_of(out))


@needs_compiler
def test_the_demos_document_names_the_backends(capsys, pair):
    """Both rules on each backend, both with the same tokens, and what target-only took beside them."""
    options = ("--no-train", "--prompt", "The cat", "--k", 3, "--json")
    status, out, _ = call(capsys, "demo", "--pair", pair, *options)
    (found,) = json.loads(out)["pairs"]
    assert status == 0
    assert [(one["verifier"], one["backend"]) for one in found["runs"]] == [
        ("greedy", "torch"),
        ("greedy", "native"),
        ("rejection", "torch"),
        ("rejection", "native"),
    ]
    for one in found["runs"]:
        assert one["seconds"] > 0 and one["target_only_seconds"] > 0
        assert one["same_as_target_only"] is (True if one["verifier"] == "greedy" else None)
        assert 0 <= one["accepted_over_drafted"] <= one["acceptance"] <= 1
        assert one["mean_acceptance_length"] >= one["tokens"] / one["target_calls"]  # the last round is cut


# prove.


@needs_compiler
def test_proofs_can_be_made_on_the_native_backend(capsys, monkeypatch):
    """Its cases say so, and are as exact as those of the torch backend."""
    import minispec.cli.prove as command
    from minispec.evidence.proof.prove import few_cases

    chosen = [case for case in few_cases() if case.name.startswith("GPT")][:1]
    assert chosen
    monkeypatch.setattr(command, "few_cases", lambda: iter(chosen))
    monkeypatch.setattr(command, "sampled_tests", lambda *_: [])
    run(["prove", "--json", "--backend", "native"])
    found = json.loads(capsys.readouterr().out)
    assert found["cases"] and all(case["name"].endswith(", native") for case in found["cases"])
    assert found["largest_error"] <= 1e-10


def test_a_fresh_process_without_a_compiler(pair, tmp_path):
    """As a person meets it: an empty cache, an empty path; status 0 and one line, or 2 and one line."""
    environment = {key: value for key, value in os.environ.items() if key != "CXX"}
    environment |= {"PATH": str(tmp_path), "MINISPEC_HOME": str(tmp_path / "home")}
    hide = "import sys; sys.modules['ziglang'] = None; from minispec.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", hide, "generate", "--pair", str(pair), "--prompt", "a", "--json"]
    for backend, status, start in (("auto", 0, "computing with the torch"), ("native", 2, "minispec: ")):
        done = subprocess.run(
            [*command, "--backend", backend], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        assert done.stderr.startswith(start) and done.stderr.count("\n") == 1 and LACKING in done.stderr
        assert bool(done.stdout) == (status == 0)
