"""Records the walkthroughs of a pair anew: `python -m book.record_walkthroughs` in the folder docs.

Pages quote these recordings in prose, so they must not depend on the last bits of a float. Every argmax is
clear, and every number drawn lies well away from where the outcome would change. So after a pair has been
trained, this looks for the first seed of which that is true.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from minispec.core.model import LanguageModel
from minispec.core.records import Round
from minispec.io.checkpoint import Pair, load_pair, weights_hash
from minispec.io.recording import Draw, Recording
from minispec.io.recording_file import save_recording
from minispec.io.walkthrough import VERIFIERS, record_pair

MOST_TOKENS = {"greedy": 100, "rejection": 60}  # a story that is longer is passed over
SEEDS = {"greedy": 1, "rejection": 2000}  # tried before giving up
CLEAR = 1e-3  # of logits, and of the numbers drawn
OPEN = 1e-5  # how far from 1 a ratio p/q must lie, so that a number for it is drawn everywhere or nowhere
COMMAND = "cd docs && python -m book.record_walkthroughs"


def unclear(recording: Recording, draft: LanguageModel) -> list[str]:
    """Returns what in a recording another machine might see differently; one line each.

    Args:
        recording: of one row, by `record_pair`.
        draft: the draft model, whose logits a trace does not keep.
    """
    if recording.trace.config["temperature"]:
        return [*unclear_draws(recording), *unclear_ratios(recording)]
    target = ((r, r.target_logits[0]) for r in recording.trace.rounds)
    return [*ties("target", target), *ties("draft", draft_logits(recording, draft))]


def ties(model: str, blocks: Iterable[tuple[Round, Tensor]]) -> Iterator[str]:
    """Yields where a model's two best logits, [n, V] for each round, are closer than `CLEAR`."""
    for r, logits in blocks:
        top = logits.double().topk(2).values  # [n, 2]
        for i, gap in enumerate((top[:, 0] - top[:, 1]).tolist()):
            if gap <= CLEAR:
                yield f"round {r.index}, position {i}: the {model}'s best logits differ by {gap:.2g}"


@torch.inference_mode()
def draft_logits(recording: Recording, draft: LanguageModel) -> Iterator[tuple[Round, Tensor]]:
    """Yields what each draft was chosen from, [K, V], by reading it once more."""
    committed = list(recording.trace.prompts[0])
    for r in recording.trace.rounds:
        drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
        if drafted:
            yield r, draft(torch.tensor([[*committed, *drafted[:-1]]]))[0, len(committed) - 1 :]
        committed.extend(r.emitted[0])


def unclear_draws(recording: Recording) -> Iterator[str]:
    """Yields the numbers drawn that lie within `CLEAR` of their thresholds, and picks without a number."""
    for index, draws in enumerate(recording.draws):
        for d in draws:
            if margin(d) <= CLEAR:
                yield f"round {index}, position {d.position}: {d.kind} is decided by {margin(d):.2g}"
            elif d.kind == "pick" and d.number is None:
                yield f"round {index}, position {d.position}: a pick that only rounding makes certain"


def margin(draw: Draw) -> float:
    """Returns how far a number lies from where the outcome would change: infinite for what was certain.

    0 and 1 are no thresholds: no number lies beyond them.
    """
    inner = [edge for edge in (draw.low, draw.high) if 1e-12 < edge < 1 - 1e-12]
    return min((abs(draw.number - edge) for edge in inner if draw.number is not None), default=float("inf"))


def unclear_ratios(recording: Recording) -> Iterator[str]:
    """Yields tested tokens whose p/q is so near to 1 that rounding decides whether a number is drawn."""
    for r in recording.trace.rounds:
        for i, ratio in enumerate(acceptance_ratios(r)):
            if abs(ratio - 1) <= OPEN:
                yield f"round {r.index}, position {i}: p/q is 1 up to {abs(ratio - 1):.2g}"


def acceptance_ratios(r: Round) -> list[float]:
    """Returns p/q of each token of the first row that was tested, not cut at 1."""
    tokens = r.draft.tokens[0].tolist()
    p = r.target_probs[0].double()
    q = r.draft.probs[0].double()
    return [float(p[i, tokens[i]] / q[i, tokens[i]]) for i in range(r.tested(0) or 0)]


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
    for seed in range(SEEDS[verifier]):
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the walkthroughs of a pair beside it.")
    parser.add_argument("--pair", default="stories", help="a pair's name or folder")
    chosen = load_pair(parser.parse_args().pair)
    write_walkthroughs(chosen, chosen.folder)
