"""The walkthrough recordings: one run with each verifier, the same on every page and every machine.

Their words are quoted in prose, so they must not hang on the last bits of a float. Every argmax is clear, and
every number drawn lies well away from where the outcome would change. After a pair has been trained,
`python -m minispec.io.walkthrough` writes them again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.records import Round
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.io.checkpoint import Pair, find_pair, load_pair, weights_hash
from minispec.io.draws import LoggingRng
from minispec.io.recording import Recording, record_run
from minispec.io.trace_file import load_trace, save_trace

VERIFIERS: dict[str, tuple[Verifier, float]] = {  # each with the temperature that it is shown at
    "greedy": (verify_greedy, 0.0),
    "rejection": (verify_rejection, 1.0),
}
K = 5
GREEDY_TOKENS = 100  # the greedy story ends before
MOST_TOKENS = 60  # a sampled story that is longer is passed over
CLEAR = 1e-3  # of logits, and of the numbers drawn
OPEN = 1e-5  # how far from 1 a ratio p/q must lie, so that everybody draws a number for it or nobody does
SEEDS = 2000  # tried before giving up
COMMAND = "python -m minispec.io.walkthrough"


def load_walkthrough(verifier: str = "greedy", pair: str | Path = "stories") -> Recording:
    """Reads a committed walkthrough; no model is loaded.

    Args:
        verifier: `greedy` or `rejection`.
        pair: a pair's name or folder.

    Raises:
        ValueError: if there is no such pair or recording, or it is damaged.
    """
    return load_trace(walkthrough_path(find_pair(pair), verifier))


def walkthrough_path(folder: Path, verifier: str) -> Path:
    """Returns where a pair's walkthrough lies.

    Raises:
        ValueError: if the verifier is unknown.
    """
    if verifier not in VERIFIERS:
        raise ValueError(f"there is no walkthrough of {verifier!r}; choose {' or '.join(VERIFIERS)}")
    return folder / f"walkthrough-{verifier}.json"


def vocabulary(pair: Pair) -> tuple[str, ...]:
    """Returns the text of every id."""
    return tuple(pair.tokenizer.piece(token) for token in range(pair.tokenizer.vocab_size))


def record_pair(
    pair: Pair, prompt: str, verifier: str, *, k: int = K, max_new_tokens: int = 100, seed: int = 0
) -> Recording:
    """Records one run of a pair.

    Args:
        pair: target, draft and tokenizer.
        prompt: what to continue.
        verifier: `greedy`, at temperature 0, or `rejection`, at temperature 1.
        k: how many tokens to draft a round.
        max_new_tokens: at most this many.
        seed: of chance.

    Returns:
        The recording; `info` says all of this, so that it can be run again.
    """
    rule, temperature = VERIFIERS[verifier]
    return record_run(
        pair.target,
        ModelDrafter(pair.draft),
        [pair.tokenizer.encode(prompt)],
        vocabulary(pair),
        rng=LoggingRng(seed),
        info={"pair": pair.name, "prompt": prompt, "verifier": verifier, "seed": seed},
        k=k,
        verifier=rule,
        max_new_tokens=max_new_tokens,
        warp=Warp(temperature),
        eos=pair.tokenizer.end_of_text,
    )


def unclear(recording: Recording, draft: LanguageModel) -> list[str]:
    """Returns what in a recording another machine might see differently; one line each.

    Args:
        recording: of one row, by `record_pair`.
        draft: the draft model, whose logits a trace does not keep.
    """
    if recording.trace.config["temperature"] == 0:
        return [*unclear_target(recording), *unclear_draft(recording, draft)]
    return [*unclear_draws(recording), *unclear_ratios(recording)]


def unclear_target(recording: Recording) -> Iterator[str]:
    """Yields where the target's two best logits are closer than `CLEAR`."""
    for r in recording.trace.rounds:
        top = r.target_logits[0].double().topk(2).values  # [K+1, 2]
        for place, gap in enumerate((top[:, 0] - top[:, 1]).tolist()):
            if gap <= CLEAR:
                yield f"round {r.index}, place {place}: the target's best logits differ by {gap:.2g}"


@torch.inference_mode()
def unclear_draft(recording: Recording, draft: LanguageModel) -> Iterator[str]:
    """Yields where the draft's two best logits are closer than `CLEAR`, by reading its drafts once more."""
    committed = list(recording.trace.prompts[0])
    for r in recording.trace.rounds:
        drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
        if drafted:
            logits = draft(torch.tensor([[*committed, *drafted[:-1]]]))[0, len(committed) - 1 :]
            top = logits.double().topk(2).values  # [K, 2]
            for place, gap in enumerate((top[:, 0] - top[:, 1]).tolist()):
                if gap <= CLEAR:
                    yield f"round {r.index}, place {place}: the draft's best logits differ by {gap:.2g}"
        committed.extend(r.emitted[0])


def unclear_draws(recording: Recording) -> Iterator[str]:
    """Yields the numbers drawn that lie within `CLEAR` of their thresholds, and picks without a number."""
    for index, draws in enumerate(recording.draws):
        for d in draws:
            if d.margin <= CLEAR:
                yield f"round {index}, position {d.position}: {d.kind} is decided by {d.margin:.2g}"
            elif d.kind == "pick" and d.number is None:
                yield f"round {index}, position {d.position}: a pick that only rounding makes certain"


def unclear_ratios(recording: Recording) -> Iterator[str]:
    """Yields tested tokens whose p/q is so near to 1 that rounding decides whether a number is drawn."""
    for r in recording.trace.rounds:
        for place, ratio in enumerate(acceptance_ratios(r)):
            if abs(ratio - 1) <= OPEN:
                yield f"round {r.index}, place {place}: p/q is 1 up to {abs(ratio - 1):.2g}"


def acceptance_ratios(r: Round, row: int = 0) -> list[float]:
    """Returns p/q of each token that was tested, not cut at 1."""
    places = range(r.tested(row) or 0)
    tokens = r.draft.tokens[row].tolist()
    return [
        float(r.target_probs[row, i, tokens[i]].double() / r.draft.probs[row, i, tokens[i]].double())
        for i in places
    ]


def is_telling(recording: Recording) -> bool:
    """Whether a story has a correction and a bonus, and comes to its end before the cap."""
    kinds = {r.kind(0) for r in recording.trace.rounds}
    trace = recording.trace
    return {"correction", "bonus"} <= kinds and trace.finish() == "eos"


def first_clear(pair: Pair, prompt: str, verifier: str) -> Recording:
    """Returns the run with the first seed that is telling and clear.

    Raises:
        ValueError: if no seed is; for the greedy verifier, if its one run is not.
    """
    reason = "no run has a correction and a bonus and ends in time"
    for seed in range(SEEDS if VERIFIERS[verifier][1] else 1):
        most = MOST_TOKENS if VERIFIERS[verifier][1] else GREEDY_TOKENS
        recording = record_pair(pair, prompt, verifier, max_new_tokens=most, seed=seed)
        faults = unclear(recording, pair.draft)
        if faults:
            reason = faults[0]
        elif is_telling(recording):
            return recording
    raise ValueError(
        f"pair {pair.name} has no {verifier} walkthrough that is clear on all machines: {reason}"
    )


def write_walkthroughs(pair: Pair, folder: Path) -> list[Path]:
    """Records and writes both walkthroughs of a pair.

    Args:
        pair: one that has a walkthrough prompt.
        folder: where; usually the pair's own.

    Returns:
        The files.

    Raises:
        ValueError: if the pair has no prompt, no seed is clear, or the files cannot be written.
    """
    if pair.walkthrough is None:
        raise ValueError(f"pair {pair.name} has no walkthrough prompt in its pair.json")
    marks: dict[str, Any] = {"target": weights_hash(pair.target), "draft": weights_hash(pair.draft)}
    paths = []
    for verifier in VERIFIERS:
        found = first_clear(pair, pair.walkthrough, verifier)
        whole = Recording(found.trace, found.words, found.draws, {**found.info, "sha256": marks})
        paths.append(walkthrough_path(folder, verifier))
        save_trace(whole, paths[-1])
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Writes the walkthroughs of a pair beside it."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--pair", default="stories", help="a pair's name or folder")
    pair = load_pair(parser.parse_args(arguments).pair)
    for path in write_walkthroughs(pair, pair.folder):
        recording = load_trace(path)
        print(f"{path.name}: seed {recording.info['seed']}, {path.stat().st_size / 1000:.0f} kB")
        print(f"  {recording.text()}")


if __name__ == "__main__":
    main()
