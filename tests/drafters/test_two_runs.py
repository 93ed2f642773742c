"""Two runs at the same time over one target: each emits what it emits alone, with every drafter."""

from dataclasses import replace
from itertools import zip_longest

import pytest
import tiny
from native_models import needs_compiler

from minispec import KeyedRng, Warp, observe, speculate
from minispec.evidence.proof.cases import ENUMERATED, TREE_SHAPES, Case
from minispec.evidence.proof.models import early_exit
from minispec.native.backend import NATIVE, TORCH
from minispec.verifiers.coupled import verify_coupled
from minispec.verifiers.tree import verify_tree, verify_tree_greedy

# Of equal lengths row by row, so that no shape tells the runs apart.
TEXTS = [[1, 4, 1, 4, 1], [3], [2, 0, 3]], [[7, 8, 7, 8, 8], [9], [5, 6, 5]]
WAYS = ["model", "coupled", *(name for name in ENUMERATED if name == "tree" or name not in TREE_SHAPES)]
GREEDY = Warp(temperature=0)


def case_of(name, warp):
    """Returns a run with a drafter, by its name in the proof; target and draft are made once for a case."""
    target, draft = tiny.gpt_pair()
    case = Case(name, target, draft, (), 3, 14, warp, (4,))
    if name == "coupled":
        return replace(case, verifier=verify_coupled)
    if name == "exit":
        target = early_exit(target, 0)
    if name in ("exit", "medusa", "eagle", "eagle3", "eagle3-auto", "parallel", "medusa-tree"):
        case = replace(case, target=target, draft=target)
    if name in ("tree", "medusa-tree"):
        case = replace(case, verifier=verify_tree_greedy if warp.is_greedy else verify_tree)
    return replace(case, drafter=ENUMERATED.get(name, case.drafter))


def what_happens(r):
    """Returns what a round drafted, accepted and emitted."""
    return r.draft.tokens.tolist(), r.draft.lengths.tolist(), r.verdict.accepted.tolist(), r.emitted, r.finish


def started(case, rng):
    """Returns two runs over the models of a case, not begun; in the second one a prompt waits for a row."""
    return [
        map(what_happens, replace(case, waiting=waits).rounds(prompts, rng(seed)))
        for seed, (prompts, waits) in enumerate(zip(TEXTS, (False, True), strict=True))
    ]


@pytest.mark.parametrize("warp", [GREEDY, Warp()], ids=["T 0", "T 1"])
@pytest.mark.parametrize(
    "backend", [TORCH, pytest.param(NATIVE, marks=needs_compiler)], ids=["torch", "native"]
)
@pytest.mark.parametrize("name", WAYS)
def test_two_runs_over_one_target_are_what_each_is_alone(name, backend, warp):
    """Round by round in turn: the same drafts, the same tokens, the same ends."""
    case = case_of(name, warp).on(backend)
    rng = KeyedRng if name == "coupled" else backend.rng
    alone = [list(run) for run in started(case, rng)]
    in_turn = zip_longest(*started(case, rng))
    assert [[r for r in run if r] for run in zip(*in_turn, strict=True)] == alone
    # A random layer that knows every other id does not guess the most probable one.
    guesses = name != "eagle3" or not warp.is_greedy
    assert not guesses or all(any(any(r[2]) for r in rounds) for rounds in alone), "nothing was accepted"


@pytest.mark.parametrize("how", [speculate, observe])
@pytest.mark.parametrize("name", ["model", "ngram", "automatic", "exit", "medusa"])
def test_one_drafter_for_two_runs_changes_no_text(name, how):
    """It drafts for the run that started it last. Each emits what it does alone, or ends with an error."""
    case = case_of(name, GREEDY)
    drafter = case.drafter(case.draft, None)

    def run(drafter, prompts):
        return tiny.decode(case.target, drafter, prompts, how, max_new_tokens=14, **tiny.GREEDY)

    alone = [tiny.outcome(run(case.drafter(case.draft, None), prompts), 3) for prompts in TEXTS]
    runs = [run(drafter, prompts) for prompts in TEXTS]
    rounds = [[], []]
    going = [0, 1]
    while going:
        for number in list(going):
            try:
                rounds[number].append(next(runs[number]))
            except (StopIteration, ValueError) as end:
                going.remove(number)
                if isinstance(end, StopIteration):
                    assert tiny.outcome(rounds[number], 3) == alone[number]
    assert tiny.outcome(run(drafter, TEXTS[1]), 3) == alone[1]  # one run after another is no matter
