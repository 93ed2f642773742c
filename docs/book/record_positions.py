"""Records p and q of the shipped pair for the atlas: `python -m book positions` in the folder docs.

They are those of drafts of four tokens at temperature 1. To keep the file small, the most probable tokens of
either distribution stay, and the drafted ones; the probabilities of all others are added up into one entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from minispec.core.draft import ModelDrafter
from minispec.core.loop import speculate
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.checkpoint import Pair, load_pair
from minispec.io.files import write_text_file

K = 4
PROMPTS = 10
ROUNDS = 4  # from each prompt
KEPT = 8  # tokens; with 20 the means of the atlas are the same to three digits
DIGITS = 6


def pooled(dists: Tensor, drafted: int | None = None) -> list[list[float]]:
    """Returns distributions [n, V] over the tokens that stay, the drafted one first, and one for the rest."""
    most = dists.max(0).values
    if drafted is not None:
        most[drafted] = 2
    kept = dists[:, most.topk(KEPT).indices].double()
    rest = (1 - kept.sum(-1, keepdim=True)).clamp(min=0)
    return [[round(x, DIGITS) for x in row] for row in torch.cat([kept, rest], dim=-1).tolist()]


def drafts(pair: Pair) -> Iterator[dict[str, Any]]:
    """Yields p [K+1, kept + 1] and q [K, kept + 1] of drafts of the pair."""
    for number, prompt in enumerate(pair.info["prompts"][:PROMPTS]):
        how: dict[str, Any] = {"k": K, "verifier": verify_rejection, "warp": Warp(), "rng": SeededRng(number)}
        rounds = speculate(pair.target, ModelDrafter(pair.draft), [prompt], max_new_tokens=100, **how)
        for r in islice(rounds, ROUNDS):
            target = r.target_probs[0]
            both = zip(target[:K], r.draft.probs[0], r.draft.tokens[0].tolist(), strict=True)
            places = [pooled(torch.stack([p, q]), token) for p, q, token in both]
            yield {"p": [*(p for p, _ in places), *pooled(target[K:])], "q": [q for _, q in places]}


def record_positions() -> None:
    """Records p and q of the shipped pair for the atlas."""
    lines = ",\n".join(json.dumps(draft) for draft in drafts(load_pair()))
    about = f'"format": 1, "kind": "positions", "pair": "stories", "temperature": 1, "kept": {KEPT}'
    write_text_file(FOLDER / "positions.json", f'{{{about}, "drafts": [\n{lines}\n]}}\n')
