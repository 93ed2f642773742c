"""The native path: equal to the readable model in both types, lossless, and clear about what it lacks."""

import shutil
from dataclasses import replace

import pytest
import tiny
import torch
from drawing import assert_draws_as_reported, small_pair
from minispec.lm import build, native_library
from native_models import native

from minispec import Warp, load_pair
from minispec.core.rng import BlockRng
from minispec.evidence.law import Case, exact_laws, largest_error, speculative_laws, target_only_laws
from minispec.evidence.prove import LARGEST_ERROR, gpt_cases
from minispec.evidence.sampling import Experiment
from minispec.native.backend import KITS
from minispec.native.model import NativeGPT, pack
from minispec.native.pack import LeanGPT

KIT = KITS["native"]
FALSE_ALARM = 1e-6
CLOSE = {torch.float64: 1e-11, torch.float32: 1e-4}
SIZES = {
    "grouped": {},
    "multi-head, tied": {"kv_heads": 4, "tied": True, "layers": 1},
    "one head": {"heads": 1, "kv_heads": 1},
    "odd numbers": {"vocab_size": 101, "width": 36, "heads": 6, "kv_heads": 2, "ffn": 41, "max_length": 43},
    "wider than a panel": {"vocab_size": 300, "width": 160, "heads": 2, "kv_heads": 1, "ffn": 200},
}
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in build.COMPILERS), reason="there is no C++ compiler here"
)


def block(model, rows, length, seed=0):
    return torch.randint(model.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def assert_same_logits(model, ours):
    """Whole texts, then ragged rows through the cache at widths 1 to 20, where one row's room ends."""
    mine, theirs = ours.new_cache(3), model.new_cache(3)
    for width, lengths in (
        (17, [17, 4, 9]),
        (1, [18, 5, 10]),
        (6, [24, 7, 16]),
        (7, [31, 9, 20]),
        (20, None),
    ):
        tokens = block(model, 3, width, seed=width)
        room = model.max_length - torch.tensor(mine.row_lengths)[:, None]
        real = torch.arange(width) < room  # what lies past a row's end means nothing
        found, wanted = ours(tokens, mine), model(tokens, theirs)
        assert found.dtype == model.dtype and mine.row_lengths == theirs.row_lengths
        torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=CLOSE[model.dtype])
        if lengths:
            mine.truncate(lengths), theirs.truncate(lengths)
    assert not real.all() and mine.row_lengths == (model.max_length, 29, 40)


@needs_compiler
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_logits_equal_the_readable_models(sizes, dtype):
    """In many shapes, level and ragged, to the last slot of the context; hidden and head give the same."""
    with torch.inference_mode():
        model = tiny.gpt(tiny.config(**sizes), seed=3, dtype=dtype)
        ours = native(model)
        assert_same_logits(model, ours)
        assert ours.new_cache(3).bytes >= model.new_cache(3).bytes  # rows are padded to whole vectors
        text = block(model, 2, 9)
        torch.testing.assert_close(ours.head(ours.hidden(text)), ours(text), rtol=0, atol=CLOSE[dtype])


@needs_compiler
@pytest.mark.parametrize("less", ["-mno-avx512f", "-mno-avx"])
def test_processors_with_shorter_vectors_compute_the_same(less, tmp_path, monkeypatch):
    """The same source for 32 and for 16 bytes at once, where this processor has been told to be older."""
    if native_library.platform.machine() != "x86_64":
        pytest.skip("these switches are for x86")
    monkeypatch.setattr(native_library, "FLAGS", (*native_library.FLAGS, less))
    for dtype in CLOSE:
        with torch.inference_mode():
            model = tiny.gpt(tiny.config(**SIZES["odd numbers"]), seed=3, dtype=dtype)
            assert_same_logits(model, NativeGPT(model, tmp_path))


@needs_compiler
def test_the_shipped_pair_on_its_own_prompts():
    """Float32 logits of both models differ by rounding only, and an extreme logit does no harm."""
    pair = load_pair("stories")
    text = torch.tensor(pair.info["prompts"][:4])
    with torch.inference_mode():
        for model in (pair.target, pair.draft):
            torch.testing.assert_close(native(model)(text), model(text), rtol=0, atol=1e-4)
        pair.target.layers[0].self_attn.q_proj.weight.mul_(1000)  # all attention on one slot
        torch.testing.assert_close(native(pair.target)(text), pair.target(text), rtol=0, atol=1e-2)


@needs_compiler
@pytest.mark.parametrize("case", list(gpt_cases(seed=0, longer=0)), ids=lambda case: case.name)
@pytest.mark.parametrize("rule", ["greedy", "rejection"])
def test_it_is_lossless_branch_by_branch(case, rule):
    """Every branch of the loop in float64, against the readable target's exact law."""
    cold = Warp(0.0) if rule == "greedy" else case.warp
    plain, warp = replace(case, warp=Warp(**vars(cold))), KIT.warp(**vars(cold))
    models = {"target": native(case.target), "draft": native(case.draft)}
    ours = replace(plain, **models, warp=warp, verifier=KIT.rules[rule])
    exact = exact_laws(plain)
    for walked in (speculative_laws(ours).laws, target_only_laws(ours)):
        errors = [largest_error(one, law) for one, law in zip(walked, exact, strict=True)]
        assert max(errors) <= LARGEST_ERROR


@needs_compiler
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_a_draft_draws_from_the_law_that_it_reports(temperature):
    """Whatever number decides, at three temperatures."""
    _, model = small_pair()
    assert_draws_as_reported(native(model), model, Warp(temperature))


@needs_compiler
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e-6, 1e30, 1e300])
def test_no_temperature_makes_a_law_that_is_none(dtype, temperature):
    """Where one over it, or it, is beyond the type: the law is the warp's all the same."""
    _, model = small_pair(dtype)
    draft = native(model)
    numbers = torch.full((1, 1), 0.5, dtype=torch.float64)
    with torch.inference_mode():
        _, laws = draft.draw(torch.tensor([1]), draft.new_cache(1), temperature, numbers)
        wanted = Warp(temperature)(model(torch.tensor([[1]])))
    torch.testing.assert_close(laws, wanted, rtol=0, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("prompts", [[[0, 1, 2, 2]], [[0, 1, 2, 2], [1], [2, 0]]], ids=["one", "ragged"])
def test_a_native_draft_equals_the_plain_drafters(prompts):
    """Six steps with the same seed: the same laws and cache, and for one row the same tokens.

    Where there are more rows, the plain drafter takes a step in all of them before the next, so the numbers
    fall to other draws. Each law must be that of the tokens before it all the same.
    """
    _, model = small_pair(torch.float64)
    made, pending = [], torch.tensor([prompt[-1] for prompt in prompts])
    for drafter in (KIT.drafter(native(model)), KITS["lean"].drafter(LeanGPT(model))):
        drafter.start(prompts)
        rng = BlockRng(KIT.rng(5), [*map(len, prompts)], [6] * len(prompts), pending.device)
        with torch.inference_mode():
            made.append(drafter.propose(pending, 6, KIT.warp(0.8), rng))
        assert drafter.cache_lengths == tuple(len(prompt) + 5 for prompt in prompts)
    ours, plain = made
    if len(prompts) == 1:
        assert torch.equal(ours.tokens, plain.tokens)
        torch.testing.assert_close(ours.probs, plain.probs, rtol=0, atol=1e-12)
    for row, prompt in enumerate(prompts):
        with torch.inference_mode():
            whole = model(torch.tensor([[*prompt, *ours.tokens[row]]]))[0, len(prompt) - 1 : -1]
        torch.testing.assert_close(ours.probs[row], Warp(0.8)(whole), rtol=0, atol=1e-12)


@needs_compiler
def test_damaged_logits_are_refused():
    """A draft step raises as the warp does; it does not report a law that is none."""
    _, model = small_pair()
    with torch.no_grad():
        draft = native(model)
        model.norm.weight[0] = float("nan")
    cache = draft.new_cache(1)
    bad = NativeGPT.__new__(NativeGPT)
    vars(bad).update(vars(draft), _handle=pack(draft._native, LeanGPT(model)))
    with pytest.raises(ValueError, match="not finite"):
        bad.draw(torch.tensor([1]), cache, 1.0, torch.rand(1, 2, dtype=torch.float64))


@needs_compiler
@pytest.mark.parametrize("rows", [1, 256])
def test_it_is_lossless_by_samples(rows):
    """20,000 texts of three tokens, alone and side by side; false alarm 1e-6, its power is asserted."""
    models = map(native, small_pair())
    case = Case(
        "native",
        *models,
        prompts=((0, 1, 2),),
        k=2,
        max_new_tokens=3,
        warp=KIT.warp(1.0),
        verifier=KIT.rules["rejection"],
        drafter=KIT.drafter,
        rows=rows,
    )
    result = Experiment(case, samples=20_000, rows=rows, chance=KIT.rng).check(
        seed=0, false_alarm=FALSE_ALARM
    )
    assert result.detects < 0.07  # the least difference in total variation that is all but surely found
    assert result.passed, result


@needs_compiler
def test_other_caches_strange_ids_and_a_full_context_are_refused():
    """One line each, and the cache is as before."""
    model = tiny.gpt(tiny.config(max_length=8))
    ours = native(model)
    with pytest.raises(ValueError, match="cache of its own"):
        ours(block(model, 1, 2), model.new_cache(1))
    cache = ours.new_cache(1)
    ours(block(model, 1, 7), cache)
    for strange in (-1, 11):
        with pytest.raises(ValueError, match="a token id outside 0 to 10"):
            ours(torch.tensor([[strange]]), cache)
        with pytest.raises(ValueError, match="a token id outside 0 to 10"):
            ours.draw(torch.tensor([strange]), cache, 1.0, torch.rand(1, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="the cache has 1 rows, the tokens 2"):
        ours(block(model, 2, 1), cache)
    assert cache.row_lengths == (7,) and ours.can_draw(cache, 1) and not ours.can_draw(cache, 2)
    for tokens in (block(model, 1, 2), block(model, 1, 9)):
        with pytest.raises(ValueError, match="the context is full"):
            ours(tokens, cache)
    with pytest.raises(ValueError, match="for float32 or float64 on a CPU"):
        native(model.bfloat16())


def copied(folder, old, new):
    """Returns a copy of the source in which something is replaced."""
    shutil.copytree(native_library.SOURCE.parent, folder / "cpp")
    path = folder / "cpp" / "forward.h"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return folder / "cpp" / "native.cpp"


@needs_compiler
def test_the_library_is_built_once_and_a_damaged_one_again(tmp_path, monkeypatch):
    """Half a file is replaced; another source has another file."""
    model, _ = small_pair()
    NativeGPT(model, tmp_path)
    (path,) = tmp_path.glob("*.so")
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path, damaged)
    (damaged / path.name).write_bytes(path.read_bytes()[:1000])
    built, real = [], native_library.build_library
    monkeypatch.setattr(native_library, "build_library", lambda *a: (built.append(a[-1]), real(*a)))
    NativeGPT(model, tmp_path)
    assert built == []
    NativeGPT(model, damaged)
    assert built == [damaged / path.name]
    monkeypatch.setattr(native_library, "SOURCE", copied(tmp_path, "#pragma once", "#pragma once  // other"))
    NativeGPT(model, tmp_path)
    assert len(built) == 2 and built[1].name != path.name


@needs_compiler
def test_a_library_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    """A norm without its root: the check at the end of loading finds it."""
    monkeypatch.setattr(native_library, "SOURCE", copied(tmp_path, "1 / std::sqrt(", "1 / ("))
    with pytest.raises(ValueError, match="does not compute what the model does"):
        NativeGPT(small_pair()[0], tmp_path)


@needs_compiler
def test_a_build_that_fails_is_one_clear_line(tmp_path, monkeypatch):
    """A source that is none, a folder that cannot be; nothing is left behind."""
    wrong = copied(tmp_path, "#pragma once", "int main( {")
    monkeypatch.setattr(native_library, "SOURCE", wrong)
    with pytest.raises(ValueError, match="could not be built .*; use the lean path") as error:
        NativeGPT(small_pair()[0], tmp_path / "kept")
    assert "\n" not in str(error.value) and not list((tmp_path / "kept").iterdir())
    with pytest.raises(ValueError, match="could not be built .*; use the lean path"):
        NativeGPT(small_pair()[0], wrong / "kept")


def test_without_a_compiler_there_is_one_clear_line(tmp_path, monkeypatch):
    """No compiler on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler and found none"):
        NativeGPT(small_pair()[0], tmp_path)
