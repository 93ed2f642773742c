"""The page of real samplers, written from what was recorded.

    minispec atlas --samplers --checkout EAGLE=… --output minispec/evidence/recorded/samplers.json
    PYTHONPATH=docs python -m book.samplers docs/samplers.md

No number on the page is typed by hand.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from book.results_tables import fill, table
from minispec.evidence.atlas.samplers import Judged, recorded_samplers
from minispec.io.files import write_whole

HEAD = """Samplers of other projects were called as they are, from an installed package or from a checkout,
and put under `check_verifier` or `check_engine`. Nothing of them is copied into this package. The
page is generated from what was recorded; a row says of which version."""
READING = """*No difference* means: the check saw none, on what the last column names. Where it drew samples,
*sees* is the total variation that it cannot miss; where it took every branch there is no such
limit. *Damage* is the largest total variation that was found. *Not judged* means that it does not
run here, or raised an error."""
RUN = """Samplers whose package is installed are run anew by `minispec atlas --samplers`; those that are no
package need the folder of a checkout, as in `--checkout EAGLE=path`. Of the others the recorded row
is shown. Of vLLM and SGLang the files of the installed package are enough, as `pip install --no-deps`
leaves them; their kernels need the package triton, and a GPU or `TRITON_INTERPRET=1`."""
LOSSY = """Each of these differs from its target. First comes a case by hand, which
`tests/evidence/atlas/test_samplers.py` asserts; then what the check printed."""
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


def page(rows: Sequence[Judged]) -> str:
    """Returns the page as Markdown."""
    columns = ("project", "version", "what", "verdict", "damage", "sees", "run on", "checked")
    lines = [
        (
            *(one.project, one.version or "", f"`{one.rule}`", WORDS[one.lossless]),
            *("" if x is None else f"{x:.3g}" for x in (one.damage, one.detects)),
            one.recorded,
            one.checked,
        )
        for one in rows
    ]
    lossy = (one for one in rows if one.lossless is False)
    others = (one for one in rows if one.lossless is None)
    parts = [
        "# Real samplers under the check",
        fill(HEAD),
        table(columns, lines, left=4),
        *(fill(READING), fill(RUN), "## Smallest counterexamples", fill(LOSSY)),
        *(
            f"**{one.project}, `{one.rule}`**\n\n{fill(CASES[one.rule])}\n\n"
            f"<!-- not run: the check printed it -->\n```text\n{one.report}\n```"
            for one in lossy
        ),
        "## Not judged",
        "\n".join(f"- {one.project}, `{one.rule}`: {one.instance}" for one in others),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the page to the path that is given; returns the exit status."""
    if len(arguments) != 1:
        print("usage: PYTHONPATH=docs python -m book.samplers PAGE.md", file=sys.stderr)
        return 2
    write_whole(Path(arguments[0]), page(recorded_samplers()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
