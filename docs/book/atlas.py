"""The page of the atlas, written from what the command said.

    minispec atlas --json > minispec/evidence/recorded/atlas.json
    PYTHONPATH=docs python -m book.atlas docs/atlas.md

Every number on the page comes from that file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from book.results_tables import fill, table
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json, write_whole

Found = Mapping[str, Any]
RECORDED = FOLDER / "atlas.json"
HEAD = """A rule decides which drafted tokens stay, and what comes instead. It can be judged without a
model: by what it makes of p and q. Here every rule of the package meets the same distributions. All drafts
and all branches are enumerated, so the numbers are exact. This page is generated from what `minispec atlas
--json` said; no number is typed by hand."""
COLUMNS = """*TV* is the total variation between p and what comes out, a mean over the positions; a lossless
rule has 0, up to rounding ({largest:.0e} at worst). *Accepted* is the probability that a candidate is
accepted. *Optimum* is the most that any lossless rule can accept of candidates that are drawn in this way:
an optimal transport. It was computed as a minimum over subsets, and at some positions as a linear programme
too; they agree within {error:.0e}. *Pair* and *optimum* after it are the same on recorded positions of the
pair stories. *Draws* is how many random numbers a position takes, without the one for the token after an
accepted candidate. *Passes* is how often the shipped rule goes through all probabilities of a position, for
each candidate: torch operations, without drawing."""
FAMILY = """The family has 300 positions of three to six tokens, half of them flat and half peaked; with
four candidates the first 40 of them are used. The pair's are the first positions of 40 drafts at
temperature 1, pooled to the eight most probable tokens and the rest. The coupled rule stands with the
acceptance that shared noise gives it, by formula; `compare` is the same rule with independent draws. Block
verification is token verification at a single position; it differs in chains."""
LINE = """Above, the line is the optimum for one candidate. A rule that does damage d accepts at most d
more. The mixtures lie on the line: what they emit is $w p + (1 - w) q$, for which they are token
verification. Names with a number have that w, or that l of the lenient rule; without, it is 0.5. Below
are several candidates for one position."""
CANDIDATES = """**A better rule, or candidates that differ?** Take recursive rejection of candidates that are
drawn from one q, which may come twice. Compare two changes: the best possible rule for the same candidates,
or the same rule for candidates drawn without replacement. Which accepts more depends on p and q."""
LOSSY = """These accept more, and their text is not the target's. The damage depends on p and q: on the
pair, whose draft was trained to be like the target, it is smaller."""
CHAINS = """Accepted tokens of a draft of K, by token and by block verification. `thirds` is the smallest
case: p = (1/3, 2/3) and q = (2/3, 1/3), where they accept 10/9 and 11/9. `family` are chains of eight
tokens whose distributions do not depend on the text; `recorded` are drafts of the pair. On average
block never accepts fewer; for a single draft it may."""


def page(found: Found) -> str:
    """Returns the page as Markdown, from what `minispec atlas --json` printed."""
    rules = found["rules"]
    largest = max(one["largest"] for one in rules if one["lossless"])
    error = max(one["optimum_error"] for one in rules)
    chains = (
        (one["name"], str(one["k"]), f"{one['token']:.3f}", f"{one['block']:.3f}") for one in found["chains"]
    )
    parts = [
        "# An atlas of rules",
        fill(HEAD),
        "```{made} atlas\n```",
        fill(LINE),
        "## Lossless rules",
        fill(COLUMNS.format(largest=largest, error=error)),
        lines([one for one in rules if one["lossless"]]),
        fill(FAMILY),
        fill(CANDIDATES),
        table(("", "candidates", "the best rule", "without replacement"), rule_or_candidates(rules)),
        "## Lossy rules",
        fill(LOSSY),
        lines([one for one in rules if not one["lossless"]]),
        "## Chains",
        fill(CHAINS),
        table(("chains", "K", "token", "block"), chains),
        "## Choose this rule when",
        table(("you have", "choose", "because"), choices(rules), 3),
        "## Look at one rule",
        "<!-- not run: takes some seconds -->",
        "```bash\nminispec atlas --rule block\n```",
    ]
    return "\n\n".join(parts) + "\n"


def rule_or_candidates(rules: Sequence[Found]) -> list[tuple[str, str, str, str]]:
    """Returns what each of both accepts, with two candidates and with three, on the family and the pair."""
    by_name = {(one["name"], one["candidates"]): one for one in rules}
    rows = []
    for k in (2, 3):
        same, other = (by_name[f"recursive-{how}-replacement", k] for how in ("with", "without"))
        for where, one, two in (("family", same, other), ("pair", same["recorded"], other["recorded"])):
            rows.append((where, str(k), f"{one['optimum']:.3f}", f"{two['accepted']:.3f}"))
    return rows


CHOICES = (
    (
        "temperature 0",
        "`verify_greedy`",
        "there is one right text, and agreement with the most probable token is all there is to test",
    ),
    (
        "one candidate a position and its q; a short draft, or a fast target",
        "`verify_rejection` (token)",
        "no lossless rule accepts more at one position: {token[1]} on the family",
    ),
    (
        "the same, a long draft, and a target whose forward takes most of the time",
        "`verify_block`",
        "on average it never accepts fewer tokens of a chain, mostly more; it takes more arithmetic, and at "
        "K = 1 or with a one-hot q it accepts what token accepts",
    ),
    (
        "a one-hot q (a look-up), or no q",
        "`verify_compare`",
        "it asks for no q, and with a one-hot q no rule accepts more; with another q it accepts less: "
        "{compare[1]}",
    ),
    (
        "a seed whose text must not depend on the draft, on K or on the batch",
        "`verify_coupled` with `KeyedRng`",
        "the text is that of the target alone for this seed; it accepts a little less: {coupled[1]}",
    ),
    (
        "several candidates that you may choose, and all of q",
        "`greedy_drafting` and `verify_tree`",
        "it meets its optimum: {greedy-drafting[3]} with three candidates",
    ),
    (
        "several candidates that a drafter draws",
        "`without_replacement` and `verify_tree`",
        "no candidate comes twice: {recursive-without-replacement[3]} with three",
    ),
    (
        "several candidates that were drawn from one q already",
        "`verify_k_sequential`",
        "{k-sequential[3]} with three, where recursive rejection has {recursive-with-replacement[3]}; it "
        "takes far more arithmetic",
    ),
    (
        "several fixed candidates, and no q",
        "`most_probable` and `verify_tree`",
        "each is accepted with the probability that p has for it: {fixed-candidates[3]} with three",
    ),
    (
        "a text that may differ from the target's",
        "`verify_mixture`",
        "what it emits is known, and no rule for one candidate accepts more for its damage",
    ),
)


def choices(rules: Sequence[Found]) -> list[tuple[str, str, str]]:
    """Returns the lines of the table of situations, with what each rule accepts on the family."""
    accepted: dict[str, dict[int, str]] = {}
    for one in rules:
        accepted.setdefault(one["name"], {})[one["candidates"]] = f"{one['accepted']:.3f}"
    return [(have, choose, because.format(**accepted)) for have, choose, because in CHOICES]


def lines(rules: Sequence[Found]) -> str:
    """Returns a table with a line for each rule and number of candidates."""
    head = ("rule", "candidates", "TV", "accepted", "optimum", "pair", "optimum", "draws", "passes")
    return table(head, map(cells, rules))


def cells(one: Found) -> list[str]:
    """Returns the line of a rule."""
    pair = one["recorded"] or {}
    return [
        one["name"],
        str(one["candidates"]),
        "0" if one["lossless"] else f"{one['total_variation']:.3f}",
        f"{one['accepted']:.3f}",
        f"{one['optimum']:.3f}",
        *(f"{pair[key]:.3f}" if pair else "–" for key in ("accepted", "optimum")),
        f"{one['draws']:.2f}",
        f"{one['passes']:.0f}",
    ]


def main(arguments: Sequence[str]) -> int:
    """Writes the page to the path that is given; returns an exit status."""
    if len(arguments) != 1:
        print("usage: PYTHONPATH=docs python -m book.atlas PAGE.md", file=sys.stderr)
        return 2
    write_whole(Path(arguments[0]), page(read_json(RECORDED)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
