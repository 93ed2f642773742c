"""`--backend`: the same texts from both, the native one where it can be had, one line where it cannot."""

import pytest
from native_models import needs_compiler
from pairs import call

import minispec.cli.generate as generate_module
from minispec.native import library

LACKING = "needs a C++ compiler and found none"


@pytest.fixture
def used(monkeypatch):
    """On which backend each run of `generate` computed."""
    names = []
    real = generate_module.on_backend

    def noting(*arguments):
        models = real(*arguments)
        names.append(models.backend.name)
        return models

    monkeypatch.setattr(generate_module, "on_backend", noting)
    return names


@pytest.fixture
def nothing_built():
    """No library is loaded yet, or any more."""
    library.native_functions.cache_clear()
    yield
    library.native_functions.cache_clear()


@pytest.fixture
def no_compiler(monkeypatch, tmp_path, nothing_built):
    """A machine without a C++ compiler, on which nothing has been built."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)


@needs_compiler
@pytest.mark.parametrize(
    "settings",
    [
        "--verifier greedy",
        "--seed 2 --temperature 0.3 --k 6 --top-k 5 --top-p 0.9",
        "--seed 4 --verifier coupled --drafter suffix",
        "--seed 5 --target-only",
    ],
)
def test_both_backends_emit_the_same(settings, generate, used):
    """In float64: the same rounds, drafts and text from the same seed; auto is native, silently."""
    backends = ("torch", "native", "auto")
    plain, *others = (generate(f"{settings} --dtype float64 --backend {name}") for name in backends)
    assert used == ["torch", "native", "native"]
    for part in ("text", "tokens", "rounds", "target_calls", "acceptance", "finish"):
        assert [other[part] for other in others] == [plain[part]] * 2


@needs_compiler
def test_weights_of_8_bits_are_native(generate, used):
    """The greedy text with a draft is that without one; auto is native."""
    line = "--temperature 0 --max-new-tokens 30 --ignore-eos --dtype int8 --backend"
    drafted, alone = (generate(f"{line} {rest}") for rest in ("native --k 3", "auto --target-only"))
    assert drafted["tokens"] == alone["tokens"] and used == ["native", "native"]


def test_without_a_compiler_auto_is_torch_and_native_is_refused(document, refused, pair, used, no_compiler):
    """Torch's text, and one line of `generate` that says why; every command refuses native."""
    options = ("--pair", pair)
    result, err = document("generate --prompt a --backend auto", *options)
    assert result["tokens"] == document("generate --prompt a", *options)[0]["tokens"]
    assert used == ["torch", "torch"]  # by default, too
    shown, _ = document("demo --no-train --prompt a --max-new-tokens 8 --k 2", *options)
    assert shown["pairs"][0]["speed"]["backend"] == "torch"
    assert err.count("\n") == 1 and LACKING in err
    for command in ("generate --prompt a", "demo --no-train", "bench --quick"):
        assert LACKING in refused(f"{command} --backend native", *options)
    assert LACKING in refused("prove --backend native")


@needs_compiler
def test_the_first_time_it_says_that_it_builds(capsys, pair, minispec_home, monkeypatch, nothing_built):
    """One line before some seconds of silence, and none the next time."""
    monkeypatch.setattr(library, "FLAGS", ("-O0", "-std=c++17", "-shared", "-fPIC"))  # built in a second
    options = ("generate", "--pair", pair, "--prompt", "a", "--max-new-tokens", 2, "--backend", "native")
    assert call(capsys, *options)[::2] == (0, "building the native backend, once: some seconds\n")
    assert call(capsys, *options)[::2] == (0, "")
    assert len(list((minispec_home / "native").glob("*.so"))) == 1
