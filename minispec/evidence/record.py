"""Record: measure everything that pages quote, on this machine, and write it to files.

`python -m minispec.evidence.record` replaces what comes with the package. Run it on a quiet machine: nothing
else may be busy, and it takes some minutes. `--short` takes a minute, to try it out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from minispec.evidence.measurements import FOLDER
from minispec.evidence.sweeps import Conditions, record_measurements
from minispec.lm.checkpoint import Pair, load_pair
from minispec.lm.model import GPT

FULL = Conditions(repeats=3)
SHORT = Conditions(prompts=2, repeats=1, new_tokens=48)


def drafts_of(pair: Pair) -> Mapping[str, GPT]:
    """Returns drafts for one target, from one that is too small to the target itself.

    Returns:
        `untrained`: one layer of 8, which guesses at random; `plain`: the pair's draft before distillation;
        `distilled`: the pair's draft; `the target`: always right, and as slow as itself.
    """
    torch.manual_seed(0)
    config = replace(pair.draft.config, layers=1, width=8, heads=1, kv_heads=1, ffn=8, tied=True)
    untrained = GPT(config).eval()
    plain = load_pair(pair.folder, draft="draft-plain").draft
    return {"untrained": untrained, "plain": plain, "distilled": pair.draft, "the target": pair.target}


def main(arguments: Sequence[str]) -> int:
    """Records all kinds but the zoo; returns an exit status."""
    folders = [Path(word) for word in arguments if not word.startswith("--")]
    if len(folders) > 1 or {word for word in arguments if word.startswith("--")} - {"--short"}:
        print("usage: python -m minispec.evidence.record [--short] [FOLDER]", file=sys.stderr)
        return 2
    pair, how = load_pair(), SHORT if "--short" in arguments else FULL
    folder = folders[0] if folders else FOLDER
    try:
        record_measurements(pair, drafts_of(pair), folder, how, lambda kind: print(kind, "…"))
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
