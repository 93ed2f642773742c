"""A parallel drafter: masks stand for the tokens to come, and one forward guesses all of them.

Its layers read the pending token and a mask for each further position, a learned vector in the place of an
embedding. The output at each place predicts what follows there: K distributions from one step (An et al.
2025, PARD; Chen, Liang and Liu 2026, DFlash). Drawn independently such tokens do not fit each other. So each
distribution is corrected by the token that was drawn before it: two small matrices, and no further forward
(Cheng et al. 2026, DSpark, whose Markov head this is). The corrected distribution is the one that is drawn
from, and reported.
"""

import torch
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter, draw_chain
from minispec.core.model import GPT, Block, GPTConfig, Layers, RMSNorm, Tree, View
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import check_width
from minispec.drafters.entry import DrafterEntry

RANK = 64  # of the correction


class ParallelLayers(nn.Module):
    """What a parallel drafter learns: a mask, layers, a norm, and the correction."""

    def __init__(self, config: GPTConfig, layers: int = 1) -> None:
        """Makes one with so many layers for a target of these sizes; it corrects nothing yet."""
        super().__init__()
        self.width = config.width
        self.mask = nn.Parameter(torch.zeros(config.width))
        self.layers = Layers(Block(config) for _ in range(layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        self.before = nn.Linear(config.width, RANK, bias=False)
        self.change = nn.Linear(RANK, config.width, bias=False)
        nn.init.zeros_(self.change.weight)

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Maps embeddings, and masks among them, to states: [B, n, D] -> [B, n, D]."""
        return self.norm(self.layers(x, view))

    def correct(self, states: Tensor, before: Tensor) -> Tensor:
        """Corrects states [..., D] by the embedding of the token before each [..., D], for the target's head.

        The head is a matrix: what is added to a state adds to its logits a row for the token before, of rank
        `RANK` at most (Cheng et al. 2026, DSpark).
        """
        return states + self.change(self.before(before))


class ParallelGPT:
    """The layers between the target's embedding and its head. Satisfies `LanguageModel`.

    Attributes:
        parts: the layers, the mask and the correction.
        target: whose embedding and head it uses.
    """

    def __init__(self, parts: ParallelLayers, target: GPT) -> None:
        """Joins what was trained on a target with that target.

        Raises:
            ValueError: if it was made for another width.
        """
        check_width(target.config.width, parts.width)
        self.parts = parts
        self.target = target
        self.device = target.device
        self.vocab_size = target.vocab_size
        self.hidden_size = target.hidden_size
        self.max_length = target.max_length
        self.head = target.head

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.target.cache_of(len(self.parts.layers), rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n]; returns their states [B, n, D] and extends the cache. It reads chains only."""
        if tree is not None:
            raise ValueError("ParallelGPT reads no trees; a GPT on the torch backend does")
        return self.with_masks(tokens, cache, 0)

    def with_masks(self, tokens: Tensor, cache: KVCache | None, masks: int) -> Tensor:
        """Reads tokens [B, n], and so many masks after them; returns [B, n + masks, D], extends the cache."""
        x = self.target.embed_tokens(tokens)
        x = torch.cat([x, self.parts.mask.expand(len(x), masks, -1)], dim=1)
        states = self.parts(x, self.target.view(x.shape[1], cache))
        if cache is not None:
            cache.advance()
        return states

    def after(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Returns the logits at positions with these states [..., D] after these tokens [...]: [..., V]."""
        return self.head(self.parts.correct(states, self.target.embed_tokens(tokens)))


class ParallelDrafter(ModelDrafter):
    """Guesses all positions in one forward; its cache holds tokens of the text only."""

    model: ParallelGPT

    def __init__(self, parts: ParallelLayers, target: GPT, warp: Warp | None = None) -> None:
        """Makes a drafter of what was trained on a target; warp: of its logits, None: like the target's."""
        super().__init__(ParallelGPT(parts, target), warp)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B]; `Draft` has their distributions."""
        held = self.cache.row_lengths
        pending = pending.to(self.model.device)
        states = self.model.with_masks(pending[:, None], self.cache, k - 1)  # [B, k, D]
        self.cache.truncate([n + 1 for n in held])  # the pending token stays, the masks go
        positions = iter(states.unbind(1))

        def read(token: Tensor) -> Tensor:
            return self.model.after(next(positions), token)

        return draw_chain(read, pending, k, self.warp or warp, rng)

    def catch_up(self, round: Round) -> None:
        """Reads the accepted tokens, where masks stood; all rows read as many, and `commit` forgets some."""
        missing = [needed - held for needed, held in zip(round.lengths, self.cache.row_lengths, strict=True)]
        if max(missing) > 0:
            unread = round.draft.tokens if round.draft.k else round.pending[:, None]
            self.model.hidden(unread[:, : max(missing)].to(self.model.device), self.cache)


PARALLEL = DrafterEntry(
    "parallel", lambda parts, k: ParallelDrafter(parts.heads("parallel"), parts.gpt, parts.warp)
)
