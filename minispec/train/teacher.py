"""Teacher: what a draft learns from a target, its distributions and texts of its own.

A draft goes on with what its target has written, and that differs from the corpus: a small target soon writes
what nobody else would, and at temperature 0 it repeats itself. So some of the sequences that the draft learns
from are written by the target (Kim and Rush 2016). Zhou et al. 2024 also let the draft itself write them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.core.loop import generate
from minispec.core.model import GPT
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp

OPENING = 16  # tokens of the corpus that a written sequence begins with
ROWS = 128  # sequences that are written at once
KEPT = 1 << 30  # bytes of logits that are kept, at most


class Teacher:
    """A target that computes its logits for a sequence once; that takes longer than a draft's step."""

    def __init__(self, model: GPT, most: int = KEPT) -> None:
        """Makes a teacher of a model that keeps at most so many bytes of logits."""
        self.model = model.eval()
        self.left = most  #: how many bytes may still be kept; below 0 nothing more is
        self._kept: dict[bytes, Tensor] = {}

    def __call__(self, rows: Tensor) -> Tensor:
        """Returns the logits [B, n, V] of sequences [B, n], in the type that the caller's autocast says."""
        names = [row.numpy().tobytes() for row in rows.cpu()]
        new = [i for i, name in enumerate(names) if name not in self._kept]
        logits_of: dict[bytes, Tensor] = {}
        if new:
            with torch.no_grad():
                logits = self.model(rows[new])
            logits_of = {names[i]: row for i, row in zip(new, logits, strict=True)}
            self.left -= logits.nbytes
            if self.left >= 0:
                self._kept |= logits_of
        return torch.stack([logits_of[name] if name in logits_of else self._kept[name] for name in names])


@torch.no_grad()
def write_sequences(
    target: GPT, sequences: Tensor, written: Sequence[tuple[int, float]], seed: int
) -> Tensor:
    """Lets a target go on with the beginnings of some sequences [N, W] of the corpus.

    `written` says how many to write at which temperature; the seed decides which ones, and each draw. Returns
    [M, W]; where W is more than the context, the last tokens are repeated, and only predicted.
    """
    width = sequences.shape[1]
    opening = min(OPENING, width // 2)
    rows: list[Tensor] = []
    order = torch.Generator().manual_seed(seed)
    for count, temperature in written:
        for first in range(0, count, ROWS):
            size = (min(ROWS, count - first),)
            prompts = sequences[torch.randint(len(sequences), size, generator=order), :opening].tolist()
            rng = SeededRng((seed + len(rows)) % 2**32)
            settings: Mapping[str, Any] = {"max_new_tokens": width - opening, "warp": Warp(temperature)}
            steps = torch.tensor(list(generate(target, prompts, rng=rng, **settings)))  # [n, size]
            rows.append(torch.cat([torch.tensor(prompts), steps.T], dim=1))
    drawn = torch.cat(rows)
    return torch.cat([drawn, drawn[:, -1:].expand(-1, width - drawn.shape[1])], dim=1)
