"""What the core offers to drafters and verifiers of other authors: trees, refilled rows, hidden states."""

import pytest
import tiny
import torch
from refusals import refused
from tiny import PAIRS, PROMPTS, decode, same

from minispec import ModelDrafter, Verifier, Warp, observe, speculate
from minispec.core.model import Tree
from minispec.core.prefill import refill
from minispec.core.verify import accept_greedy
from minispec.drafters.tree import TreeDrafter

CONTEXT = 40
LAYERS = 3
LENGTHS = [7, 7, 7], [6, 2, 9], [0, 3, 0]  # of the rows before what is tested: equal, and ragged


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers."""
    return tiny.gpt(tiny.config(layers=LAYERS, max_length=CONTEXT), seed=6).requires_grad_(False)


def tokens(rows, length, seed=0):
    """Returns ids below 11, [rows, length]."""
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(seed))


def read_before(model, lengths):
    """Returns texts of the given lengths, and a cache that has read them."""
    block = tokens(len(lengths), max(lengths))
    cache = model.new_cache(len(lengths))
    model.hidden(block, cache)
    cache.truncate(lengths)
    return [row[:n].tolist() for row, n in zip(block, lengths, strict=True)], cache


def plain(model, text):
    """Returns the hidden states of one text, read at once without a cache: [n, D]."""
    return model.hidden(torch.tensor([text]))[0]


def as_if_alone(model, texts, block, logits):
    """Asserts that the logits of a block are those after each of the texts; returns the texts with it."""
    after = [text + more.tolist() for text, more in zip(texts, block, strict=True)]
    for row, text in enumerate(after):
        same(logits[row], model.head(plain(model, text))[len(texts[row]) :])
    return after


def holds_the_texts(model, cache, texts):
    """Asserts that a cache holds texts and nothing else, and that what is read next follows them."""
    tiny.holds_all_but_the_pending_token(model, cache, [[*text, 0] for text in texts])
    for seed in (2, 3):
        block = tokens(len(texts), 3, seed)
        texts = as_if_alone(model, texts, block, model(block, cache))


# Trees.

PARENTS = [None, None, 0, 0, 1, 2, 5, 5]  # two tokens after the pending one, and what may follow each


def ancestors(node):
    """Returns a node and those that it follows, from the first on."""
    return [] if node is None else [*ancestors(PARENTS[node]), node]


def read_tree(model, lengths):
    """Returns texts, a cache that has read them and a tree after each, and its tokens and hidden states."""
    texts, cache = read_before(model, lengths)
    depths = torch.tensor([len(ancestors(node)) - 1 for node in range(len(PARENTS))])
    mask = torch.tensor([[n in ancestors(node) for n in range(len(PARENTS))] for node in range(len(PARENTS))])
    tree = Tree(torch.tensor(lengths)[:, None] + depths, mask.expand(len(lengths), -1, -1))
    nodes = tokens(len(lengths), len(PARENTS), 1)
    return texts, cache, nodes, model.hidden(nodes, cache, tree=tree)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_each_branch_of_a_tree_is_read_as_if_alone(model, lengths):
    """One forward over all nodes gives each of them the hidden state that its own path has in the text."""
    texts, cache, nodes, hidden = read_tree(model, lengths)
    assert cache.row_lengths == tuple(n + len(PARENTS) for n in lengths)
    for row, text in enumerate(texts):
        for node in range(len(PARENTS)):
            same(hidden[row, node], plain(model, text + nodes[row, ancestors(node)].tolist())[-1])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("leaves", [(7, 4, 6), (3, None, 1), (None, 0, 2)], ids=str)
def test_the_accepted_path_of_a_tree_stays(model, lengths, leaves):
    """After `gather` the cache holds each row's own path, and goes on as if only that had been read."""
    texts, cache, nodes, _ = read_tree(model, lengths)
    paths = [ancestors(leaf) for leaf in leaves]
    cache.gather([[*range(n), *(n + node for node in path)] for n, path in zip(lengths, paths, strict=True)])
    holds_the_texts(model, cache, [text + nodes[row, paths[row]].tolist() for row, text in enumerate(texts)])


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ([[0, 1, 2], [1, 0], [0]], "row 1: the slots to keep must ascend from 0 to at most 2"),
        ([[0, 1], [0, 0], [0]], "row 1: the slots"),
        ([[0, 1], [0], [0, 4]], "row 2: the slots"),
        ([[0], [0]], "argument"),
    ],
)
def test_slots_that_cannot_be_kept_are_refused(model, indices, words):
    """Out of order, twice, beyond the row, a row too few; the cache is as before."""
    texts, cache = read_before(model, [5, 3, 4])
    with refused(words):
        cache.gather(indices)
    holds_the_texts(model, cache, texts)


def test_a_tree_needs_a_cache_and_space(model):
    """Both are one clear line, and the cache is as before."""
    tree = Tree(torch.zeros(1, 4).long(), torch.eye(4, dtype=torch.bool)[None])
    with refused("a tree needs a cache"):
        model.hidden(tokens(1, 4), None, tree)
    _, cache = read_before(model, [CONTEXT - 3])
    with refused("the context is full"):
        model.hidden(tokens(1, 4), cache, tree)
    assert cache.row_lengths == (CONTEXT - 3,)


# Refilled rows.


def test_rows_are_refilled_from_the_right_prompts(model):
    """Two rows of three begin with prompts of different lengths, in the order that they are named in."""
    texts, cache = read_before(model, LENGTHS[1])
    texts[2] = tokens(1, 4, 8)[0].tolist()
    texts[0] = tokens(1, 7, 9)[0].tolist()
    refill(model, cache, [2, 0], [[*texts[2], 0], [*texts[0], 0]])
    holds_the_texts(model, cache, texts)


# Hidden states for the drafter.


class Reading(ModelDrafter):
    """A draft model that keeps the target's hidden states that it gets.

    Attributes:
        starts: what came with each `start`.
        rounds: what came with each round.
    """

    def __init__(self, model):
        super().__init__(model)
        self.starts = []
        self.rounds = []

    def start(self, prompts, hidden):
        super().start(prompts, hidden)
        self.starts.append(hidden)

    def commit(self, round):
        super().commit(round)
        self.rounds.append(round.target_hidden)


@torch.inference_mode()
@pytest.mark.parametrize("run", [speculate, observe])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("prompts", [PROMPTS, [[4], [2]]], ids=["ragged", "single tokens"])
def test_a_drafter_gets_the_targets_hidden_states(prompts, name, run):
    """Of the prompts at the start: those of a plain forward; of each round: what its logits came from."""
    target, draft = PAIRS[name]
    drafter = Reading(draft)
    rounds = list(decode(target, drafter, prompts, run))
    (start,) = drafter.starts
    longest = max(map(len, prompts)) - 1
    assert start.shape == (len(prompts), longest, target.hidden_size)
    for row, prompt in enumerate(prompts):
        if len(prompt) > 1:
            same(start[row, : len(prompt) - 1], plain(target, prompt[:-1]))
    for r, hidden in zip(rounds, drafter.rounds, strict=True):
        assert hidden is r.target_hidden and hidden.shape[:2] == (len(prompts), r.draft.k + 1)
        same(target.head(hidden), r.target_logits)
    without = list(decode(target, ModelDrafter(draft), prompts, run))
    assert [r.emitted for r in without] == [r.emitted for r in rounds]


# Verifiers of other authors.


def of_another_author(**fields):
    """Returns a verifier of another name that decides as `verify_greedy` does."""
    return Verifier("mine", accept_greedy, **fields)


def test_a_greedy_verifier_needs_temperature_0():
    """What is known of it counts, not its name: refused above, and the target's text at 0.

    Of one that goes on after a rejection it has no meaning how many tokens were tested.
    """
    target, draft = PAIRS["table"]
    greedy = of_another_author(greedy=True)
    with refused("greedy verifier needs temperature 0, not 0.5"):
        list(decode(target, ModelDrafter(draft), verifier=greedy, warp=Warp(0.5)))
    tiny.targets_own_text(target, ModelDrafter(draft), verifier=greedy)
    goes_on = of_another_author(stops_at_first_rejection=False)
    for verifier, tested in ((accept_greedy, True), (goes_on, False)):
        for r in decode(target, ModelDrafter(draft), verifier=verifier, warp=Warp(0.5)):
            assert (r.tested(0) is not None) == tested


def test_a_plain_function_is_a_verifier():
    """Of three arguments; it draws by name of the position or not, and emits the target's text."""
    target, draft = PAIRS["gpt"]
    asked = []

    def mine(draft, target_probs, rng):
        asked.append(rng.plan.starts)
        assert rng.bernoulli(torch.ones(len(draft.tokens))).tolist() == [
            budget > 0 for budget in rng.plan.budgets
        ]
        return accept_greedy(draft, target_probs, rng)

    tiny.targets_own_text(target, ModelDrafter(draft), verifier=mine)
    assert asked[0] == tuple(map(len, PROMPTS))


def test_a_tree_is_refused_by_a_verifier_for_chains():
    """By its name, in the loop and alone."""
    target, draft = PAIRS["gpt"]
    with refused("the greedy verifier verifies a chain, and a tree was drafted"):
        list(decode(target, TreeDrafter(draft, [0, 0]), **tiny.GREEDY))
