"""Models small enough to be enumerated completely.

A `TableModel` looks its logits up by the last two tokens, and remembers them in a real `KVCache`. The tiny
GPTs are the shipped `GPT` with its real cache. Their numbers come from a fixed formula, so a case is the same
on every machine.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, GPTConfig, LanguageModel, Tree
from minispec.drafters.exit import EarlyExitGPT, Exit
from minispec.verifiers.coupled import scramble


class TableModel:
    """A language model whose next token depends on the last two, by a table. Satisfies `LanguageModel`.

    It remembers token ids as values of a `KVCache` with a head of size 1. The hidden state is one-hot at the
    context, so the head's matrix is the table. A context of one token counts as if id V stood before it.
    """

    def __init__(self, table: Tensor, max_length: int = 40) -> None:
        """Takes a table of logits [(V+1)·V, V], of row previous·V + current, and the context."""
        self.table = table.double()
        self.vocab_size = table.shape[1]
        self.hidden_size = table.shape[0]
        self.device = torch.device("cpu")
        self.max_length = max_length

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return KVCache(1, rows, 1, self.max_length, 1, torch.float64)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n]; returns which context each stands in, one-hot: [B, n, (V+1)·V].

        Raises:
            ValueError: if the context has no space, or a tree is given: it reads chains only.
        """
        if tree is not None:
            raise ValueError("TableModel reads no trees; a GPT on the torch backend does")
        return F.one_hot(self._contexts(tokens, cache), self.table.shape[0]).to(self.table)

    def head(self, hidden: Tensor) -> Tensor:
        """Looks the logits up: [B, n, (V+1)·V] -> [B, n, V]."""
        return hidden @ self.table

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    def _contexts(self, tokens: Tensor, cache: KVCache | None) -> Tensor:  # [B, n] -> [B, n]
        rows, new = tokens.shape
        if cache is None:
            if new > self.max_length:
                raise ValueError(f"{new} tokens do not fit a context of {self.max_length}")
            context_ids = tokens
            positions = torch.arange(new).expand(rows, new)
        else:
            positions = (cache.lengths[:, None] + torch.arange(new)).clamp(max=cache.capacity - 1)
            cache.begin(new)
            ids = tokens.double()[:, None, :, None]
            context_ids = cache.append(0, ids, ids)[1][:, 0, :, 0].long()
            cache.advance()
        previous = context_ids.gather(1, (positions - 1).clamp(min=0))
        return torch.where(positions > 0, previous, self.vocab_size) * self.vocab_size + tokens


Module = TypeVar("Module", bound=nn.Module)


def normals(shape: tuple[int, ...], seed: int) -> Tensor:
    """Returns numbers that look standard normal and depend on seed and index alone: [...] float64."""
    count = torch.Size(shape).numel()
    bits = scramble(scramble(torch.arange(count)) + scramble(torch.tensor(seed)))
    uniform = ((bits >> 12) & (2**52 - 1)).double().add(0.5) * 2.0**-52
    return torch.special.ndtri(uniform).view(shape)


def table_model(vocab_size: int = 3, seed: int = 0, scale: float = 1.5, max_length: int = 40) -> TableModel:
    """Returns a table model with normal logits."""
    return TableModel(scale * normals(((vocab_size + 1) * vocab_size, vocab_size), seed), max_length)


def table_pair(
    vocab_size: int = 3, seed: int = 0, distance: float = 0.8, max_length: int = 40
) -> tuple[TableModel, TableModel]:
    """Returns a target and a draft model that agree about some contexts and not about others.

    distance: how far the draft's logits are off, as a standard deviation.
    """
    target = table_model(vocab_size, seed, max_length=max_length)
    noise = table_model(vocab_size, seed + 1000, scale=distance)
    return target, TableModel(target.table + noise.table, max_length)


def tiny_gpt(config: GPTConfig, seed: int = 0) -> GPT:
    """Returns a GPT with weights so large that its distributions differ from uniform and from each other."""
    with torch.random.fork_rng(devices=[]):  # the initialisation is thrown away, and leaves no trace
        model = with_normals(GPT(config), seed)
    model.embed_tokens.weight.mul_(config.width**0.5)
    for name, weight in model.named_parameters():
        if "q_proj" in name or "k_proj" in name:
            weight.mul_(2)  # attention far from a plain mean
    return model


def tiny_gpt_pair(
    seed: int = 0,
    vocab_size: int = 3,
    dtype: torch.dtype = torch.float64,
    max_length: int = 40,
    layers: int = 2,
) -> tuple[GPT, GPT]:
    """Returns a target and a 1-layer draft, which shares all but the target's later layers."""
    sizes = GPTConfig(vocab_size, layers, width=16, heads=4, kv_heads=2, ffn=24, max_length=max_length)
    target = tiny_gpt(sizes, seed)
    draft = tiny_gpt(replace(sizes, layers=1), seed)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        target.get_parameter(f"layers.1.{name}.weight").mul_(0.6)
    draft.load_state_dict({name: target.state_dict()[name] for name in draft.state_dict()})
    return target.to(dtype), draft.to(dtype)


@torch.no_grad()
def with_normals(module: Module, seed: int) -> Module:
    """Returns a module, in float64, whose matrices hold random numbers that keep the size of what passes."""
    module = module.double()
    for index, weight in enumerate(module.parameters()):
        noise = normals(tuple(weight.shape), seed * 1000 + index)
        weight.copy_(1 + 0.2 * noise if weight.dim() == 1 else noise / weight.shape[-1] ** 0.5)
    return module.eval().requires_grad_(False)


def early_exit(model: GPT, seed: int) -> EarlyExitGPT:
    """Returns a GPT with an exit after its first layer, of random weights."""
    return EarlyExitGPT(model, with_normals(Exit(model.config.width, 1), seed))


def one_gpt(seed: int, vocab_size: int, max_length: int = 40, layers: int = 2) -> tuple[GPT, GPT]:
    """Returns a tiny GPT that drafts for itself."""
    target, _ = tiny_gpt_pair(seed, vocab_size, max_length=max_length, layers=layers)
    return target, target


def one_early_exit(seed: int, vocab_size: int, max_length: int = 40) -> tuple[EarlyExitGPT, EarlyExitGPT]:
    """Returns a tiny GPT with an exit, which drafts for itself."""
    target, _ = one_gpt(seed, vocab_size, max_length)
    model = early_exit(target, seed)
    return model, model


def opposite_pair(vocab_size: int, seed: int) -> tuple[TableModel, TableModel]:
    """Returns a table model, and a draft that likes least what it likes most."""
    target = table_model(vocab_size, seed)
    return target, TableModel(-target.table)


def tied_pair(vocab_size: int, seed: int) -> tuple[TableModel, TableModel]:
    """Returns table models with few different logits."""
    target, draft = (TableModel((model.table / 3).round()) for model in table_pair(vocab_size, seed))
    return target, draft


def rotated_pair(vocab_size: int, seed: int) -> tuple[TableModel, TableModel]:
    """Returns models whose rows are (5, 3, 2)/10, rotated by one id more from each context to the next.

    The draft is rotated by one more: its top 2 and the target's have one id in common. Of what top-k 2
    leaves, the first id has 5/8, above a top-p of 0.6; of the whole it has 5/10, below. There is one such
    pair, whatever the seed, of three ids.
    """
    logits = torch.tensor([5, 3, 2], dtype=torch.float64).div(10).log()
    rotated = torch.stack([logits.roll(context) for context in range(13)])
    return TableModel(rotated[:12]), TableModel(rotated[1:])


# What makes a target and a draft, by name.
MODELS: dict[str, Callable[..., tuple[LanguageModel, LanguageModel]]] = {
    "table": table_pair,
    "gpt": tiny_gpt_pair,
    "float32_gpt": partial(tiny_gpt_pair, dtype=torch.float32),
    "one_gpt": one_gpt,
    "exit": one_early_exit,
    "opposite": opposite_pair,
    "tied": tied_pair,
    "rotated": rotated_pair,
}
