"""Sadhukhan et al. 2024 (MagicDec): the speed-up by batch and context, computed from bytes and operations.

A forward takes as long as its bytes or its operations, whichever take longer. All rows share one reading of
the weights, and each reads a cache of its own. The draft keeps 512 tokens, so its cache stays small.
"""

from book.bench_plots import A100
from book.results_tables import table, times

from minispec import GPTConfig
from minispec.evidence.theory.formulas import expected_tokens, forward_cost, kv_cache_bytes
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.charts import CURVES, LOSS
from minispec.show.plots.style import Picture
from papers.runs import Rows

TITLE = "Sadhukhan et al. 2024, MagicDec: batch and context"
CLAIM = """With short contexts the gain falls as the batch grows; above some length it grows with it. Up to
2.51 times as fast for Llama-3.1-8B at batch sizes of 32 to 256 (abstract, version 4)."""
VERDICT = "exact, by a formula; its times are not reproducible here, without such GPUs"
TARGET = GPTConfig(128_256, layers=32, width=4096, heads=32, kv_heads=8, ffn=14_336)
TARGET_WEIGHTS = 8e9
DRAFT = GPTConfig(128_256, layers=16, width=2048, heads=32, kv_heads=8, ffn=8192)
DRAFT_WEIGHTS = 1.2e9
KEPT = 512  # tokens of the draft's cache
GPUS = 8
MEMORY = GPUS * 80e9
ALPHA = 0.8
LARGEST_K = 8
CONTEXTS = (512, 2048, 8192, 32_768)
BATCHES = (1, 4, 16, 64, 256)


def speed_up(rows: int, context: int, k: int) -> float:
    """Returns the target's seconds a token over those with a draft; as many GPUs change both alike."""

    def target(tokens: int) -> float:
        return forward_cost(TARGET_WEIGHTS, 2, A100, tokens, rows, context, TARGET).seconds

    draft = forward_cost(DRAFT_WEIGHTS, 2, A100, 1, rows, min(context, KEPT), DRAFT).seconds
    return expected_tokens(ALPHA, k) * target(1) / (k * draft + target(k + 1))


def fits(rows: int, context: int) -> bool:
    """Whether weights and caches of the target fit the memory of all GPUs."""
    return 2 * TARGET_WEIGHTS + kv_cache_bytes(TARGET, rows * context, 2) <= MEMORY


def exact() -> Rows:
    """Returns the best K and its speed-up for every batch and context that fits."""
    rows = []
    for context, batch in ((context, batch) for context in CONTEXTS for batch in BATCHES):
        if fits(batch, context):
            gains = {k: speed_up(batch, context, k) for k in range(1, LARGEST_K + 1)}
            k = max(gains, key=gains.__getitem__)
            rows.append({"context": context, "batch": batch, "k": k, "speed_up": gains[k]})
    return rows


measure = exact


def show(rows: Rows) -> str:
    """Writes speed-ups, a line a context and a column a batch."""
    found = {(row["context"], row["batch"]): row for row in rows}
    cells = []
    for context in CONTEXTS:
        here = (found.get((context, batch)) for batch in BATCHES)
        gains = (f"{times(row['speed_up'])} ({row['k']})" if row else "–" for row in here)
        cells.append((f"{context:,}", *gains))
    head = ("context", *(f"batch {batch}" for batch in BATCHES))
    return (
        f"A target of 8 billion weights in Llama-3.1-8B's shape on {GPUS} A100, a draft of 1.2 billion that "
        f"keeps {KEPT} tokens, α = {ALPHA}; in brackets the best K up to {LARGEST_K}. – does not fit the "
        f"memory. Nothing but bytes and operations takes time here.\n\n{table(head, cells, 1)}\n\n"
        "```{made} paper magicdec\n```"
    )


def figure(rows: Rows) -> Picture:
    """Draws the speed-up against the batch, a line a context."""
    figure, axes = charts.chart(11, 6.5, "texts in a batch", "speed-up at the best K")
    for context, (colour, style), marker in zip(CONTEXTS, CURVES, "os^D", strict=False):
        line = [row for row in rows if row["context"] == context]
        spots = [row["batch"] for row in line], [row["speed_up"] for row in line]
        axes.plot(*spots, style, marker=marker, color=colour, linewidth=3, ms=12, label=f"{context:,} tokens")
    axes.axhspan(0, 1, **charts.area(LOSS) | {"edgecolor": "#BBBBBB"}, label=LOSS.word, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES, [f"{batch}" for batch in BATCHES])
    axes.set_ylim(0, 1.1 * max(row["speed_up"] for row in rows))
    charts.keys(axes, 3)
    largest = {row["context"]: row for row in rows}
    short, long = (largest[context] for context in (CONTEXTS[0], CONTEXTS[-2]))
    text = (
        f"With {short['batch']} texts the speed-up is {short['speed_up']:.2f} at {short['context']:,} tokens "
        f"of context, {long['speed_up']:.2f} at {long['context']:,}"
    )
    twin = [
        f"{row['context']:,} tokens, batch {row['batch']}: {row['speed_up']:.2f} with K = {row['k']}"
        for row in rows
    ]
    return titled(
        "paper-magicdec",
        figure,
        "Large batches end the gain of short contexts, not that of long ones",
        f"Speed-up by a formula against the batch, a line for each of {len(CONTEXTS)} contexts. {text}.",
        f"{text}.",
        "\n".join(twin),
    )
