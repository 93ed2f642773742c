"""Planting a bug: it is in the live code while the `with` lasts, and never after."""

from dataclasses import replace
from types import FunctionType

import pytest
import torch
from native_models import needs_compiler

from minispec.core.commit import Rows
from minispec.core.model import Tree
from minispec.core.verify import next_distribution, residual, verify_rejection
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.evidence.zoo.mutants import MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import code_run, diff, find_function, patched, planted, source_of
from minispec.native.library import COMPUTES_IN, native_functions
from minispec.native.model import NativeGPT

ABSOLUTE = mutant_named("residual-absolute")
P, Q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])


IN_CPP = [mutant for mutant in MUTANTS if mutant.is_native]


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.is_native], ids=lambda mutant: mutant.name)
def test_every_patch_applies_and_is_taken_out_again(mutant):
    """The code differs while it is planted; afterwards the very same code object is back."""
    function = find_function(mutant.function)
    before = function.__code__
    with planted(mutant):
        assert function.__code__.co_code != before.co_code or function.__code__.co_consts != before.co_consts
        assert function.__code__.co_freevars == before.co_freevars
    assert function.__code__ is before


def test_the_bug_is_in_the_live_function_and_is_gone_afterwards():
    """A name that was imported before sees the bug, and sees it go, also after an exception."""
    assert residual(P, Q).tolist() == [0, 1]
    with pytest.raises(KeyboardInterrupt), planted(ABSOLUTE):
        assert residual(P, Q).tolist() == [0.5, 0.5]
        raise KeyboardInterrupt
    assert residual(P, Q).tolist() == [0, 1]


def test_what_is_called_is_noted():
    """A function that is called, also by another one; not one that is only named; and nothing afterwards."""
    found = code_run(
        lambda: next_distribution(P[None, None], Q[None, None], torch.tensor([0]), torch.tensor([1]))
    )
    assert {residual.__code__, next_distribution.__code__} <= found
    assert verify_rejection.__code__ not in found and verify_rejection.__code__ not in code_run(lambda: None)


def test_methods_properties_and_what_is_decorated_are_found():
    """A getter, a method, a static one, and the generator inside `torch.inference_mode`."""
    assert find_function("minispec.core.model:Tree.after") is Tree.after
    assert find_function("minispec.core.commit:Rows.live") is Rows.live.fget
    assert find_function("minispec.core.commit:Rows.append") is Rows.append
    inside = find_function("minispec.core.loop:speculate")
    assert isinstance(inside, FunctionType) and not hasattr(inside, "__wrapped__")
    for name in ("minispec.core.loop:nothing", "minispec.core.commit:Rows.nothing"):
        with pytest.raises(ValueError, match="there is no function"):
            find_function(name)


@pytest.mark.parametrize(("old", "times"), [("nowhere", 0), ("lacking", 3)])
def test_a_patch_must_fit_in_one_place(old, times):
    """A patch that no longer fits the code, or fits it twice, is an error and plants nothing."""
    before = residual.__code__
    with pytest.raises(ValueError, match=f"one place, not in {times}"), planted(replace(ABSOLUTE, old=old)):
        pass
    assert residual.__code__ is before


def test_further_lines_are_indented_like_the_first():
    """Patches are written without the indentation of their place."""
    source = "def f(x):\n    if x:\n        x = 1\n        x += 1\n    return x\n"
    mutant = replace(ABSOLUTE, old="x = 1\nx += 1", new="x = 2\nx += 2")
    assert patched(mutant, source) == "def f(x):\n    if x:\n        x = 2\n        x += 2\n    return x\n"


def test_a_patch_reads_as_a_diff_of_a_few_lines():
    """Removed and added lines, and little around them: never a second copy of anything."""
    for mutant in MUTANTS:
        lines = diff(mutant).splitlines()
        assert lines[0].startswith("--- minispec/")
        changed = [line for line in lines[2:] if line[0] in "+-"]
        assert 1 <= len(changed) <= 12, mutant.name


def test_names_are_unique_and_texts_are_there():
    """Each mutant says what it does, where it was seen, and what it breaks."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 28
    for mutant in MUTANTS:
        assert mutant.title and mutant.seen
        assert (mutant.effect == "breaks") == bool(mutant.harm), mutant.name
    with pytest.raises(ValueError, match="no mutant called 'ratio'; of .* the nearest are .*ratio-inverted"):
        mutant_named("ratio")


def test_the_live_source_is_what_is_compiled():
    """A patch that changes nothing changes no result."""
    with planted(replace(ABSOLUTE, new=ABSOLUTE.old)):
        assert residual(P, Q).tolist() == [0, 1]
    assert source_of(ABSOLUTE).startswith("def residual")


@pytest.mark.parametrize("mutant", IN_CPP, ids=lambda mutant: mutant.name)
def test_every_patch_of_the_cpp_applies(mutant):
    """To one place in a file that there is, inside the function that it names."""
    source = source_of(mutant)
    assert patched(mutant, source) != source
    line = mutant.old.split("\n")[0]
    before = source[: source.index(line)]
    assert f" {mutant.function.rpartition(':')[2]}(" in before


@needs_compiler
def test_a_bug_of_the_cpp_is_in_all_that_is_live_and_is_gone_afterwards():
    """Models and rules that were made before see the other library, in both types."""
    model = NativeGPT(tiny_gpt_pair(0)[0])
    before = [dict(vars(native_functions(dtype))) for dtype in COMPUTES_IN]
    with pytest.raises(KeyboardInterrupt), planted(mutant_named("native-residual-reversed")):
        for dtype, own in zip(COMPUTES_IN, before, strict=True):
            assert all(function is not own[name] for name, function in vars(native_functions(dtype)).items())
        assert model._native is native_functions(torch.float64)
        raise KeyboardInterrupt
    assert [dict(vars(native_functions(dtype))) for dtype in COMPUTES_IN] == before
