"""Chen et al. 2023: tokens a call as the draft gets longer, and how well a long draft is used.

For a text of the target the expected number of rounds is exact, by renewal over its positions; so tokens a
call are known before the loop has run. It then runs on other prompts.
"""

from statistics import fmean

from book.results_tables import table

from minispec import ModelDrafter, SeededRng, Warp
from minispec.evidence.bench.measure import bench_prompts
from minispec.evidence.theory.acceptance import acceptance_probabilities, target_only_texts
from minispec.evidence.theory.predict import rounds
from papers.runs import TOKENS, Row, Rows, plus_minus, run, shipped

TITLE = "Chen et al. 2023: longer drafts"
CLAIM = """Figure 1: as K grows, the tokens of a call divided by K + 1 become fewer, a call takes longer, and
from some K on a text is not sooner done. Chinchilla with 70 billion weights wrote 2 to 2.5 times as fast
(abstract)."""
VERDICT = "measured; the speed is not reproducible here, as Chinchilla is not public"
KS = (1, 2, 3, 4, 6, 8)


def exact() -> Rows:
    """Returns expected tokens a call on texts of the target alone, after the first half of the prompts."""
    pair = shipped()
    prompts = bench_prompts(pair)[::2]
    texts = target_only_texts(pair.target, prompts, TOKENS, Warp(), SeededRng(1))
    probabilities = acceptance_probabilities(pair.target, pair.draft, prompts, texts, Warp())
    expected = {k: fmean(rounds(text, k).target_calls for text in probabilities) for k in KS}
    return [{"k": k, "expected": TOKENS / calls} for k, calls in expected.items()]


def measured(k: int) -> Row:
    """Returns tokens a call after the other half: of texts of one length, over the mean number of calls."""
    pair = shipped()
    prompts = bench_prompts(pair)[1::2]
    calls = [0.0] * len(prompts)
    for r in run(pair, ModelDrafter(pair.draft), k, prompts=prompts):
        for row, is_live in enumerate(r.live):
            calls[row] += is_live
    each = fmean(calls)
    spread = fmean((n - each) ** 2 for n in calls) / (len(calls) - 1)
    return {"measured": TOKENS / each, "error": TOKENS / each**2 * spread**0.5, "texts": len(calls)}


def measure() -> Rows:
    """Runs the loop with every K."""
    return [row | measured(row["k"]) for row in exact()]


def show(rows: Rows) -> str:
    """Writes tokens a call and the used part of what a round could yield, K + 1."""
    cells = [
        (f"{row['k']}", f"{row['expected']:.2f}", plus_minus(row), f"{row['measured'] / (row['k'] + 1):.0%}")
        for row in rows
    ]
    head = ("K", "expected", "tokens a call", "of K + 1")
    return (
        f"The pair stories at temperature 1, {rows[0]['texts']} texts of {TOKENS} tokens for each K. "
        "*Expected* comes from texts of other prompts, [by "
        "renewal](explanation/cost_model.md#counting-rounds-exactly)."
        f"\n\n{table(head, cells, 0)}"
    )
