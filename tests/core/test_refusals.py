"""What would give a wrong text in silence is refused: drafts, ends, prompts, trees and random decisions."""

from functools import partial

import pytest
import tiny
import torch
from refusals import refused

from minispec import (
    Draft,
    KeyedRng,
    ModelDrafter,
    NgramDrafter,
    SeededRng,
    SuffixDrafter,
    Warp,
    observe,
    speculate,
)
from minispec.core.draft import draft_within
from minispec.drafters.medusa import doubtful_tree
from minispec.drafters.tree import TreeDrafter, common_tree
from minispec.evidence.proof.enumeration import EnumeratingRng
from minispec.verifiers.tree import verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
ROUND = 3, Warp(0), SeededRng(0), tiny.round_plan([9], [2]), 40
HALVES = torch.full((1, 2, 4), 0.5).double()
HALVES[..., 2:] = 0
NO_TREES = [[1, 1], [0, 2], [1, 0], [-1, 0]]


def run(drafter, prompts=((1, 2),), how=speculate, target=TARGET, **changes):
    """Decodes greedily with 3 drafted tokens a round, but for the changes."""
    return list(tiny.decode(target, drafter, prompts, how, **tiny.GREEDY | {"max_new_tokens": 12} | changes))


def draft_of(tokens=((0, 1),), probs=HALVES, **parts):
    """Returns a draft of these tokens, of which only 0 and 1 are possible."""
    return Draft(torch.tensor(tokens), probs, **parts)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"lengths": torch.tensor([3])}, r"lengths must be from 0 to K = 2, not \[3\]"),
        ({"lengths": torch.tensor([-1])}, r"lengths must be from 0 to K = 2, not \[-1\]"),
        ({"lengths": torch.ones(3).long()}, r"lengths must be \[1\], not \[3\]"),
        ({"lengths": torch.ones(1)}, "tokens and lengths must be int64"),
        ({"parents": torch.zeros(1, 1).long()}, r"parents must be \[1, 2\], not \[1, 1\]"),
        ({"parents": torch.zeros(2).long()}, r"parents must be \[1, 2\], not \[2\]"),
        ({"tokens": ((0, 4),)}, "outside the vocabulary, 0 to 3"),
        ({"tokens": ((-1, 0),)}, "outside the vocabulary, 0 to 3"),
        ({"tokens": ((0, 2),)}, "row 0: drafted token 1 has probability 0 in"),
        ({"tokens": (0, 1)}, r"tokens must be \[B, K\], not \[2\]"),
        ({"probs": HALVES * torch.nan}, "row 0: drafted token 0 has probability nan in"),
        ({"probs": HALVES * 110}, "row 0: drafted token 0 has probability 55 in"),
        ({"probs": HALVES / 0}, "row 0: drafted token 0 has probability inf in"),
        ({"parents": torch.zeros(1, 2)}, "parents must be int64, not torch.float32"),
        ({"probs": HALVES.long()}, "probs of a floating type"),
        *(({"parents": torch.tensor([one])}, "the parents in a tree must ascend") for one in NO_TREES),
        ({"probs": HALVES[:, :1]}, r"probs must be \[1, 2, V\], not \[1, 1, 4\]"),
        ({"probs": HALVES[:0]}, r"probs must be \[1, 2, V\]"),
        ({"probs": HALVES[..., 0]}, r"probs must be \[1, 2, V\]"),
    ],
)
def test_a_draft_that_cannot_be_is_refused(parts, line):
    """Shapes, lengths, parents, ids, types; and a token that its distribution cannot give."""
    with refused(line):
        draft_of(**parts)


def test_of_padding_nothing_is_asked():
    """After a row's length any id may stand, with any distribution."""
    draft = draft_of(((0, 99),), lengths=torch.tensor([1]))
    assert draft.mask.tolist() == [[True, False]]
    assert draft_of(((7, -3),), probs=HALVES * torch.nan, lengths=torch.tensor([0])).k == 2


class Misfit:
    """Proposes the same draft whatever it is asked."""

    cache_lengths = None
    vocab_size = 11
    max_length = 40

    def __init__(self, *shape, **parts):
        self.draft = Draft(torch.ones(*shape[:2], dtype=torch.long), torch.ones(shape), **parts)

    def start(self, prompts, hidden):
        pass

    def propose(self, pending, k, warp, rng):
        return self.draft


@pytest.mark.parametrize("how", [speculate, observe])
@pytest.mark.parametrize(
    ("drafter", "drafted"),
    [
        (Misfit(1, 4, 11), "4 tokens for 1 rows over 11 ids"),
        (Misfit(1, 6, 11, parents=torch.tensor([[0, 0, 1, 3, 3, 4]])), "4 tokens for 1 rows over 11 ids"),
        (Misfit(2, 3, 11), "3 tokens for 2 rows over 11 ids"),
        (Misfit(1, 3, 10), "3 tokens for 1 rows over 10 ids"),
    ],
    ids=["longer", "deeper", "rows", "vocabulary"],
)
def test_a_draft_that_does_not_fit_its_round_is_refused(drafter, drafted, how):
    """More tokens than K, a tree deeper than K, other rows, another vocabulary: one line says so."""
    wanted = "it was asked for at most 3 tokens for 1 rows over 11 ids on cpu"
    with refused(f"^the drafter has proposed {drafted} on cpu; {wanted}$"):
        run(drafter, [[1, 2]], how)


def test_a_draft_on_another_device_is_refused():
    """On the CPU, for a target that is elsewhere."""
    with refused("^the drafter has proposed .* on cpu; .* on meta$"):
        draft_within(Misfit(1, 3, 11), torch.ones(1, dtype=torch.long, device="meta"), *ROUND)


def test_padding_and_broad_trees_fit():
    """Columns beyond K that propose nothing, and a tree of more tokens than K whose paths are within it."""
    for fits in (
        Misfit(1, 6, 11, lengths=torch.tensor([3])),
        Misfit(1, 6, 11, parents=torch.tensor([[0, 0, 1, 2, 3, 3]])),
        Misfit(1, 6, 11, parents=torch.arange(6)[None], lengths=torch.tensor([3])),
    ):
        assert draft_within(fits, torch.ones(1).long(), *ROUND) is fits.draft


def test_rows_that_end_before_others_propose_possible_tokens():
    """At temperature 0 a row without budget has one possible token; what stands there is padding, 0."""
    rounds = run(ModelDrafter(DRAFT), [[1], [2, 3, 1, 4, 5, 6], [7, 7]], eos=(4, 9), k=5, max_new_tokens=14)
    ended = [r for r in rounds if not all(r.live)]
    assert ended and all(not r.draft.tokens[~r.draft.mask].any() for r in ended)


def ids_of(run):
    """Returns the tokens of a run of one row."""
    return [token for r in run for token in r.emitted[0]]


ENDS = [(4,), torch.tensor(4), torch.tensor([4, 9]), torch.tensor([4, 9]).numpy(), {4, 9}, iter([4, 9])]


@pytest.mark.parametrize("eos", ENDS, ids=lambda eos: type(eos).__name__)
def test_ends_may_be_an_id_several_or_a_tensor(eos):
    """The text ends at the same place, whatever they come as."""
    whole = ids_of(run(None, k=0))
    assert 4 in whole[:-1] and 9 not in whole[: whole.index(4)]
    assert ids_of(run(None, k=0, eos=eos)) == whole[: whole.index(4) + 1]


@pytest.mark.parametrize(
    "eos", ["4", ["4"], b"4", True, [True], torch.tensor([True]), 11, -1, 4.0, [4, None]]
)
def test_ends_that_are_no_ids_are_refused(eos):
    """Text, bytes, truth values, numbers outside the vocabulary: never found, so never ignored in silence."""
    for decode in (partial(run, None, k=0), partial(tiny.alone, TARGET)):
        with refused("eos must be token ids from 0 to 10, not"):
            decode(eos=eos)


@pytest.mark.parametrize("make", [NgramDrafter, SuffixDrafter])
def test_prompts_may_be_tensors(make):
    """A look-up finds in a tensor what it finds in a list; so does every other drafter."""
    prompts = [[1, 2, 3, 1, 2, 3, 1, 2], [2, 1, 3, 2, 1, 3, 2, 1]]
    wanted = [r.draft.tokens.tolist() for r in run(make(11), prompts)]
    assert wanted[0][0] == [3, 1, 2]
    both = torch.tensor(prompts)
    for given in (both, tuple(both), [prompts[0], both[1].numpy()]):
        assert [r.draft.tokens.tolist() for r in run(make(11), given)] == wanted


@pytest.mark.parametrize(
    "prompts", [[1, 2], ["text"], [[1, 0.5]], [None], torch.tensor([1, 2]), [torch.ones(2)]]
)
def test_prompts_that_are_no_ids_are_refused(prompts):
    """In one line that shows the first of them."""
    with refused("prompt 0 must be a sequence of token ids, not"):
        run(None, prompts, k=0)


def test_a_model_without_trees_is_named():
    """As a target and as a draft; the text of the error is one line."""
    table = tiny.table(11)
    for target, draft in ((table, DRAFT), (TARGET, table)):
        with refused("TableModel reads no trees; a GPT on the torch backend does"):
            run(TreeDrafter(draft, [0, 0, 1]), target=target, verifier=verify_tree_greedy)


@pytest.mark.parametrize("tree", [common_tree, doubtful_tree])
def test_the_depth_of_a_tree_is_bounded(tree):
    """No deeper than it has tokens, whatever K; a depth of none and a tree without end are refused."""
    assert tree(16, 10**30) == tree(16, 16)
    for nodes, depth in ((16, -1), (16, 0), (0, 4), (10**30, 4)):
        with refused("a tree has 1 to 4,096 tokens and is at least 1 deep, not"):
            tree(nodes, depth)
    huge = run(TreeDrafter(DRAFT, common_tree(4)), k=10**30, verifier=verify_tree_greedy)
    assert ids_of(huge) == ids_of(run(None, k=0)) == ids_of(run(ModelDrafter(DRAFT), k=10**30))


@pytest.mark.parametrize(
    "rng", [SeededRng(0), KeyedRng(0), EnumeratingRng([()])], ids=lambda r: type(r).__name__
)
@pytest.mark.parametrize("shape", [(2, 3), (), (1, 1)])
def test_a_decision_is_asked_for_row_by_row(rng, shape):
    """Probabilities of another shape than [B] are refused; numbers for them would be used up or repeated."""
    with refused(r"one probability a row, \[B\], not \["):
        rng.bernoulli(torch.ones(shape))
    assert rng.bernoulli(torch.ones(2)).tolist() == [True, True]
