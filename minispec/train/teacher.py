"""Teacher: what a draft learns from a target, its distributions and texts of its own.

A draft goes on with what its target has written, and that differs from the corpus: a small target soon writes
what nobody else would, and at temperature 0 it repeats itself. So some of the sequences that the draft learns
from are written by the target (Kim and Rush 2016). Zhou et al. 2024 also let the draft itself write them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.core.loop import generate
from minispec.core.model import GPT
from minispec.core.rng import SEEDS, SeededRng
from minispec.core.warp import Warp
from minispec.train.dataset import Sequences

OPENING = 16  # tokens of the corpus that a written sequence begins with
ROWS = 128  # sequences that are written at once
STORED_BYTES = 1 << 30  # of logits, at most


class Teacher:
    """A target that computes its logits for a sequence once; that takes longer than a draft's step."""

    def __init__(self, model: GPT, max_bytes: int = STORED_BYTES) -> None:
        """Makes a teacher of a model that stores at most `max_bytes` of logits."""
        self.model = model.eval()
        self.remaining_bytes = max_bytes  #: how many bytes may still be stored; below 0 nothing more is
        self._logits: dict[bytes, Tensor] = {}  # by the bytes of a sequence

    def __call__(self, rows: Tensor) -> Tensor:
        """Returns the logits [B, n, V] of sequences [B, n], in the type that the caller's autocast says."""
        keys = [row.numpy().tobytes() for row in rows.cpu()]
        missing = [i for i, key in enumerate(keys) if key not in self._logits]
        known = self._logits
        if missing:
            with torch.no_grad():
                logits = self.model(rows[missing])
            known = known | {keys[i]: row for i, row in zip(missing, logits, strict=True)}
            self.remaining_bytes -= logits.nbytes
            if self.remaining_bytes >= 0:
                self._logits = known
        return torch.stack([known[key] for key in keys])


@torch.no_grad()
def write_sequences(
    target: GPT, sequences: Sequences, written: Sequence[tuple[int, float]], seed: int
) -> Tensor:
    """Lets a target go on with the beginnings of some sequences [N, W] of the corpus.

    `written` says how many to write at which temperature; the seed decides which ones, and each draw. Returns
    [M, W]; where W is more than the context, the last tokens are repeated, and only predicted.
    """
    width = sequences.shape[1]
    opening = min(OPENING, width // 2)
    batches: list[Tensor] = []
    order = torch.Generator().manual_seed(seed)
    for count, temperature in written:
        for first in range(0, count, ROWS):
            size = min(ROWS, count - first)
            rows = torch.randint(len(sequences), (size,), generator=order).tolist()
            prompts = sequences[rows][:, :opening]
            rng = SeededRng((seed + len(batches)) % SEEDS)
            steps = generate(
                target, prompts.tolist(), max_new_tokens=width - opening, warp=Warp(temperature), rng=rng
            )
            continuations = torch.tensor(list(steps)).T  # [size, n]
            batches.append(torch.cat([prompts, continuations], dim=1))
    texts = torch.cat(batches)
    return torch.cat([texts, texts[:, -1:].expand(-1, width - texts.shape[1])], dim=1)
