"""Chen et al. 2024 (Sequoia): tokens a call against the size of the tree, by the tree's shape.

If the i-th candidate of a position is the one that is kept with probability r_i, the expected tokens of a
call are 1 plus the sum over all tokens of the product of r along their paths. The r_i are measured on the
pair, then each shape is computed, and some trees are run.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import fsum

import torch
from book.results_tables import table

from minispec.core.rng import RoundPlan, RoundRng
from minispec.drafters.tree import TreeDrafter, grow
from minispec.evidence.atlas.measure import ConstantRng
from minispec.evidence.theory.trees import most_tokens
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.charts import CURVES
from minispec.show.plots.style import Picture
from minispec.verifiers.tree import verify_tree
from papers.runs import Rows, plus_minus, run, shipped, tokens_a_call

TITLE = "Chen et al. 2024, Sequoia: larger trees"
CLAIM = """With the best tree of each size a call yields ever more tokens, roughly in proportion to the size's
logarithm; chains and trees of fixed width level off (section 3.1)."""
VERDICT = "exact for rates that were measured, and measured"
RANKS = 16  # candidates of a position whose rates are measured
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
RUN = {"best": (4, 16, 64), "chain": (16,)}
NAMES = {
    "best": "the best tree",
    "binary": "two candidates each",
    "chains": "the best k chains",
    "chain": "one chain",
}


def measured_rates() -> list[float]:
    """Returns how often the first, second, … candidate of a position is kept, drawn without replacement.

    For each draft this is computed from the coins of its candidates, all of which are asked as if each before
    it had been rejected.
    """
    pair = shipped()
    drafter = TreeDrafter(pair.draft, [0] * RANKS)
    kept = []
    for r in run(pair, drafter, 1, verify_tree):
        coins = ConstantRng(answer=False)
        plan = RoundPlan.unlimited(len(r.live), r.pending.device)
        verify_tree(r.draft, r.target_probs, RoundRng(coins, plan))
        accept = torch.stack(coins.probabilities, 1)  # [B, RANKS]
        left = (1 - accept).cumprod(1).roll(1, 1)
        left[:, 0] = 1
        whole = (r.draft.lengths == RANKS) & torch.tensor(r.live)
        kept.append((left * accept)[whole])
    return torch.cat(kept).mean(0).tolist()


def path_sum(parents: Sequence[int], ranks: Sequence[int], rates: Sequence[float]) -> float:
    """Returns 1 plus the sum of path probabilities of a tree; parents as in a `Draft`."""
    probs = [1.0]
    for parent, rank in zip(parents, ranks, strict=True):
        probs.append(probs[parent] * rates[rank])
    return fsum(probs)


def shapes(size: int, rates: Sequence[float]) -> dict[str, float]:
    """Returns the expected tokens of a call for each shape but the best, with so many tokens."""
    token = range(size)

    def chains(count: int) -> float:
        return 1 + fsum(rates[:count]) * fsum(rates[0] ** i for i in range(size // count))

    return {
        "binary": path_sum([i // 2 for i in token], [i % 2 for i in token], rates),
        "chains": max(map(chains, range(1, min(size, RANKS) + 1))),
        "chain": chains(1),
    }


def best_tree(size: int, rates: Sequence[float]) -> list[int]:
    """Returns the parents of the tree with the most expected tokens."""
    falling = [*accumulate(rates, min)]  # rare candidates are counted so seldom that their order may be off
    return grow([falling] * size, size)[0]


def computed(rates: Sequence[float]) -> Rows:
    """Returns expected tokens a call for every size and shape."""
    best = most_tokens(rates, SIZES[-1])
    return [
        {"size": size, "shape": shape, "expected": tokens}
        for size in SIZES
        for shape, tokens in {"best": best[size], **shapes(size, rates)}.items()
    ]


def measure() -> Rows:
    """Measures the rates, computes all shapes, and runs some of them."""
    rates = measured_rates()
    rows = computed(rates)
    pair = shipped()
    for row in rows:
        if row["size"] in RUN.get(row["shape"], ()):
            chain = range(row["size"])
            parents = chain if row["shape"] == "chain" else best_tree(row["size"], rates)
            drafter = TreeDrafter(pair.draft, list(parents))
            row |= tokens_a_call(run(pair, drafter, row["size"], verify_tree), row["size"])
    return [{"rates": rates}, *rows]


def exact(rows: Rows) -> Rows:
    """Returns what follows from the recorded rates."""
    return computed(rows[0]["rates"])


def show(rows: Rows) -> str:
    """Writes what was run beside what was expected; the figure has the rest."""
    first, second, *_ = rows[0]["rates"]
    rates = ", ".join(f"{rate:.3f}" for rate in rows[0]["rates"][:3])
    cells = [
        (NAMES[row["shape"]], f"{row['size']}", f"{row['expected']:.2f}", plus_minus(row))
        for row in sorted(rows[1:], key=lambda row: row["shape"])
        if "measured" in row
    ]
    head = ("shape", "tokens", "expected", "measured")
    return (
        f"On the pair stories at temperature 1 the first three candidates are kept at the rates {rates}. "
        f"However large, one chain can yield {1 / (1 - first):.1f} tokens, and two candidates each "
        f"{1 / (1 - first - second):.1f}. Real acceptance depends on the text too, so where drafts are deep, "
        "expected and measured part.\n\n"
        f"```{{made}} paper sequoia\n```\n\n{table(head, cells, 1)}"
    )


def figure(rows: Rows) -> Picture:
    """Draws expected tokens a call against size by shape, and measured ones as points."""
    figure, axes = charts.chart(11, 7, "tokens of the tree", "tokens a target call")
    lines = {shape: [row for row in rows[1:] if row["shape"] == shape] for shape in NAMES}
    for (shape, line), (colour, style) in zip(lines.items(), CURVES, strict=False):
        spots = [row["size"] for row in line], [row["expected"] for row in line]
        axes.plot(*spots, style, color=colour, linewidth=3, label=NAMES[shape])
        for row in line:
            if "measured" in row:
                marker = "o" if shape == "best" else "s"
                axes.plot(row["size"], row["measured"], marker, color=colour, ms=12, mec="black")
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES, [f"{size}" for size in SIZES])
    charts.keys(axes, 2)
    best, chain = (lines[shape][-1]["expected"] for shape in ("best", "chain"))
    text = f"With {SIZES[-1]} tokens the best tree yields {best:.1f} a call, one chain {chain:.1f}"
    twin = [
        f"{NAMES[row['shape']]}, {row['size']}: expected {row['expected']:.2f}"
        + (f", measured {plus_minus(row)}" if "measured" in row else "")
        for row in rows[1:]
    ]
    return titled(
        "paper-sequoia",
        figure,
        "Chains level off, the best tree goes on growing",
        f"Curves of expected tokens a call against the size of the tree, for four shapes. {text}.",
        f"{text}. Points are measured: circles the best tree, squares one chain.",
        "\n".join(twin),
    )
