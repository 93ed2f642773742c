"""Tiny models whose laws can be computed by hand, and sources of chance that a test controls.

`TableModel` looks up its logits by the last two tokens. The tiny GPTs have weights large enough for their laws
to differ from uniform and from each other. `ScriptedRng` and `branches` walk through every outcome of chance.
"""

import torch
import torch.nn.functional as F

from minispec import GPT, GPTConfig, Draft, KVCache, SeededRng


class TableModel:
    """A language model whose next token depends on the last two, by a table.

    It remembers token ids as values of a `KVCache` with a head of size 1. The hidden state is one-hot at the
    context, so the head's matrix is the table. A context of one token counts as if id V stood before it.
    """

    def __init__(self, table, max_length=40):
        """Takes a table [(V+1)·V, V] of logits: row previous·V + current."""
        self.table = table
        self.vocab_size = table.shape[1]
        self.max_length = max_length
        assert table.shape[0] == (self.vocab_size + 1) * self.vocab_size

    def new_cache(self, rows):
        return KVCache(1, rows, 1, self.max_length, 1, torch.float64)

    def hidden(self, tokens, cache=None):
        return F.one_hot(self._contexts(tokens, cache), self.table.shape[0]).to(self.table)

    def head(self, hidden):
        return hidden @ self.table

    def __call__(self, tokens, cache=None):
        return self.head(self.hidden(tokens, cache))

    def _contexts(self, tokens, cache):  # [B, n] -> [B, n]
        rows, new = tokens.shape
        if cache is None:
            if new > self.max_length:
                raise ValueError(f"{new} tokens do not fit a context of {self.max_length}")
            seen, positions = tokens, torch.arange(new).expand(rows, new)
        else:
            positions, _ = cache.begin(new)
            positions = positions.expand(rows, new)
            ids = tokens.double()[:, None, :, None]
            seen = cache.append(0, ids, ids)[1][:, 0, :, 0].long()
            cache.commit()
        previous = seen.gather(1, (positions - 1).clamp(min=0))
        return torch.where(positions > 0, previous, self.vocab_size) * self.vocab_size + tokens


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


def counter(vocab_size=16, max_length=40):
    """Returns a model that is almost sure that after i comes i + 1 (and after V−1, 0)."""
    following = (torch.arange((vocab_size + 1) * vocab_size) + 1) % vocab_size
    return TableModel(9.0 * F.one_hot(following, vocab_size).double(), max_length)


def config(**changes):
    """Returns the sizes of a tiny GPT, some of them changed."""
    sizes = {"vocab_size": 11, "layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "max_length": 40}
    return GPTConfig(**sizes | changes)


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


class ScriptedRng:
    """Takes the branches that a script names, the first one behind its end, and remembers the way.

    Attributes:
        weight: the probability of the way.
        way: for each decision that was open, (which branch was taken, how many there were).
    """

    def __init__(self, script=()):
        self._script = script
        self.weight = 1.0
        self.way = []

    def bernoulli(self, probs, *, rows=None, positions=None, live=None):
        decided = torch.ones(probs.shape, dtype=torch.bool) if live is None else live
        return torch.tensor(
            [
                bool(on) and bool(self._take([(True, p), (False, 1 - p)]))
                for p, on in zip(probs.double().tolist(), decided.tolist(), strict=True)
            ]
        )

    def categorical(self, probs, *, rows=None, positions=None, live=None):
        decided = torch.ones(probs.shape[0], dtype=torch.bool) if live is None else live
        laws = (probs.double() / probs.double().sum(-1, keepdim=True)).tolist()
        return torch.tensor(
            [self._take(list(enumerate(law))) if on else 0 for law, on in zip(laws, decided.tolist(), strict=True)]
        )

    def _take(self, choices):
        choices = [(value, p) for value, p in choices if p > 0]
        if len(choices) == 1:
            return choices[0][0]
        branch = self._script[len(self.way)] if len(self.way) < len(self._script) else 0
        self.way.append((branch, len(choices)))
        self.weight *= choices[branch][1]
        return choices[branch][0]


def branches(run):
    """Yields (result, probability) of `run(rng)` for every way that chance can take."""
    script = []
    while True:
        rng = ScriptedRng(script)
        yield run(rng), rng.weight
        way = rng.way
        while way and way[-1][0] + 1 == way[-1][1]:
            way.pop()
        if not way:
            return
        script = [branch for branch, _ in way[:-1]] + [way[-1][0] + 1]


class CountingRng(SeededRng):
    """Draws from a seed and counts, per row, the decisions that were open.

    Attributes:
        calls: how often it was asked.
        draws: per row, how many open decisions.
    """

    def __init__(self, seed, rows):
        super().__init__(seed)
        self.calls = 0
        self.draws = [0] * rows

    def bernoulli(self, probs, *, rows=None, positions=None, live=None):
        self._count((probs > 0) & (probs < 1), live)
        return super().bernoulli(probs, rows=rows, positions=positions, live=live)

    def categorical(self, probs, *, rows=None, positions=None, live=None):
        self._count((probs > 0).sum(-1) > 1, live)
        return super().categorical(probs, rows=rows, positions=positions, live=live)

    def _count(self, is_open, live):
        self.calls += 1
        is_open = is_open if live is None else is_open & live
        self.draws = [n + bool(more) for n, more in zip(self.draws, is_open.tolist(), strict=True)]


class Parrot:
    """A drafter without a model: it proposes what stands in a given text, and is certain of it.

    Attributes:
        texts: per row, all tokens that it expects, prompt included; behind their end it says 0.
    """

    cache_lengths = None

    def __init__(self, texts, vocab_size):
        self.texts = texts
        self.vocab_size = vocab_size

    def start(self, prompts):
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
