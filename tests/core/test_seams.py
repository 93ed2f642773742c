"""What the core has ready for later drafters: layer ranges, trees, refilled rows, hidden states, rules."""

import pytest
import tiny
import torch
from refusals import refused
from tiny import PAIRS, PROMPTS, decode, same

from minispec import ModelDrafter, Warp, observe, speculate, verify_greedy
from minispec.core.model import Tree
from minispec.core.prefill import refill

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


# Ranges of layers: an early exit.


def through(model, cache, x, first=0, last=LAYERS):
    """Takes a stream [B, n, D] through some of the layers, into a cache."""
    view = model.view(x.shape[1], cache, None, slice(first, last))
    x = model.layers(x, view, first, last)
    cache.advance()
    return x


def read_ahead(model, cache, block, layers):
    """Reads a block token by token through the first layers; returns the stream after them: [B, n, D]."""
    embedded = model.embed_tokens(block).split(1, dim=1)
    return torch.cat([through(model, cache, x, 0, layers) for x in embedded], dim=1)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_an_early_exit_reads_ahead_and_the_other_layers_follow(model, lengths, layers):
    """K tokens through E layers one by one, then through the others at once: logits of a plain forward.

    Twice in a row, with a rollback to different lengths between, as two rounds would do it. What was read
    ahead before, and dropped, leaves no trace.
    """
    texts, cache = read_before(model, lengths)
    for seed, kept in ((1, [4, 1, 0]), (2, [5, 5, 5])):
        before = cache.row_lengths
        read_ahead(model, cache, tokens(3, 4, 9), layers)
        assert cache.row_lengths == before  # all layers together hold what the last one does
        cache.truncate(before)
        block = tokens(3, 5, seed)
        x = through(model, cache, read_ahead(model, cache, block, layers), layers)
        assert cache.row_lengths == tuple(n + 5 for n in before)
        after = as_if_alone(model, texts, block, model.head(model.norm(x)))
        texts = [text[: len(text) - 5 + n] for text, n in zip(after, kept, strict=True)]
        cache.truncate([len(text) for text in texts])
    holds_the_texts(model, cache, texts)


def test_an_early_exit_ends_with_the_context(model):
    """The first layers have as much space as the others, counted on their own."""
    _, cache = read_before(model, [CONTEXT - 2])
    x = read_ahead(model, cache, tokens(1, 2), 1)
    with refused(f"the context is full: {CONTEXT} tokens and 1 more"):
        model.view(1, cache, None, slice(0, 1))
    through(model, cache, x, 1)
    assert cache.row_lengths == (CONTEXT,)


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


class Wanting(ModelDrafter):
    """A draft model that asks for the target's hidden states, and keeps what it gets.

    Attributes:
        starts: what came with each `start`.
        rounds: what came with each round.
    """

    wants_hidden = True

    def __init__(self, model):
        super().__init__(model)
        self.starts = []
        self.rounds = []

    def start(self, prompts, hidden):
        super().start(prompts)
        self.starts.append(hidden)

    def commit(self, round):
        super().commit(round)
        self.rounds.append(round.target_hidden)


@torch.inference_mode()
@pytest.mark.parametrize("run", [speculate, observe])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("prompts", [PROMPTS, [[4], [2]]], ids=["ragged", "single tokens"])
def test_a_drafter_that_wants_them_gets_the_targets_hidden_states(prompts, name, run):
    """Of the prompts at the start: those of a plain forward; of each round: what its logits came from."""
    target, draft = PAIRS[name]
    drafter = Wanting(draft)
    rounds = list(decode(target, drafter, prompts, run))
    (start,) = drafter.starts
    longest = max(map(len, prompts)) - 1
    assert start is None if longest == 0 else start.shape[:2] == (len(prompts), longest)
    for row, prompt in enumerate(prompts):
        if len(prompt) > 1:
            same(start[row, : len(prompt) - 1], plain(target, prompt[:-1]))
    for r, hidden in zip(rounds, drafter.rounds, strict=True):
        assert hidden is r.target_hidden and hidden.shape[:2] == (len(prompts), r.draft.k + 1)
        same(target.head(hidden), r.target_logits)
    without = list(decode(target, ModelDrafter(draft), prompts, run))
    assert [r.emitted for r in without] == [r.emitted for r in rounds]
    assert all(r.target_hidden is None for r in without)


# Rules that say what they are.


def of_ones_own(rule, **attributes):
    """Returns a rule of another name that decides the same, and says of itself what is given."""

    def other(draft, target_probs, rng):
        return rule(draft, target_probs, rng)

    vars(other).update(attributes)
    return other


def test_a_greedy_rule_of_ones_own_needs_temperature_0():
    """What it says of itself counts, not its name: refused above, and the target's text at 0.

    Of one that goes on after a rejection it has no meaning how many tokens were tested.
    """
    target, draft = PAIRS["table"]
    greedy = of_ones_own(verify_greedy, greedy=True)
    with refused("greedy verifier needs temperature 0, not 0.5"):
        list(decode(target, ModelDrafter(draft), verifier=greedy, warp=Warp(0.5)))
    tiny.targets_own_text(target, ModelDrafter(draft), verifier=greedy)
    goes_on = of_ones_own(verify_greedy, stops_at_first_rejection=False)
    for rule, tested in ((of_ones_own(verify_greedy), True), (goes_on, False)):
        for r in decode(target, ModelDrafter(draft), verifier=rule, warp=Warp(0.5)):
            assert (r.tested(0) is not None) == tested
