"""The page of real samplers, written from what was recorded.

    python docs/peers/samplers.py --checkout EAGLE=… --output minispec/evidence/recorded/samplers.json
    PYTHONPATH=docs python -m book.samplers docs/samplers.md

No number on the page is typed by hand.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from book.results_tables import fill, table
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json, write_whole

RECORD = FOLDER / "samplers.json"

HEAD = """Samplers of other projects were called as they are, from an installed package or from a checkout,
and put under `check_verifier` or `check_engine`. Nothing of them is copied into this package. The
page is generated from what was recorded; a row says of which version."""
READING = """*No difference* means: the check saw none, on what the last column names. Where it drew samples,
*sees* is the total variation that it cannot miss; where it took every branch there is no such
limit. *Damage* is the largest total variation that was found. *Not judged* means that it does not
run here, or raised an error."""
RUN = """Samplers whose package is installed are run anew by `python docs/peers/samplers.py --output FILE`;
those that are no package need the folder of a checkout, as in `--checkout EAGLE=path`. Of the others the
recorded row is kept. Of vLLM and SGLang the files of the installed package are enough, as `pip install
--no-deps` leaves them; their kernels need the package triton, and run in its interpreter."""
LOSSY = """Each of these differs from its target. First comes a case by hand, which
`tests/docs/test_peers.py` asserts; then what the check printed."""
CASES = {
    "_speculative_sampling, assistant_ensemble_weight=0.8": """With w = 0.8, p = (1, 0) and q = (0, 1)
the candidate 1 is kept with probability 1 − w = 0.2; the target never says it. This is meant: the text
is distributed as w·p + (1 − w)·q, so its total variation is (1 − w)·TV(p, q).""",
    "SinglePositionMultiTokenCandidateGenerator, do_sample=True": """Let p = q = (1/2, 1/2).
`get_candidates` takes the argmax of its logits, 0, and returns log q as `candidate_logits`. Then p/q =
1, and 0 always comes; expected: 1/2. With q = (2/3, 1/3) it comes with 3/4. The candidate is certain,
so the logits to return are one-hot.""",
    "speculative_decoding, a batch of 8": """At temperature 0 the prompts [0] and [1] give 0 0 0 0 0 0
and 1 1 1 1 1 1, each alone, as `base_decoding` does. In one batch the first gives 0 0 2 1 1 0; the two
best logits are 3.7 apart where it turns. By reading: a row that accepts less is padded on the left, and
the mask for the padding is computed, but not handed to the layers.""",
    "rejection_sample, enable_block_verify, without Triton": """The target says 0 or 1 with 1/2 each, and
then always 0; the draft is 0 0 0, with certainty. All of it is kept with probability 0.967; expected:
1/2. Products of uniform numbers are compared with products of ratios. The published rule draws one
number at each position and compares it with h; see [the atlas](atlas.md).""",
}
WORDS = {True: "no difference", False: "**lossy**", None: "not judged"}


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page as Markdown."""
    columns = ("project", "version", "what", "verdict", "damage", "sees", "run on", "checked")
    lines = [
        (
            row["project"],
            row["version"] or "",
            f"`{row['rule']}`",
            WORDS[row["lossless"]],
            *("" if row[name] is None else f"{row[name]:.3g}" for name in ("damage", "detects")),
            row["recorded"],
            row["checked"],
        )
        for row in rows
    ]
    parts = [
        "# Real samplers under the check",
        fill(HEAD),
        table(columns, lines, left=4),
        *(fill(READING), fill(RUN), "## Smallest counterexamples", fill(LOSSY)),
        *(
            f"**{row['project']}, `{row['rule']}`**\n\n{fill(CASES[row['rule']])}\n\n"
            f"<!-- not run: the check printed it -->\n```text\n{row['report']}\n```"
            for row in rows
            if row["lossless"] is False
        ),
        "## Not judged",
        "\n".join(
            f"- {row['project']}, `{row['rule']}`: {row['instance']}"
            for row in rows
            if row["lossless"] is None
        ),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the page to the path that is given; returns the exit status."""
    if len(arguments) != 1:
        print("usage: PYTHONPATH=docs python -m book.samplers PAGE.md", file=sys.stderr)
        return 2
    write_whole(Path(arguments[0]), page(read_json(RECORD)["samplers"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
