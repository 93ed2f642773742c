"""Records the walkthroughs of a pair anew: `python -m book walkthroughs` in the folder docs.

Pages quote these recordings in prose, so they must not depend on the last bits of a float. Every argmax is
clear, and every number drawn lies well away from where the outcome would change. So after a pair has been
trained, this looks for the first seed of which that is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from minispec.core.model import LanguageModel
from minispec.io.checkpoint import Pair, weights_hash
from minispec.io.recording import Draw, Recording
from minispec.io.recording_file import save_recording
from minispec.io.walkthrough import VERIFIERS, record_pair

MOST_TOKENS = {"greedy": 100, "rejection": 60}  # a story that is longer is passed over
SEEDS = {"greedy": range(1), "rejection": range(2000)}  # tried in order
CLEAR = 1e-3  # of logits, and of the numbers drawn
OPEN = 1e-5  # how far from 1 a ratio p/q must lie, so that a number for it is drawn everywhere or nowhere
COMMAND = "cd docs && python -m book walkthroughs"
Margin = tuple[str, float, float]  # of what, how large it is, and how large it must be to be clear


def unclear(recording: Recording, draft: LanguageModel) -> list[str]:
    """Returns what in a recording another machine might see differently; one line each.

    Args:
        recording: of one row, by `record_pair`.
        draft: the draft model, whose logits a trace does not keep.
    """
    sampled = recording.trace.config["temperature"]
    margins = of_draws(recording) if sampled else of_logits(recording, draft)
    return [f"{what} by {margin:.2g}" for what, margin, least in margins if margin <= least]


@torch.inference_mode()
def of_logits(recording: Recording, draft: LanguageModel) -> Iterator[Margin]:
    """Yields how far the two best logits lie apart, of the target and of the draft, which reads once more."""
    for r in recording.trace.rounds:
        logits = {"target": r.target_logits[0]}  # [K+1, V]
        committed = recording.trace.committed(0, r.index)
        drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
        if drafted:
            logits["draft"] = draft(torch.tensor([[*committed, *drafted[:-1]]]))[0, len(committed) - 1 :]
        for model, rows in logits.items():
            best, second = rows.double().topk(2).values.T
            for i, gap in enumerate((best - second).tolist()):
                yield f"round {r.index}, position {i}: the {model}'s best logits differ", gap, CLEAR


def of_draws(recording: Recording) -> Iterator[Margin]:
    """Yields how far numbers lie from their thresholds, and the p/q of tested tokens from 1."""
    for index, draws in enumerate(recording.draws):
        for d in draws:
            yield f"round {index}, position {d.position}: {d.kind} is decided", margin(d), CLEAR
    for index, i, ratio in acceptance_ratios(recording):
        yield f"round {index}, position {i}: p/q differs from 1", abs(ratio - 1), OPEN


def margin(draw: Draw) -> float:
    """Returns how far a number lies from where the outcome would change: infinite for what was certain.

    0 and 1 are no thresholds: no number lies beyond them. A pick without a number is one that only rounding
    makes certain.
    """
    if draw.number is None:
        return 0.0 if draw.kind == "pick" else float("inf")
    inner = [edge for edge in (draw.low, draw.high) if 1e-12 < edge < 1 - 1e-12]
    return min((abs(draw.number - edge) for edge in inner), default=float("inf"))


def acceptance_ratios(recording: Recording) -> Iterator[tuple[int, int, float]]:
    """Yields round, position in the draft and p/q, not cut at 1, of each token that was tested."""
    for r in recording.trace.rounds:
        for i in range(r.tested(0) or 0):
            token = r.draft.tokens[0, i]
            ratio = r.target_probs[0, i, token].double() / r.draft.probs[0, i, token].double()
            yield r.index, i, float(ratio)


def has_all_endings(recording: Recording) -> bool:
    """Whether a story has a correction and a bonus, and comes to its end before the cap."""
    kinds = {r.kind(0) for r in recording.trace.rounds}
    return {"correction", "bonus"} <= kinds and recording.trace.finish() == "eos"


def first_clear(pair: Pair, prompt: str, verifier: str) -> Recording:
    """Returns the run with the first seed that is clear and has all endings.

    Raises:
        ValueError: if no seed is.
    """
    reason = "no run has a correction and a bonus and ends in time"
    for seed in SEEDS[verifier]:
        recording = record_pair(pair, prompt, verifier, max_new_tokens=MOST_TOKENS[verifier], seed=seed)
        faults = unclear(recording, pair.draft)
        if faults:
            reason = faults[0]
        elif has_all_endings(recording):
            return recording
    raise ValueError(
        f"pair {pair.name} has no {verifier} walkthrough that is clear on all machines: {reason}"
    )


def write_walkthroughs(pair: Pair, folder: Path) -> None:
    """Records both walkthroughs of a pair, writes them into a folder, and prints their texts.

    Raises:
        ValueError: if the pair has no prompt, no seed is clear, or the files cannot be written.
    """
    if pair.walkthrough is None:
        raise ValueError(f"pair {pair.name} has no walkthrough prompt in its pair.json")
    hashes = {"target": weights_hash(pair.target), "draft": weights_hash(pair.draft)}
    for verifier in VERIFIERS:
        found = first_clear(pair, pair.walkthrough, verifier)
        path = folder / f"walkthrough-{verifier}.json"
        save_recording(replace(found, info={**found.info, "sha256": hashes}), path)
        print(f"{path.name}: seed {found.info['seed']}, {path.stat().st_size / 1000:.0f} kB")
        print(f"  {found.text()}")
