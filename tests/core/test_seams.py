"""What the core has ready for later drafters: layer ranges, trees, refilled rows, hidden states, rules."""

import pytest
import tiny
import torch
from tiny import PAIRS, PROMPTS, same

from minispec import (
    Draft,
    KeyedRng,
    ModelDrafter,
    SeededRng,
    Verdict,
    Warp,
    observe,
    record,
    speculate,
    verify_greedy,
    verify_rejection,
)
from minispec.core.model import Tree
from minispec.core.prefill import refill
from minispec.core.rng import BlockRng

CONTEXT = 40
LAYERS = 3
LENGTHS = [7, 7, 7], [6, 2, 9]  # of the rows before what is tested: equal, and ragged
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers."""
    return tiny.gpt(tiny.config(layers=LAYERS, max_length=CONTEXT), seed=6).requires_grad_(False)


def tokens(rows, length, seed=0):
    """Returns ids below 11, [rows, length]."""
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(seed))


def read_before(model, lengths, seed=0):
    """Returns texts of the given lengths, and a cache that has read them."""
    block, cache = tokens(len(lengths), max(lengths), seed), model.new_cache(len(lengths))
    model.hidden(block, cache)
    cache.truncate(lengths)
    return [row[:n].tolist() for row, n in zip(block, lengths, strict=True)], cache


def plain(model, text):
    """Returns the hidden states of one text, read at once without a cache: [n, D]."""
    return model.hidden(torch.tensor([text]))[0]


# Ranges of layers: an early exit.


@pytest.mark.parametrize("middle", range(LAYERS + 1))
def test_two_ranges_of_layers_are_the_whole(model, middle):
    """Blocks 0 … m−1 and then m … end give bit for bit what all of them give, with and without a cache."""
    text = tokens(2, 9)
    view = model.view(9, None)
    x = model.embed_tokens(text)
    whole = model.layers(x, view)
    assert torch.equal(model.layers(model.layers(x, view, 0, middle), view, middle), whole)
    assert torch.equal(model.norm(whole), model.hidden(text))
    caches = model.new_cache(2), model.new_cache(2)
    views = [model.view(9, cache) for cache in caches]
    again = model.layers(model.layers(x, views[0], 0, middle), views[0], middle)
    assert torch.equal(again, model.layers(x, views[1]))
    for cache in caches:
        cache.advance()
        assert cache.row_lengths == (9, 9)
    assert torch.equal(caches[0]._keys, caches[1]._keys)


def test_a_range_leaves_out_the_others(model):
    """The first two blocks alone give neither the whole nor what one block gives."""
    view, x = model.view(9, None), model.embed_tokens(tokens(2, 9))
    results = [model.layers(x, view, 0, last) for last in range(LAYERS + 1)]
    assert torch.equal(results[0], x)
    for one, other in zip(results, results[1:], strict=False):
        assert (one - other).abs().max() > 0.1


def read_ahead(model, cache, block, layers):
    """Reads a block token by token through the first layers; returns the stream after them: [B, n, D]."""
    pieces = []
    for token in block.split(1, dim=1):
        view = model.view(1, cache, None, slice(0, layers))
        pieces.append(model.layers(model.embed_tokens(token), view, 0, layers))
        cache.advance()
    return torch.cat(pieces, dim=1)


def read_on(model, cache, x, layers):
    """Takes a stream [B, n, D] through the other layers, all tokens at once; returns logits [B, n, V]."""
    view = model.view(x.shape[1], cache, None, slice(layers, None))
    x = model.layers(x, view, layers)
    cache.advance()
    return model.head(model.norm(x))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_an_early_exit_reads_ahead_and_the_other_layers_follow(model, lengths, layers):
    """K tokens through E layers one by one, then through the others at once: logits of a plain forward.

    Twice in a row, with a rollback to different lengths between, as two rounds would do it.
    """
    texts, cache = read_before(model, lengths)
    for seed, kept in ((1, [4, 1, 0]), (2, [5, 5, 5])):
        block = tokens(3, 5, seed)
        before = cache.row_lengths
        x = read_ahead(model, cache, block, layers)
        assert cache.row_lengths == before  # all layers together hold what the last one does
        logits = read_on(model, cache, x, layers)
        assert cache.row_lengths == tuple(n + 5 for n in before)
        for row, text in enumerate(texts):
            whole = model.head(plain(model, text + block[row].tolist()))
            same(logits[row], whole[len(text) :])
            texts[row] = text + block[row, : kept[row]].tolist()
        cache.truncate([len(text) for text in texts])
    tiny.holds_all_but_the_pending_token(model, cache, [[*text, 0] for text in texts])


def test_an_early_exit_can_be_dropped(model):
    """What the first layers have read ahead goes with a rollback, before any other layer has seen it."""
    texts, cache = read_before(model, LENGTHS[1])
    read_ahead(model, cache, tokens(3, 4, 1), 2)
    cache.truncate(cache.row_lengths)
    block = tokens(3, 4, 2)
    found = model(block, cache)
    for row, text in enumerate(texts):
        same(found[row], model.head(plain(model, text + block[row].tolist()))[len(text) :])


def test_an_early_exit_ends_with_the_context(model):
    """The first layers have as much space as the others, counted on their own."""
    _, cache = read_before(model, [CONTEXT - 2])
    x = read_ahead(model, cache, tokens(1, 2), 1)
    with pytest.raises(ValueError, match=f"the context is full: {CONTEXT} tokens and 1 more"):
        model.view(1, cache, None, slice(0, 1))
    assert read_on(model, cache, x, 1).shape == (1, 2, 11)
    assert cache.row_lengths == (CONTEXT,)


# Trees.

PARENTS = [None, None, 0, 0, 1, 2, 5, 5]  # two tokens after the pending one, and what may follow each


def ancestors(node):
    """Returns a node and those that it follows, from the first on."""
    return [] if node is None else [*ancestors(PARENTS[node]), node]


def tree_after(lengths):
    """Returns the tree for rows of these lengths."""
    depths = torch.tensor([len(ancestors(node)) - 1 for node in range(len(PARENTS))])
    mask = torch.zeros(len(PARENTS), len(PARENTS), dtype=torch.bool)
    for node in range(len(PARENTS)):
        mask[node, ancestors(node)] = True
    positions = torch.tensor(lengths)[:, None] + depths
    return Tree(positions, mask.expand(len(lengths), -1, -1))


@pytest.mark.parametrize("lengths", [*LENGTHS, [0, 3, 0]], ids=str)
def test_each_branch_of_a_tree_is_read_as_if_alone(model, lengths):
    """One forward over all nodes gives each of them the hidden state that its own path has in the text."""
    texts, cache = read_before(model, lengths)
    nodes = tokens(3, len(PARENTS), 1)
    hidden = model.hidden(nodes, cache, tree=tree_after(lengths))
    assert cache.row_lengths == tuple(n + len(PARENTS) for n in lengths)
    for row, text in enumerate(texts):
        for node in range(len(PARENTS)):
            path = text + nodes[row, ancestors(node)].tolist()
            same(hidden[row, node], plain(model, path)[-1])


@pytest.mark.parametrize("part", ["positions", "mask"])
def test_positions_and_mask_of_a_tree_both_count(model, part):
    """With the positions, or the mask, of a chain, siblings get other hidden states."""
    texts, cache = read_before(model, LENGTHS[0])
    nodes, tree = tokens(3, len(PARENTS), 1), tree_after(LENGTHS[0])
    each = torch.arange(len(PARENTS))
    chain = {
        "positions": torch.tensor(LENGTHS[0])[:, None] + each,
        "mask": (each <= each[:, None]).expand(3, -1, -1),
    }
    hidden = model.hidden(nodes, cache, tree=tree._replace(**{part: chain[part]}))
    alone = plain(model, texts[0] + nodes[0, ancestors(4)].tolist())[-1]
    assert (hidden[0, 4] - alone).abs().max() > 1e-2


@pytest.mark.parametrize("lengths", [*LENGTHS, [0, 3, 0]], ids=str)
@pytest.mark.parametrize("leaves", [(7, 4, 6), (3, None, 1), (None, 0, 2)], ids=str)
def test_the_accepted_path_of_a_tree_stays(model, lengths, leaves):
    """After `gather` the cache holds each row's own path, and goes on as if only that had been read."""
    texts, cache = read_before(model, lengths)
    nodes = tokens(3, len(PARENTS), 1)
    model.hidden(nodes, cache, tree=tree_after(lengths))
    paths = [ancestors(leaf) for leaf in leaves]
    cache.gather([[*range(n), *(n + node for node in path)] for n, path in zip(lengths, paths, strict=True)])
    texts = [text + nodes[row, paths[row]].tolist() for row, text in enumerate(texts)]
    assert cache.row_lengths == tuple(map(len, texts))
    tiny.holds_all_but_the_pending_token(model, cache, [[*text, 0] for text in texts])
    for seed in (2, 3):  # on as a chain, twice
        more = tokens(3, 3, seed)
        found = model(more, cache)
        for row, text in enumerate(texts):
            same(found[row], model.head(plain(model, text + more[row].tolist()))[len(text) :])
            texts[row] = text + more[row].tolist()


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0, 1, 2], [1, 0], [0]], "row 1: the slots to keep must ascend from 0 to at most 2"),
        ([[0, 1], [0, 0], [0]], "row 1: the slots"),
        ([[0, 1], [0], [0, 4]], "row 2: the slots to keep must ascend from 0 to at most 3"),
        ([[-1], [0], [0]], "row 0: the slots"),
        ([[0], [0]], "argument"),
    ],
)
def test_slots_that_cannot_be_kept_are_refused(model, indices, message):
    """Out of order, twice, beyond the row, negative, a row too few; the cache is as before."""
    _, cache = read_before(model, [5, 3, 4])
    keys = cache._keys.clone()
    with pytest.raises(ValueError, match=message):
        cache.gather(indices)
    assert cache.row_lengths == (5, 3, 4) and torch.equal(cache._keys, keys)


def test_a_tree_needs_a_cache_and_space(model):
    """Both are one clear line, and the cache is as before."""
    with pytest.raises(ValueError, match="a tree needs a cache"):
        model.hidden(tokens(3, len(PARENTS)), None, tree=tree_after([0, 0, 0]))
    _, cache = read_before(model, [CONTEXT - 3])
    with pytest.raises(ValueError, match="the context is full"):
        model.hidden(tokens(1, len(PARENTS)), cache, tree=tree_after([CONTEXT - 3]))
    assert cache.row_lengths == (CONTEXT - 3,)


# Refilled rows.


def test_a_row_takes_another_prompt_while_the_others_go_on(model):
    """The other rows' keys stay; the new prompt is read as if alone, and so is what follows."""
    texts, cache = read_before(model, LENGTHS[1])
    keys, values = cache._keys.clone(), cache._values.clone()
    prompts = tokens(2, 5, 4).tolist()
    refill(model, cache, [1], [[*prompts[1], 0]])
    assert cache.row_lengths == (6, 5, 9)
    for kept, was in ((cache._keys, keys), (cache._values, values)):
        assert torch.equal(kept[:, [0, 2]], was[:, [0, 2]])
    texts[1] = prompts[1]
    tiny.holds_all_but_the_pending_token(model, cache, [[*text, 0] for text in texts])
    more = tokens(3, 3, 5)
    found = model(more, cache)
    for row, text in enumerate(texts):
        same(found[row], model.head(plain(model, text + more[row].tolist()))[len(text) :])


def test_rows_are_refilled_from_the_right_prompts(model):
    """Two rows of three begin with prompts of different lengths, in the order that they are named in."""
    texts, cache = read_before(model, LENGTHS[1])
    texts[2], texts[0] = tokens(1, 4, 8)[0].tolist(), tokens(1, 7, 9)[0].tolist()
    refill(model, cache, [2, 0], [[*texts[2], 0], [*texts[0], 0]])
    tiny.holds_all_but_the_pending_token(model, cache, [[*text, 0] for text in texts])


@pytest.mark.parametrize("names", [[2, 0], [5, 2]])
def test_a_row_draws_the_noise_of_the_prompt_that_it_holds(names):
    """In whatever slot it stands: the name says which prompt it is, the slot where it is in the text."""
    dists = torch.full((3, 1000), 1e-3, dtype=torch.float64)
    rng, starts = KeyedRng(5), [7, 9]
    block = BlockRng(rng, starts, [3, 3], CPU, names=names)
    found = block.categorical(dists[:2], positions=1)
    wanted = [
        int(rng.categorical(dists[:1], rows=torch.tensor([name]), positions=start + 1))
        for name, start in zip(names, starts, strict=True)
    ]
    assert found.tolist() == wanted
    one = block.categorical(dists[:1], rows=torch.tensor([1]), positions=1)
    assert one.tolist() == wanted[1:]
    unnamed = BlockRng(rng, starts, [3, 3], CPU).categorical(dists[:2], positions=1)
    assert unnamed.tolist() != wanted


def test_names_do_not_change_which_rows_have_budget():
    """Budgets and starts are the slot's own."""
    dists = torch.full((2, 1000), 1e-3, dtype=torch.float64)
    block = BlockRng(KeyedRng(5), [7, 9], [1, 3], CPU, names=[1, 0])
    picked = block.categorical(dists, positions=1)
    assert int(picked[0]) == 0
    assert int(picked[1]) == int(KeyedRng(5).categorical(dists[:1], positions=10))


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
        self.starts, self.rounds = [], []

    def start(self, prompts, hidden):
        super().start(prompts)
        self.starts.append(hidden)

    def commit(self, round):
        super().commit(round)
        self.rounds.append(round.target_hidden)


SETTINGS = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 12, "warp": Warp()}


@torch.inference_mode()
@pytest.mark.parametrize("run", [speculate, observe])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "prompts", [PROMPTS, [[1, 2, 3]], [[4], [2]]], ids=["ragged", "one", "single tokens"]
)
def test_a_drafter_that_wants_them_gets_the_targets_hidden_states(prompts, name, run):
    """Of the prompts at the start and of each round: those of the target reading the same text plainly."""
    target, draft = PAIRS[name]
    drafter = Wanting(draft)
    rounds = list(run(target, drafter, prompts, rng=SeededRng(1), **SETTINGS))
    (start,) = drafter.starts
    if max(map(len, prompts)) == 1:
        assert start is None
    else:
        assert start.shape[:2] == (len(prompts), max(map(len, prompts)) - 1)
        for row, prompt in enumerate(prompts):
            if len(prompt) > 1:
                same(start[row, : len(prompt) - 1], plain(target, prompt[:-1]))
    texts = [list(prompt) for prompt in prompts]
    for r, seen in zip(rounds, drafter.rounds, strict=True):
        assert seen is r.target_hidden and seen.shape[:2] == (len(prompts), r.draft.k + 1)
        same(target.head(seen), r.target_logits)
        for row, text in enumerate(texts):
            if r.live[row]:
                n = r.drafted(row)
                whole = plain(target, text + r.draft.tokens[row, :n].tolist())
                same(seen[row, : n + 1], whole[len(text) - 1 :])
            text += r.emitted[row]


@pytest.mark.parametrize("name", PAIRS)
def test_hidden_states_change_no_token(name):
    """With and without them the same is drafted and emitted; who does not ask gets none."""
    target, draft = PAIRS[name]
    runs = [
        list(speculate(target, drafter, PROMPTS, rng=SeededRng(2), **SETTINGS))
        for drafter in (ModelDrafter(draft), Wanting(draft))
    ]
    assert [r.emitted for r in runs[0]] == [r.emitted for r in runs[1]]
    for one, other in zip(*runs, strict=True):
        assert torch.equal(one.draft.tokens, other.draft.tokens)
        assert torch.equal(one.target_logits, other.target_logits)
        assert one.target_hidden is None and other.target_hidden is not None


def test_without_drafting_nobody_asks():
    """With K = 0 the drafter is left alone, and rounds carry no hidden states."""
    target, draft = PAIRS["table"]
    drafter = Wanting(draft)
    rounds = list(speculate(target, drafter, [[1, 2]], rng=SeededRng(0), **SETTINGS | {"k": 0}))
    assert all(r.target_hidden is None for r in rounds) and drafter.starts == []


# Rules that say what they are.


def goes_on(draft, target_probs, rng):
    """A rule that is `verify_rejection`, and says that it looks beyond a rejection."""
    return verify_rejection(draft, target_probs, rng)


goes_on.stops_at_first_rejection = False


def test_a_rule_that_looks_beyond_a_rejection_has_no_acceptance():
    """`tested` and `acceptance` are None, in rounds and in statistics; accepted over drafted is a number."""
    target, draft = PAIRS["gpt"]
    traces = {
        rule: record(target, ModelDrafter(draft), PROMPTS, rng=SeededRng(0), **SETTINGS | {"verifier": rule})
        for rule in (verify_rejection, goes_on)
    }
    plain_counts, counts = (traces[rule].statistics() for rule in (verify_rejection, goes_on))
    for r in traces[goes_on].rounds:
        assert r.stops_at_first_rejection is False
        assert [r.tested(row) for row in range(3)] == [None] * 3
    assert counts.tested is None and counts.acceptance is None
    assert counts.accepted == plain_counts.accepted and counts.drafted == plain_counts.drafted
    assert counts.accepted_over_drafted == counts.accepted / counts.drafted > 0
    assert counts.mean_acceptance_length == 1 + counts.accepted / counts.row_rounds
    assert plain_counts.acceptance == plain_counts.accepted / plain_counts.tested
    assert all(r.stops_at_first_rejection for r in traces[verify_rejection].rounds)


def own_greedy(draft, target_probs, rng):
    """A greedy rule of one's own: what `verify_greedy` decides, but never more than one token is kept."""
    verdict = verify_greedy(draft, target_probs, rng)
    best = target_probs.argmax(-1)
    kept = verdict.accepted.clamp(max=1)
    return Verdict(kept, best.gather(1, kept[:, None])[:, 0])


own_greedy.greedy = True


def test_a_greedy_rule_of_ones_own_needs_temperature_0():
    """What it says of itself counts, not its name: refused above, and the target's text at 0."""
    target, draft = PAIRS["table"]
    settings = {"k": 3, "verifier": own_greedy, "max_new_tokens": 12, "rng": SeededRng(0)}
    with pytest.raises(ValueError, match="greedy verifier needs temperature 0, not 0.5"):
        list(speculate(target, ModelDrafter(draft), PROMPTS, warp=Warp(0.5), **settings))
    rounds = speculate(target, ModelDrafter(draft), PROMPTS, warp=Warp(0), **settings)
    wanted = [tiny.greedy(target, prompt, 12)[0] for prompt in PROMPTS]
    assert tiny.outcome(rounds, 3)[0] == wanted
    settings["verifier"] = lambda draft, probs, rng: own_greedy(draft, probs, rng)  # says nothing
    assert list(speculate(target, ModelDrafter(draft), PROMPTS, warp=Warp(0.5), **settings))


def test_a_rule_may_return_fewer_tokens_than_a_draft_has():
    """The records that rules get and give are the same for all of them."""
    draft = Draft(torch.tensor([[1, 2]]), torch.full((1, 2, 11), 1 / 11))
    verdict = own_greedy(draft, torch.eye(11)[[1, 2, 3]][None], SeededRng(0))
    assert (verdict.accepted.tolist(), verdict.token.tolist()) == ([1], [2])
