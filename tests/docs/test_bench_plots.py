"""Figures of a bench's report: every bar and point is a number of the report, and the words agree."""

from book.bench_plots import every_prediction, speeds_of, tokens_per_second
from book.reports import saved_reports

from minispec.show.plots.charts import LOSS

SECTIONS = saved_reports(["stories"])[0]["sections"]


def test_bars_are_tokens_per_second_from_slow_to_fast():
    """Bars in order, those with a draft hatched, and the caption names the fastest and by how much."""
    speeds = speeds_of({"sections": SECTIONS})
    picture = tokens_per_second(speeds)
    (axes,) = picture.figure.axes
    bars = sorted((bar.get_y(), bar.get_width(), bool(bar.get_hatch())) for bar in axes.patches)
    wanted = sorted((speed.rate, speed.speculative) for speed in speeds)
    assert [bar[1:] for bar in bars] == wanted
    slow, *_, fast = sorted(speeds, key=lambda speed: speed.rate)
    assert f"{fast.name[1:]} writes {fast.rate:.0f} tokens a second" in picture.caption
    assert f" {fast.rate / slow.rate:.1f} times {slow.name}." in picture.caption


def test_speeds_are_found_in_a_report():
    """The best number of threads of each backend counts; greedy texts only; transformers where measured."""
    rows = [row for row in SECTIONS["target-only"]["rows"] if row["verifier"] == "greedy"]
    alone = [
        (f"{backend}, alone", max(row["target_only"] for row in rows if row["path"] == backend), False)
        for backend in ("torch", "native")
    ]
    drafted = [
        (f"{row['path']}, K = {row['k']}", row["tokens_per_second"], True)
        for row in SECTIONS["widths"]["backends"]["rows"]
        if row["verifier"] == "greedy"
    ]
    rates = SECTIONS["transformers"]["tokens_per_second"]
    plain = ("transformers, plain", rates["theirs plain"], False)
    assisted = ("transformers, assisted", rates["theirs assisted"], True)
    assert speeds_of({"sections": SECTIONS}) == [*alone, *drafted, plain, assisted]
    assert speeds_of({"sections": {"target-only": SECTIONS["target-only"]}}) == alone


def test_predictions_stand_against_what_was_measured():
    """A point per setting at (predicted, measured), and losses lie in the hatched part below 1."""
    rows = SECTIONS["prediction"]["compared"]["rows"]
    picture = every_prediction(rows)
    (axes,) = picture.figure.axes
    lines = [line for line in axes.lines if line.get_linestyle() == "None"]
    points = [tuple(spot) for line in lines for spot in line.get_xydata()]
    assert set(points) >= {(row["predicted"], row["measured"]) for row in rows}
    ends = {round(y, 9) for bars in axes.collections for path in bars.get_paths() for _, y in path.vertices}
    assert ends == {round(row[key], 9) for row in rows for key in ("low", "high")}
    (loss,) = (patch for patch in axes.patches if patch.get_hatch() == LOSS.hatch)
    assert loss.get_y() + loss.get_height() == 1
    worst = max(abs(row["predicted"] / row["measured"] - 1) for row in rows)
    assert f"{worst:.0%} at worst" in picture.caption and f"{len(rows)} predictions" in picture.caption
