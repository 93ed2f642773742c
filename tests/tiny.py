"""Tiny models whose distributions can be computed by hand, generators that tests control, and a witness.

`TableModel` looks up its logits by the last two tokens. The tiny GPTs have weights large enough for their
distributions to differ from uniform and from each other. `branches` tries every outcome of every draw.
`watched` runs `observe` and recomputes after each round, from the emitted tokens alone, what the round and
both caches should hold.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F

from minispec import (
    GPT,
    Draft,
    GPTConfig,
    ModelDrafter,
    SeededRng,
    Warp,
    generate,
    observe,
    speculate,
    verify_greedy,
    verify_rejection,
)
from minispec.core.rng import DraftingRng, RoundPlan
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.evidence.proof.models import TableModel
from minispec.evidence.zoo.check_state import find_cache_fault

PROMPTS = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1]]
GREEDY = {"verifier": verify_greedy, "warp": Warp(0)}


def table(vocab_size=5, seed=0, scale=1.5, max_length=40):
    """Returns a table model with normal logits."""
    generator = torch.Generator().manual_seed(seed)
    size = (vocab_size + 1) * vocab_size
    logits = torch.randn(size, vocab_size, generator=generator, dtype=torch.float64)
    return TableModel(scale * logits, max_length)


def table_pair(vocab_size=5, seed=0, distance=0.8, max_length=40):
    """Returns a target and a draft model that agree about some contexts and not about others."""
    target = table(vocab_size, seed, max_length=max_length)
    noise = table(vocab_size, seed + 1000, scale=distance)
    return target, TableModel(target.table + noise.table, max_length)


def alternating_pair(max_length=400):
    """Returns a target and a draft of four tokens; easy and hard positions alternate, an easy one after 2.

    At an easy position p = q = (1/2, 1/2, 0, 0), at a hard one p = (0, 0, 0.9, 0.1) and q = (0, 0, 0.1, 0.9).
    So Σ min(p, q) is 1 and 0.2 in turn.
    """
    easy = [0.5, 0.5, 0, 0]
    tables = [[[*hard], [*hard], easy, easy] for hard in ((0, 0, 0.9, 0.1), (0, 0, 0.1, 0.9))]
    logits = [torch.tensor(rows, dtype=torch.float64).log().clamp(min=-1e9) for rows in tables]
    return tuple(TableModel(rows.repeat(5, 1), max_length) for rows in logits)


def counter(vocab_size=16, max_length=40):
    """Returns a model that is almost sure that after i comes i + 1 (and after V−1, 0)."""
    following = (torch.arange((vocab_size + 1) * vocab_size) + 1) % vocab_size
    return TableModel(9.0 * F.one_hot(following, vocab_size).double(), max_length)


def config(**changes):
    """Returns the sizes of a tiny GPT, some of them changed."""
    return replace(GPTConfig(11, layers=2, width=16, heads=4, kv_heads=2, ffn=24, max_length=40), **changes)


@torch.no_grad()
def gpt(sizes, seed=0, dtype=torch.float64):
    """Returns a GPT with large random weights, the same for the same seed in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    model = GPT(sizes).to(torch.float64)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        if weight.dim() == 1:
            weight.copy_(1 + 0.2 * noise)
        elif name.startswith("embed_tokens"):
            weight.copy_(noise if not sizes.tied else 0.5 * noise)
        else:
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.0  # attention far from a plain mean
            weight.copy_(gain * noise / weight.shape[1] ** 0.5)
    return model.to(dtype).eval()


@torch.no_grad()
def gpt_pair(seed=0, dtype=torch.float64, max_length=40):
    """Returns a 2-layer target and a 1-layer draft, which shares all but the target's second layer."""
    target = gpt(config(max_length=max_length), seed, torch.float64)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        target.layers[1].get_submodule(name).weight.mul_(0.6)
    draft = gpt(config(layers=1, max_length=max_length), seed, torch.float64)
    draft.load_state_dict({n: w for n, w in target.state_dict().items() if not n.startswith("layers.1.")})
    return target.to(dtype), draft.to(dtype)


def branches(run):
    """Yields (result, probability) of `run(rng)` for every outcome of every draw."""
    for _, result, weight in enumerate_branches(lambda rng, _: [run(rng)], [0], most_rows=1):
        yield result, weight


class CountingRng(SeededRng):
    """Draws from a seed and counts, per row, the decisions that were open.

    Attributes:
        draws: per row, how many open decisions.
    """

    def __init__(self, seed, rows):
        super().__init__(seed)
        self.draws = [0] * rows

    def bernoulli(self, probs, place=None):
        self._count((probs > 0) & (probs < 1), place)
        return super().bernoulli(probs, place)

    def categorical(self, probs, place=None):
        self._count((probs > 0).sum(-1) > 1, place)
        return super().categorical(probs, place)

    def _count(self, is_open, place):
        if place is not None and place.live is not None:
            is_open = is_open & place.live
        self.draws = [n + more for n, more in zip(self.draws, is_open.tolist(), strict=True)]


class Parrot:
    """A drafter without a model: it proposes what stands in a given text, and is certain of it.

    Attributes:
        texts: per row, all tokens that it expects, prompt included; after their end it says 0.
    """

    cache_lengths = None
    max_length = 10**6

    def __init__(self, texts, vocab_size):
        self.texts = texts
        self.vocab_size = vocab_size

    def start(self, prompts, hidden):
        self._lengths = [len(prompt) for prompt in prompts]

    def propose(self, pending, k, warp, rng):
        guesses = [
            [*text[n : n + k], *[0] * k][:k] for text, n in zip(self.texts, self._lengths, strict=True)
        ]
        tokens = torch.tensor(guesses)
        return Draft(tokens, F.one_hot(tokens, self.vocab_size).double())

    def commit(self, round):
        self._lengths = [n + len(more) for n, more in zip(self._lengths, round.emitted, strict=True)]


@torch.inference_mode()
def greedy(target, prompt, max_new_tokens, eos=()):
    """Decodes one row at temperature 0 with no cache and no package code; returns tokens and why it ended."""
    tokens = []
    while len(tokens) < max_new_tokens and len(prompt) + len(tokens) < target.max_length:
        logits = target(torch.tensor([[*prompt, *tokens]]))[0, -1].tolist()
        tokens.append(logits.index(max(logits)))
        if tokens[-1] in eos:
            return tokens, "eos"
    return tokens, "context" if len(prompt) + len(tokens) >= target.max_length else "cap"


class Spied:
    """A model that passes everything on, keeps the caches that it makes, and counts its forwards."""

    def __init__(self, model):
        self.model = model
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.device = model.device
        self.head = model.head
        self.caches = []
        self.calls = 0

    def new_cache(self, rows):
        self.caches.append(self.model.new_cache(rows))
        return self.caches[-1]

    def hidden(self, tokens, cache=None, tree=None):
        self.calls += 1
        return self.model.hidden(tokens, cache, tree)


def same(a, b):
    """Asserts that two tensors are equal up to float64's rounding."""
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def holds_all_but_the_pending_token(model, cache, committed):
    """Asserts that a cache holds what a fresh one holds that has read each row's tokens but the last."""
    assert find_cache_fault("model", model, cache, committed) is None


class Witness:
    """Follows a run from outside, and asserts of each round what the contracts say.

    Attributes:
        committed: per row, the prompt and all that was emitted.
        finish: per row, why it ended, or None.
    """

    def __init__(self, target, drafter, prompts, k, cap, warp, eos):
        self.target = Spied(target)
        self.k = k
        self.warp = warp
        self.eos = eos
        self.drafter = drafter if k and isinstance(drafter, ModelDrafter) else None
        self.context = min(target.max_length, self.drafter.max_length if self.drafter else target.max_length)
        self.committed = [list(prompt) for prompt in prompts]
        self.ends = [min(len(prompt) + cap, self.context) for prompt in prompts]
        self.finish = [None] * len(prompts)
        self.end_full_rows()

    def end_full_rows(self):
        for row, text in enumerate(self.committed):
            if self.finish[row] is None and len(text) == self.ends[row]:
                self.finish[row] = "context" if len(text) == self.context else "cap"

    def see(self, r):
        """Checks a round and takes its tokens over."""
        self.check_widths(r)
        self.check_dists(r)
        for row, emitted in enumerate(r.emitted):
            self.check_row(r, row)
            self.committed[row] += emitted
            if self.finish[row] is None and emitted[-1] in self.eos:
                self.finish[row] = "eos"
        self.end_full_rows()
        assert r.finish == tuple(self.finish)
        self.check_caches(r)

    def check_widths(self, r):
        """A round drafts no more than the largest budget of a live row allows, and shapes fit."""
        budgets = [end - len(text) for end, text in zip(self.ends, self.committed, strict=True)]
        most = max(budget for budget, why in zip(budgets, self.finish, strict=True) if why is None)
        before = tuple(len(text) - 1 for text in self.committed)
        shape = (len(before), r.draft.k + 1, self.target.vocab_size)
        assert r.live == tuple(why is None for why in self.finish)
        assert r.pending.tolist() == [text[-1] for text in self.committed]
        assert r.draft.k <= min(self.k, most - 1)
        assert r.target_probs.shape == r.target_logits.shape == shape
        assert r.target_cache.before == before
        assert r.target_cache.verified == tuple(
            min(n + 1 + r.draft.k, self.target.max_length) for n in before
        )
        for row, budget in enumerate(budgets):
            if r.live[row]:
                assert r.accepted(row) <= r.drafted(row) <= budget - 1
        if self.drafter:
            assert r.draft.k == min(self.k, most - 1)
            assert r.draft_cache.before == before
        else:
            assert r.draft_cache is None

    @torch.inference_mode()
    def check_dists(self, r):
        """Both models' distributions are those of forwards without a cache over all that came before."""
        for row, text in enumerate(self.committed):
            n = r.drafted(row)
            whole = torch.tensor([[*text, *r.draft.tokens[row, :n].tolist()]])
            if r.live[row]:
                logits = self.target.model(whole)[0, len(text) - 1 :]
                same(r.target_logits[row, : n + 1], logits)
                same(r.target_probs[row, : n + 1], self.warp(logits))
            if r.live[row] and n and self.drafter:
                warp = self.drafter.warp or self.warp
                same(r.draft.probs[row, :n], warp(self.drafter.model(whole))[0, len(text) - 1 : -1])

    def check_row(self, r, row):
        """A row emits the accepted prefix and one token, or what an end-of-sequence has left of them."""
        emitted = list(r.emitted[row])
        whole = [*r.draft.tokens[row, : r.accepted(row)].tolist(), int(r.verdict.token[row])]
        if self.finish[row] is not None:
            assert emitted == []
            return
        assert emitted and emitted == whole[: len(emitted)]
        assert len(emitted) == len(whole) or emitted[-1] in self.eos
        assert not any(token in self.eos for token in emitted[:-1])

    def check_caches(self, r):
        """The invariant: each cache holds exactly all committed tokens but the pending one, row by row."""
        lengths = tuple(len(text) - 1 for text in self.committed)
        assert r.lengths == r.target_cache.after == lengths
        (cache,) = self.target.caches
        holds_all_but_the_pending_token(self.target.model, cache, self.committed)
        if self.drafter:
            assert r.draft_cache.after == lengths
            holds_all_but_the_pending_token(self.drafter.model, self.drafter.cache, self.committed)


def decode(target, drafter, prompts=PROMPTS, how=speculate, **changes):
    """Decodes by the rejection rule at temperature 1, K = 3, up to 20 tokens a row, but for the changes."""
    settings = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 20, "warp": Warp()}
    return how(target, drafter, prompts, **{"rng": SeededRng(0)} | settings | changes)


def alone(target, prompts=PROMPTS, **changes):
    """Returns each row's text of `generate`, with the settings of `decode`."""
    steps = generate(target, prompts, **{"max_new_tokens": 20, "warp": Warp(), "rng": SeededRng(0)} | changes)
    texts = [[] for _ in prompts]
    for step in steps:
        for text, token in zip(texts, step, strict=True):
            text += [] if token is None else [token]
    return texts


def targets_own_text(target, drafter, prompts=PROMPTS, k=3, verifier=verify_greedy, oracle=None, **changes):
    """Asserts that a run emits what the target, or an oracle for it, does alone; returns its rounds.

    So it is at temperature 0, the default, and with noise that is fixed.
    """
    settings = {"warp": Warp(0)} | changes
    rounds = list(decode(target, drafter, prompts, k=k, verifier=verifier, **settings))
    assert outcome(rounds, len(prompts))[0] == alone(oracle or target, prompts, **settings)
    return rounds


def accepted(rounds):
    """Returns how many drafted tokens were accepted in rows that were live."""
    return sum(r.accepted(row) for r in rounds for row, on in enumerate(r.live) if on)


def with_texts(rounds, prompts=PROMPTS):
    """Yields rounds, each with the texts that its rows had before."""
    texts = [list(prompt) for prompt in prompts]
    for r in rounds:
        yield r, [list(texts[name]) for name in r.prompt_ids]
        for name, emitted in zip(r.prompt_ids, r.emitted, strict=True):
            texts[name] += emitted


def live_rows(rounds, prompts=PROMPTS):
    """Yields rounds, once for each live row: with the row, its text before, and its drafted tokens."""
    for r, texts in with_texts(rounds, prompts):
        for row, text in enumerate(texts):
            if r.live[row]:
                yield r, row, text, r.draft.tokens[row, : r.drafted(row)].tolist()


def watched(target, drafter, prompts, k=3, max_new_tokens=24, warp=None, eos=(), **changes):
    """Yields the rounds of `observe`, each checked by a `Witness`; by default sampled with seed 0."""
    warp = warp or Warp()
    witness = Witness(target, drafter, prompts, k, max_new_tokens, warp, eos)
    settings = {"k": k, "max_new_tokens": max_new_tokens, "warp": warp, "eos": list(eos)} | changes
    for index, r in enumerate(decode(witness.target, drafter, prompts, observe, **settings)):
        assert r.index == index
        witness.see(r)
        yield r


def outcome(rounds, rows=1):
    """Returns each row's tokens, and why each ended; None where there was no round."""
    rounds = list(rounds)
    tokens = [[token for r in rounds for token in r.emitted[row]] for row in range(rows)]
    return tokens, list(rounds[-1].finish) if rounds else [None] * rows


PAIRS = {"table": table_pair(), "gpt": gpt_pair()}


def round_plan(budgets, starts=None, prompt_ids=None):
    """Returns the plan of a round on the CPU; by default all rows begin at 0, and row b holds prompt b."""
    rows = len(budgets)
    starts = [0] * rows if starts is None else starts
    prompt_ids = range(rows) if prompt_ids is None else prompt_ids
    return RoundPlan(tuple(prompt_ids), tuple(starts), tuple(budgets), torch.device("cpu"))


def place(prompt_ids, positions=None, live=None):
    """Returns where rows of these prompts decide; without positions, whatever position."""
    starts = torch.as_tensor(prompt_ids if positions is None else positions).tolist()
    budgets = [9] * len(starts)
    plan = round_plan(budgets, starts, torch.as_tensor(prompt_ids).tolist())
    return plan.at(None if positions is None else 0, live)


def drafting(rng, rows, budget=99):
    """Returns what a drafter draws from, in a round of rows that all have the same budget."""
    return DraftingRng(rng, round_plan([budget] * rows))


def begin(drafter, prompts, hidden=None):
    """Starts a drafter that asks for no hidden states, or hands it these."""
    drafter.start(prompts, torch.zeros(len(prompts), 0, 0) if hidden is None else hidden)
