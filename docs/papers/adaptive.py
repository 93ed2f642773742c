"""Huang et al. 2024 (SpecDec++): a draft that ends where it has become doubtful, and a K by past rounds.

Costs are counted and not timed: a call of the target is 1, a drafted token c.
"""

from collections.abc import Iterable

from book.results_tables import table, times

from minispec import AdaptiveDrafter, Costs, ModelDrafter, Round, StoppingDrafter
from papers.runs import Row, Rows, run, shipped

TITLE = "Huang et al. 2024, SpecDec++: how long a draft"
CLAIM = """To stop once a rejection has become likely enough is the best policy (theorem). With a trained head
that predicts it, 7 to 11 percent faster than with a fixed K (abstract)."""
VERDICT = "measured, without a trained head: the draft's own probabilities decide"
C = 0.1
KS = (1, 2, 4, 6, 8, 16)
THRESHOLDS = (0.01, 0.03, 0.1, 0.3)
LARGEST_K = 16
COSTS = Costs(t_draft=C, t_target={1: 1.0, LARGEST_K + 1: 1.0})


def counted(rounds: Iterable[Round]) -> Row:
    """Returns tokens and drafted tokens a call, and the speed-up at these costs."""
    tokens = drafted = calls = 0
    for r in rounds:
        live = [row for row, is_live in enumerate(r.live) if is_live]
        calls += len(live)
        tokens += sum(len(r.emitted[row]) for row in live)
        drafted += sum(r.drafted(row) for row in live)
    return {"tokens": tokens / calls, "drafted": drafted / calls, "speed_up": tokens / (calls + C * drafted)}


def measure() -> Rows:
    """Runs every fixed K, every threshold, and the K that chooses itself."""
    pair = shipped()
    rows = [{"way": f"K = {k}"} | counted(run(pair, ModelDrafter(pair.draft), k)) for k in KS]
    for least in THRESHOLDS:
        drafter = StoppingDrafter(pair.draft, least)
        rows.append({"way": f"stops below {least}"} | counted(run(pair, drafter, LARGEST_K)))
    chooses = AdaptiveDrafter(ModelDrafter(pair.draft), COSTS, most=LARGEST_K)
    return [*rows, {"way": "K by past rounds"} | counted(run(pair, chooses, LARGEST_K))]


def show(rows: Rows) -> str:
    """Writes what each way drafts, emits and gains."""
    fixed = max((row for row in rows if row["way"].startswith("K =")), key=lambda row: row["speed_up"])
    stops = max((row for row in rows if row["way"].startswith("stops")), key=lambda row: row["speed_up"])
    cells = [
        (row["way"], f"{row['drafted']:.2f}", f"{row['tokens']:.2f}", times(row["speed_up"]))
        for row in rows
        if row in (fixed, stops) or row["way"] in ("K = 1", f"K = {LARGEST_K}", "K by past rounds")
    ]
    head = ("draft", "drafted a call", "tokens a call", "speed-up")
    return (
        f"The pair stories at temperature 1, with costs counted in target calls and c = {C}. The best of "
        f"{len(THRESHOLDS)} thresholds comes to {stops['speed_up'] / fixed['speed_up']:.2f} times the "
        f"best of {len(KS)} fixed K. What the draft finds improbable may be accepted: where the target "
        f"gives it as little. *K by past rounds* is `--k auto`.\n\n{table(head, cells, 1)}"
    )
