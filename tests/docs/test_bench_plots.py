"""Figures of a bench's report: every bar and point is a number of the report, and the words agree."""

from book.bench_plots import Speed, every_prediction, speeds_of, tokens_per_second

from minispec.show.plots.charts import LOSS

RATES = [
    Speed("torch, alone", 380, False),
    Speed("native, alone", 820, False),
    Speed("torch, K = 8", 900, True),
    Speed("native, K = 8", 1900, True),
    Speed("transformers, plain", 210, False),
    Speed("transformers, assisted", 390, True),
]
SETTINGS = (
    ("widths", "every K", 1.4, 1.45),
    ("widths", "K = 4", 2.1, 2.02),
    ("widths", "K = 8", 2.4, 2.5),
    ("temperature", "T = 0.5", 2.3, 2.2),
    ("drafts", "untrained", 0.6, 0.62),
    ("drafts", "1×64", 2.2, 2.3),
)
COLUMNS = ("section", "setting", "predicted", "measured", "low", "high")
PREDICTIONS = [dict(zip(COLUMNS, (*row, row[-1] - 0.1, row[-1] + 0.12), strict=True)) for row in SETTINGS]


def test_bars_are_tokens_per_second_from_slow_to_fast():
    """Bars in order, those with a draft hatched, and the caption names the fastest and by how much."""
    picture = tokens_per_second(RATES)
    (axes,) = picture.figure.axes
    bars = sorted((bar.get_y(), bar.get_width(), bool(bar.get_hatch())) for bar in axes.patches)
    wanted = sorted((rate.rate, rate.speculative) for rate in RATES)
    assert [bar[1:] for bar in bars] == wanted
    assert "Native, K = 8 writes 1900 tokens a second, 9.0 times transformers, plain." in picture.caption


def test_speeds_are_found_in_a_report():
    """The best number of threads of each backend counts; greedy texts only; transformers where measured."""
    alone = [("torch", 1, 300.0), ("torch", 2, 350.0), ("native", 1, 500.0)]
    rows = [
        {"path": p, "threads": n, "verifier": v, "target_only": rate + (v == "rejection")}
        for v in ("greedy", "rejection")
        for p, n, rate in alone
    ]
    fast = {"path": "native", "verifier": "greedy", "k": 6, "tokens_per_second": 900.0}
    sections = {
        "target-only": {"rows": rows},
        "widths": {"backends": {"rows": [fast, fast | {"verifier": "rejection"}]}},
    }
    assert speeds_of({"sections": sections}) == [
        Speed("torch, alone", 350.0, False),
        Speed("native, alone", 500.0, False),
        Speed("native, K = 6", 900.0, True),
    ]
    rates = {"theirs plain": 200.0, "theirs assisted": 380.0, "ours": 1}
    sections["transformers"] = {"tokens_per_second": rates}
    theirs = [Speed("transformers, plain", 200.0, False), Speed("transformers, assisted", 380.0, True)]
    assert speeds_of({"sections": sections})[3:] == theirs


def test_predictions_stand_against_what_was_measured():
    """A point per setting at (predicted, measured), and losses lie in the hatched part below 1."""
    picture = every_prediction(PREDICTIONS)
    (axes,) = picture.figure.axes
    points = [
        tuple(spot) for line in axes.lines if line.get_linestyle() == "None" for spot in line.get_xydata()
    ]
    assert set(points) >= {(row["predicted"], row["measured"]) for row in PREDICTIONS}
    (loss,) = (patch for patch in axes.patches if patch.get_hatch() == LOSS.hatch)
    assert loss.get_y() + loss.get_height() == 1
    off = sorted(abs(row["predicted"] / row["measured"] - 1) for row in PREDICTIONS)
    assert f"{off[-1]:.0%} at worst" in picture.caption and f"{len(off)} predictions" in picture.caption
