"""The walkthrough recordings: one run with each verifier, the same on every page and every machine."""

from pathlib import Path

from minispec.core.draft import ModelDrafter
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.io.checkpoint import Pair, find_pair
from minispec.io.recording import LoggingRng, Recording, record_run
from minispec.io.recording_file import load_recording

VERIFIERS: dict[str, tuple[Verifier, float]] = {  # each with the temperature that it is shown at
    "greedy": (verify_greedy, 0.0),
    "rejection": (verify_rejection, 1.0),
}
K = 5


def load_walkthrough(verifier: str = "greedy", pair: str | Path = "stories") -> Recording:
    """Reads a committed walkthrough of `greedy` or `rejection`; no model is loaded.

    Raises:
        ValueError: if there is no such pair or recording, or it is damaged.
    """
    if verifier not in VERIFIERS:
        raise ValueError(f"there is no walkthrough of {verifier!r}; choose {' or '.join(VERIFIERS)}")
    return load_recording(find_pair(pair) / f"walkthrough-{verifier}.json")


def vocabulary(pair: Pair) -> tuple[str, ...]:
    """Returns the text of every id."""
    return tuple(pair.tokenizer.piece(token) for token in range(pair.target.vocab_size))


def record_pair(
    pair: Pair, prompt: str, verifier: str, *, k: int = K, max_new_tokens: int = 100, seed: int = 0
) -> Recording:
    """Records one run of a pair: `greedy` at temperature 0, or `rejection` at temperature 1.

    The recording's `info` says all that it was made with, so that it can be made again.
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
        eos=pair.tokenizer.ends,
    )
