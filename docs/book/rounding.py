"""How far one forward over a text lies from a forward a token: at a logit, at a token, over a whole text.

    cd docs && python -m book rounding

It takes seconds, times nothing, and writes `rounding.json` beside this file, which pages quote.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minispec import SeededRng, Warp, generate, load_pair
from minispec.core.model import GPT
from minispec.core.prefill import prefill
from minispec.evidence.bench.machine import describe_machine
from minispec.evidence.bench.measure import bench_prompts
from minispec.io.files import read_json, write_json

RECORD = Path(__file__).with_name("rounding.json")
TYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
TEXTS = 64
TOKENS = 160


class Rounding(NamedTuple):
    """What reading a text at once, and token by token, amounts to."""

    logit: float  #: the largest difference of a logit
    token: float  #: total variation of both distributions at a position, the mean over all positions
    text: float  #: that of both distributions of whole texts, estimated from texts of the second


@torch.inference_mode()
def measure(target: GPT, prompts: list[list[int]], tokens: int, seed: int = 0) -> Rounding:
    """Compares both ways of reading on texts that the target has written at temperature 1.

    Let P be the probability of a text where every token has a forward of its own, which is how these texts
    are drawn, and Q where one forward reads them all. The total variation of P and Q is the mean of
    max(0, 1 − Q/P) over texts drawn from P.

    Args:
        target: the model, in the type to look at.
        prompts: token ids, all of one length.
        tokens: how many new ones each text gets.
        seed: of the drawing.
    """
    steps = generate(target, prompts, max_new_tokens=tokens, warp=Warp(), rng=SeededRng(seed))
    new = torch.tensor([list(step) for step in steps]).T  # [B, n]
    texts = torch.cat([torch.tensor(prompts), new], dim=1)
    together = target(texts[:, :-1])[:, -tokens:].double()  # [B, n, V]
    cache, _ = prefill(target, prompts)
    read = texts[:, -tokens - 1 : -1]
    singly = torch.cat([target(column[:, None], cache) for column in read.T], dim=1).double()
    apart = 0.5 * (together.softmax(-1) - singly.softmax(-1)).abs().sum(-1)  # [B, n]
    ratios = together.log_softmax(-1) - singly.log_softmax(-1)  # [B, n, V], their logarithms
    ratio = ratios.gather(-1, new[..., None])[..., 0].sum(-1)  # [B], of whole texts
    return Rounding(
        logit=float((together - singly).abs().max()),
        token=float(apart.mean()),
        text=float((1 - ratio.exp()).clamp(min=0).mean()),
    )


def of_pair(texts: int = TEXTS, tokens: int = TOKENS) -> dict[str, Rounding]:
    """Returns what rounding amounts to for the shipped pair's target, by type."""
    found = {}
    for name, dtype in TYPES.items():
        pair = load_pair("stories", dtype=dtype)
        found[name] = measure(pair.target, bench_prompts(pair)[:texts], tokens)
    return found


def recorded() -> dict[str, Any]:
    """Returns what was measured: `texts`, `tokens`, `machine`, `date`, and `types` by name."""
    return read_json(RECORD)


def record_rounding() -> None:
    """Measures how far one forward over a text lies from a forward a token."""
    types = {name: found._asdict() for name, found in of_pair().items()}
    about = {"texts": TEXTS, "tokens": TOKENS, "date": str(datetime.date.today())}
    write_json(RECORD, about | {"machine": describe_machine(), "types": types})
