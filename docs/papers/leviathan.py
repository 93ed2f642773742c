"""Leviathan, Kalman, Matias 2023: tokens a call and improvement against α and γ, figure 2 and table 1.

The closed form needs one α for all positions. Table models have it: wherever the text stands, p is
(1 − α/2, α/2), in an order that depends on the context, and q has it the other way round: Σ min(p, q) = α.
"""

import torch
from book.results_tables import table

from minispec import ModelDrafter, SeededRng, Warp, speculate, verify_rejection
from minispec.evidence.proof.models import TableModel
from minispec.evidence.theory.formulas import expected_tokens
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.charts import CURVES
from minispec.show.plots.style import Picture
from papers.runs import Rows, plus_minus, tokens_a_call

TITLE = "Leviathan et al. 2023: tokens a call"
CLAIM = """Figure 2 plots (1 − α^(γ+1)) / (1 − α), the expected tokens of a target call, against α for several
γ (our K). Table 1 has the improvement of a draft that costs nothing, and by how much the operations grow."""
VERDICT = "exact and measured"
ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)
GAMMAS = (1, 3, 5, 7, 10)
TABLE_1 = {  # the paper's numbers: (α, γ) to (operations, improvement)
    (0.6, 2): (1.53, 1.96),
    (0.7, 3): (1.58, 2.53),
    (0.8, 2): (1.23, 2.44),
    (0.8, 5): (1.63, 3.69),
    (0.9, 2): (1.11, 2.71),
    (0.9, 10): (1.60, 6.86),
}
TEXTS = 64
LENGTH = 200
MARKERS = "os^Dv"


def exact() -> Rows:
    """Returns the closed form at every α and γ of the figure and the table."""
    settings = dict.fromkeys([(alpha, gamma) for alpha in ALPHAS for gamma in GAMMAS] + [*TABLE_1])
    return [{"alpha": a, "gamma": gamma, "exact": expected_tokens(a, gamma)} for a, gamma in settings]


def models(alpha: float) -> tuple[TableModel, TableModel]:
    """Returns a target and a draft whose acceptance rate is α in every context."""
    p = torch.tensor([1 - alpha / 2, alpha / 2], dtype=torch.float64).log()
    logits = torch.stack([p.roll(context) for context in range(6)])
    return TableModel(logits, LENGTH + 1), TableModel(logits.flip(1), LENGTH + 1)


def measure() -> Rows:
    """Runs the loop at every α and γ."""
    rows = []
    for row in exact():
        target, draft = models(row["alpha"])
        how = {"k": row["gamma"], "verifier": verify_rejection, "warp": Warp(), "rng": SeededRng(0)}
        rounds = speculate(target, ModelDrafter(draft), [[0]] * TEXTS, max_new_tokens=LENGTH, **how)
        rows.append(row | tokens_a_call(rounds, row["gamma"]))
    return rows


def show(rows: Rows) -> str:
    """Writes table 1 beside ours; the figure has the rest."""
    found = {(row["alpha"], row["gamma"]): row for row in rows}
    off = max(abs(row["measured"] - row["exact"]) / row["error"] for row in rows)
    cells = []
    for (alpha, gamma), (operations, improvement) in TABLE_1.items():
        row = found[alpha, gamma]
        ours = f"{(gamma + 1) / row['exact']:.2f}", f"{row['exact']:.2f}", plus_minus(row)
        cells.append((f"{alpha}", f"{gamma}", f"{operations:.2f}", ours[0], f"{improvement:.2f}", *ours[1:]))
    head = ("α", "γ", "operations: the paper", "here", "improvement: the paper", "closed form", "measured")
    return (
        f"Table models with this α in every context, {TEXTS} texts of {LENGTH} tokens for each setting. Of "
        f"{len(rows)} means the farthest lies {off:.1f} standard errors from the closed form.\n\n"
        f"{table(head, cells, 0)}\n\n```{{made}} paper leviathan\n```"
    )


def figure(rows: Rows) -> Picture:
    """Draws the closed form as curves, and what was measured as points."""
    figure, axes = charts.chart(11, 7, "acceptance rate α", "tokens a target call")
    grid = [i / 100 for i in range(101)]
    for gamma, (colour, line), marker in zip(GAMMAS, CURVES, MARKERS, strict=True):
        axes.plot(grid, [expected_tokens(a, gamma) for a in grid], line, color=colour, linewidth=2.5)
        points = [row for row in rows if row["gamma"] == gamma]
        spots = [row["alpha"] for row in points], [row["measured"] for row in points]
        axes.plot(*spots, marker, color=colour, markersize=12, markeredgecolor="black")
        charts.note(axes, f"γ = {gamma}", (1, gamma + 1), (8, -6))
    axes.set(xlim=(0, 1), ylim=(1, 11.5))
    most = max(rows, key=lambda row: row["measured"])
    text = f"at α = {most['alpha']} and γ = {most['gamma']} a call yields {most['measured']:.2f} tokens"
    twin = [
        f"α = {row['alpha']}, γ = {row['gamma']}: {row['exact']:.3f}, measured {plus_minus(row)}"
        for row in rows
    ]
    return titled(
        "paper-leviathan",
        figure,
        "Measured tokens a call lie on the closed form",
        f"Curves of the closed form against α for five γ, and measured points on them: {text}.",
        f"Points are measured: {text}, by the closed form {most['exact']:.2f}.",
        "\n".join(twin),
    )
