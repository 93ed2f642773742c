"""The compiled path: built once, equal to the readable model, lossless, and clear about what it lacks.

Building takes some seconds per package, so one small pair serves all tests.
"""

import shutil

import pytest
import torch
from drawing import assert_draws_as_reported, small_pair
from minispec.lm import build, compiled
from minispec.lm.compiled import CompiledGPT
from minispec.lm.compiled_draft import CompiledDraft

from minispec import load_pair
from minispec.core.rng import BlockRng
from minispec.evidence.law import Case, exact_laws, largest_error, speculative_laws, target_only_laws
from minispec.evidence.sampling import Experiment
from minispec.native.backend import KITS, PATHS, on_path

CLOSE = 1e-5  # float32 laws, multiplied along four tokens
FALSE_ALARM = 1e-6
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in build.COMPILERS), reason="there is no C++ compiler here"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def models(folder):
    target, draft = small_pair()
    return CompiledGPT(target, folder), CompiledDraft(draft, folder)


@needs_compiler
def test_logits_equal_the_readable_models_at_every_width(models):
    """Blocks of 1 to 17 tokens at every place of the context, its last slot among them."""
    target, _ = small_pair()
    text = torch.randint(3, (1, 24), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for widths in ([1] * 24, [3, 17, 4], [2, 6, 1, 9, 5, 1], [24]):
            ours, theirs = models[0].new_cache(1), target.new_cache(1)
            for block in text.split(widths, dim=1):
                found, wanted = models[0](block, ours), target(block, theirs)
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
                assert ours.row_lengths == theirs.row_lengths


@needs_compiler
def test_batches_go_the_lean_way(models):
    """Two rows: the same logits as each row alone."""
    text = torch.randint(3, (2, 8), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        whole = models[0](text, models[0].new_cache(2))
        for row in (0, 1):
            alone = models[0](text[row : row + 1], models[0].new_cache(1))
            torch.testing.assert_close(alone[0], whole[row], rtol=0, atol=1e-4)


def case_of(models, **changes):
    kit = KITS["compiled"]
    settings = {"k": 2, "max_new_tokens": 3, "warp": kit.warp(1.0), "verifier": kit.rules["rejection"]}
    settings["drafter"] = kit.drafter
    return Case("compiled", *models, prompts=((0, 1, 2),), rows=1, **settings | changes)


@needs_compiler
@pytest.mark.parametrize("rule", ["greedy", "rejection"])
def test_it_is_lossless_branch_by_branch(models, rule):
    """Every branch of the loop through the packages, against the readable target's law, up to float32."""
    kit = KITS["compiled"]
    warp = kit.warp(0.0 if rule == "greedy" else 1.0)
    case = case_of(models, warp=warp, verifier=kit.rules[rule], k=3, max_new_tokens=4, eos=(2,))
    exact = exact_laws(case_of(small_pair(), warp=warp, max_new_tokens=4, eos=(2,)))
    for walked in (speculative_laws(case).laws, target_only_laws(case)):
        assert largest_error(walked[0], exact[0]) <= CLOSE


@needs_compiler
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_a_compiled_step_draws_from_the_law_that_it_reports(models, temperature):
    """Whatever number decides, at three temperatures."""
    assert_draws_as_reported(models[1], small_pair()[1], KITS["compiled"].warp(temperature))


@needs_compiler
def test_a_compiled_draft_equals_the_plain_drafters(models):
    """Four steps with the same seed: the same tokens, the same laws up to rounding, the same cache."""
    kit, prompt = KITS["compiled"], [[0, 1, 2, 2]]
    made = []
    for drafter in (kit.drafter(models[1]), KITS["lean"].drafter(models[1])):
        drafter.start(prompt)
        with torch.inference_mode():
            rng = BlockRng(kit.rng(5), [4], [4], torch.device("cpu"))
            made.append(drafter.propose(torch.tensor([2]), 4, kit.warp(0.8), rng))
        assert drafter.cache_lengths == (7,)
    assert torch.equal(made[0].tokens, made[1].tokens)
    torch.testing.assert_close(made[0].probs, made[1].probs, rtol=0, atol=1e-5)


@needs_compiler
def test_it_is_lossless_by_samples(models):
    """3,000 texts of three tokens, one row at a time; false alarm 1e-6, its power is in the message."""
    experiment = Experiment(case_of(models), samples=3_000, rows=1, chance=KITS["compiled"].rng)
    result = experiment.check(seed=0, false_alarm=FALSE_ALARM)
    assert result.detects < 0.16  # the least difference in total variation that is all but surely found
    assert result.passed, result


@needs_compiler
def test_packages_are_built_once_and_damaged_ones_again(folder, models, monkeypatch):
    """A second model loads what is there; half a file is replaced; other weights have other files."""
    files = sorted(folder.glob("*.pt2"))
    assert len(files) == 3  # a single token, blocks, a draft step
    built = []
    real = compiled.build_package
    monkeypatch.setattr(compiled, "build_package", lambda *a: (built.append(a[-1]), real(*a)))
    _, draft = small_pair()
    CompiledDraft(draft, folder)
    assert built == []
    path = next(file for file in files if file.name.endswith("-step.pt2"))
    path.write_bytes(path.read_bytes()[:1000])
    CompiledDraft(draft, folder)
    assert built == [path]
    with torch.no_grad():
        draft.norm.weight.mul_(1.5)
    CompiledDraft(draft, folder)
    assert len(built) == 2 and built[1] not in files


@needs_compiler
def test_a_package_that_computes_something_else_is_refused(models, folder, monkeypatch):
    """The check at the end of loading compares with the lean forward."""
    _, draft = small_pair()
    monkeypatch.setattr(compiled, "load_package", lambda path: lambda t: [torch.ones(1, 3), torch.zeros(1)])
    with pytest.raises(ValueError, match="does not compute what the model does"):
        CompiledDraft(draft, folder)


def test_without_a_compiler_there_is_one_clear_line(tmp_path, monkeypatch):
    """No compiler; and another type than float32."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    target, _ = small_pair()
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler and found none"):
        CompiledGPT(target, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="for float32 on a CPU"):
        CompiledGPT(target.double(), tmp_path)


def test_a_build_that_fails_is_one_clear_line(tmp_path, monkeypatch):
    """A compiler that only fails; nothing is left behind."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "g++").write_text("#!/bin/sh\nexit 1\n")
    (fake / "g++").chmod(0o755)
    monkeypatch.setattr(build, "torch", FailingTorch())
    target, _ = small_pair()
    with pytest.raises(ValueError, match="could not be built .*; use the lean path") as error:
        CompiledGPT(target, tmp_path / "kept")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "kept").glob("*"))


class FailingTorch:
    """A torch whose exporter fails."""

    def __getattr__(self, name):
        if name == "export":
            raise RuntimeError("first line\nsecond line")
        return getattr(torch, name)


def test_paths_by_name():
    """The readable path is the pair itself; unknown names are refused with a list."""
    pair = load_pair("stories")
    assert on_path(pair, "readable").target is pair.target
    assert PATHS == ("readable", "lean", "compiled", "native")
    with pytest.raises(ValueError, match="readable, lean, compiled, native"):
        on_path(pair, "fast")
