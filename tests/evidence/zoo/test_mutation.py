"""Planting a bug: it is in the live code while the `with` lasts, and never after."""

import shutil
from dataclasses import replace
from types import FunctionType

import pytest
import torch
from native_models import needs_compiler

from minispec.core.batch import Batch, Row
from minispec.core.model import Tree
from minispec.core.verify import accept_rejection, next_distribution, residual, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.evidence.zoo.mutants import MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import called_code, diff, find_functions, find_patch, planted
from minispec.io.checkpoint import cache_folder
from minispec.native.library import load_native, native_functions
from minispec.native.model import NativeGPT
from minispec.native.structs import COMPUTES_IN

ABSOLUTE = mutant_named("residual-absolute")
P = torch.tensor([0.5, 0.5])
Q = torch.tensor([1.0, 0.0])


def test_every_bug_is_in_the_live_code_while_it_is_planted():
    """The code differs; afterwards the very same code object is back."""
    for mutant in MUTANTS:
        function = find_patch(mutant).function
        if function is None:
            continue
        before = function.__code__
        with planted(mutant):
            live = function.__code__
        assert (live.co_code, live.co_consts) != (before.co_code, before.co_consts), mutant.name
        assert live.co_freevars == before.co_freevars and function.__code__ is before, mutant.name


def test_the_bug_is_in_the_live_function_and_is_gone_afterwards():
    """A name that was imported before sees the bug, and sees it go, also after an exception."""
    assert residual(P, Q).tolist() == [0, 1]
    with pytest.raises(KeyboardInterrupt), planted(ABSOLUTE):
        assert residual(P, Q).tolist() == [0.5, 0.5]
        raise KeyboardInterrupt
    assert residual(P, Q).tolist() == [0, 1]


def test_what_is_called_is_noted():
    """A function that is called, also by another one; not one that is only named; and nothing afterwards."""
    called = called_code(
        lambda: next_distribution(P[None, None], Q[None, None], torch.tensor([0]), torch.tensor([1]))
    )
    assert {residual.__code__, next_distribution.__code__} <= called
    assert accept_rejection.__code__ not in called and accept_rejection.__code__ not in called_code(
        lambda: None
    )


def test_methods_properties_and_what_is_decorated_are_found():
    """A getter, a method, a static one, what is decorated, what a verifier decides by, all of a class."""
    assert find_functions("minispec.core.model:Tree.after") == [Tree.after]
    assert find_functions("minispec.core.batch:Batch.live") == [Batch.live.fget]
    assert find_functions("minispec.core.batch:Row.append") == [Row.append]
    assert find_functions("minispec.core.verify:accept_rejection") == [verify_rejection.decide]
    (function,) = find_functions("minispec.core.loop:speculate")
    assert isinstance(function, FunctionType) and not hasattr(function, "__wrapped__")
    assert {Warp.__call__, Warp._cut} <= set(find_functions("minispec.core.warp:Warp"))
    for name in ("minispec.core.loop:nothing", "minispec.core.batch:Batch.nothing"):
        with pytest.raises(ValueError, match="there is no function"):
            find_functions(name)


@pytest.mark.parametrize(("old", "times"), [("nowhere", 0), ("$x.clamp(min=$y)", 2)])
def test_a_pattern_must_fit_in_one_place(old, times):
    """One that no longer fits the code, or fits it twice, is an error and plants nothing."""
    before = residual.__code__
    with pytest.raises(ValueError, match=f"one place, not in {times}"), planted(replace(ABSOLUTE, old=old)):
        pass
    assert residual.__code__ is before


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


@pytest.mark.evidence
@needs_compiler
def test_a_bug_of_the_cpp_is_in_all_that_is_live_and_is_gone_afterwards(tmp_path, monkeypatch):
    """In models and verifiers, in all types; also in a model that has the library of another cache folder."""
    before = [dict(vars(native_functions(dtype))) for dtype in COMPUTES_IN]
    load_native(torch.float64)  # is in the cache folder now
    shutil.copytree(cache_folder() / "native", tmp_path / "native")
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path))
    model = NativeGPT(tiny_gpt_pair(0)[0])
    in_model = dict(vars(model.native))
    assert model.native is not native_functions(torch.float64)
    with pytest.raises(KeyboardInterrupt), planted(mutant_named("native-residual-reversed")):
        for dtype, sound in zip(COMPUTES_IN, before, strict=True):
            live = vars(native_functions(dtype))
            assert all(live[name] is not sound[name] for name in set(live) - {"type", "dtype"})
        live = vars(model.native)
        assert all(live[name] is not in_model[name] for name in set(live) - {"type", "dtype"})
        raise KeyboardInterrupt
    assert [dict(vars(native_functions(dtype))) for dtype in COMPUTES_IN] == before
    assert dict(vars(model.native)) == in_model


def test_the_live_source_is_what_is_compiled():
    """A patch that changes nothing changes no result."""
    with planted(replace(ABSOLUTE, new=ABSOLUTE.old)):
        assert residual(P, Q).tolist() == [0, 1]
