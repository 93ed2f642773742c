"""What every figure draws and says, for data by hand: `pictures.txt` has all of it, to be read and compared.

`PYTHONPATH=.:tests:docs python tests/show/plots/test_pictures.py` writes it anew after a change.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from figures import WORDS, by_hand, readable
from gallery import P, Q
from matplotlib.colors import to_hex
from matplotlib.text import Text

from minispec.core.records import Draft
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.bench.measurements import BatchPoint, DraftPoint, KillRow, Latency, SpeedPoint
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.show.plots.caches import (
    MOMENTS,
    cache_grid,
    recomputation,
    steps_with_cache,
    steps_without_cache,
)
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.distributions import rule_distribution, sampled_shares
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.kill_matrix import kill_matrix
from minispec.show.plots.learning import learning
from minispec.show.plots.masks import attention_mask, tree_mask, tree_shapes
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import (
    batch_sweep,
    bytes_against_arithmetic,
    draft_sweep,
    gain_by_k,
    gain_by_rows,
    latency,
    predicted_measured,
    speed_up_curves,
)
from minispec.show.plots.timeline import WorkTimes, row_slots, timeline
from minispec.show.plots.verification import along_the_text, positions_of, verification_strip
from minispec.show.signs import STATES
from minispec.train.training import Progress

EXPECTED = Path(__file__).with_name("pictures.txt")
COLOURS = {state.colour.lower(): name for name, state in STATES.items()}
CORRECTED = by_hand([0, 1, 3], ([5, 6, 7], 1, 8))
BONUS = by_hand([0, 3], ([5], 0, 8), ([5, 6], 2, 7))
ALONE = by_hand([0, 1, 3], ([5, 6], 1, 7), draft_cache=False)
LONG = by_hand([0] * 20 + [3], ([5], 1, 9))
RUN = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4), ([], 0, 7), ([9, 10, 7], 3, 8, 2))
PLAYS = {
    "correction": ([5, 6, 7], 1, 8),
    "rejected at once": ([5, 6, 7], 0, 8),
    "bonus": ([5, 6], 2, 8),
    "text ends": ([5, 10, 7], 3, 8, 2),
    "no draft": ([], 0, 8),
}
FORWARDS = [
    Latency("big", 1, 0.002, 0.0019, 0.0022),
    Latency("big", 4, 0.003, 0.0029, 0.0031),
    Latency("small", 1, 0.0002, 0.0001, 0.0003),
    Latency("small", 4, 0.0004, 0.0003, 0.0005),
]
DEAR = [Latency("m", 1, 1e-3, 1e-3, 1e-3), Latency("m", 5, 4.5e-3, 4.4e-3, 4.6e-3)]
SPEEDS = [
    SpeedPoint(1, 0.8, 0.1, 1.4, 1.3, 1.5, 1.6, 1.4),
    SpeedPoint(4, 0.78, 0.1, 2.0, 1.9, 2.2, 3.0, 1.8),
]
LOSING = [SpeedPoint(1, 0.1, 0.5, 0.8, 0.7, 0.9, 0.7, 0.75)]
DRAFTS = [
    DraftPoint("large", 900_000, 0.9, 0.8, 1, 0.9, 0.85, 0.95),
    DraftPoint("small", 1_000, 0.5, 0.05, 2, 1.2, 1.1, 1.3),
    DraftPoint("middle", 50_000, 0.8, 0.1, 4, 1.9, 1.8, 2.0),
]
BATCHES = [BatchPoint(8, 800.0, 600.0, 0.75, 0.7, 0.8), BatchPoint(1, 100.0, 180.0, 1.8, 1.7, 1.9)]
MACHINE = Hardware("a machine", 1e12, 100e12)
KILLS = [
    KillRow("one", "verify", "biased", "", "x.!"),
    KillRow("two", "draft", "slower", "", "..x"),
    KillRow("three", "verify", "biased", "", "x.."),
]
FROM_P = FirstToken((2 / 12, 2 / 12, 2 / 12), (3 / 12, 2 / 12, 1 / 12))
COUNTS = {
    "Rule 1": (10_000, 0, 0),
    "Rule 2": (5_040, 3_310, 1_650),
    "Rule 3": (4_170, 3_330, 2_500),
    "Rule 4": (4_980, 3_350, 1_670),
    "Rule 5": (4_600, 3_500, 1_900),
}
FOUND = [Found(" took", 0, 0, 0), Found(" wood", 2, 3, 0), Found(".", 3, 5, 2), Found(" Pip", 12, 8, 8)]
LIVE = [
    Progress("target", 10, 30, 4.0, 1.0, 3.9),
    Progress("target", 20, 30, 3.0, 2.0),
    Progress("target", 30, 30, 2.0, 3.0, 0.7),
    Progress("draft-plain", 20, 20, 2.0, 3.0, 0.9),
    Progress("draft", 10, 10, 0.1, 3.0, 0.8),
]
RECORDED = [Progress("target", 900, 900, 0.4, 60.0, 0.4), Progress("draft", 500, 500, 0.1, 9.0, 0.5)]
TURNS = [[0, 1], [0, None], [0, None], [2, 10], [None, 10]]
REFILLED = [[0, 1], [0, 10], [0, 10], [2, None]]
PARENTS = [0, 0, 1, 2, 3, 4]
TREE = [" the", " mat", " floor", ".", ".", " Pip", " Pip"]
MANY = [2.0**-i for i in range(1, 12)] + [2.0**-11]


def unequal():
    """Returns a round whose p and q are not uniform, and in which the target is certain of nothing."""
    (r,) = CORRECTED.rounds
    weights = torch.arange(1.0, 45.0).reshape(1, 4, 11)
    q = (weights**2)[:, :3]
    draft = Draft(r.draft.tokens, q / q.sum(-1, keepdim=True))
    return r.__class__(**vars(r) | {"draft": draft, "target_probs": weights / weights.sum(-1, keepdim=True)})


def certain():
    """Returns the same round at temperature 0."""
    (r,) = CORRECTED.rounds
    p = torch.nn.functional.one_hot(torch.tensor([[5, 8, 0, 1]]), 11).float()
    draft = Draft(r.draft.tokens, torch.nn.functional.one_hot(r.draft.tokens, 11).float())
    return r.__class__(**vars(r) | {"draft": draft, "target_probs": p})


def costs(*tokens):
    return [forward_cost(7e9, 2, MACHINE, n) for n in tokens]


PICTURES = {
    "all moments": lambda: cache_grid(BONUS, WORDS, 1),
    **{moment: partial(cache_grid, CORRECTED, WORDS, 0, [moment]) for moment in MOMENTS},
    "without catch-up": lambda: cache_grid(CORRECTED, WORDS),
    "cut": lambda: cache_grid(by_hand([0, 3], PLAYS["text ends"]), WORDS, 0, ["verified", "rolled back"]),
    "nothing rejected": lambda: cache_grid(LONG, WORDS, 0, ["verified", "rolled back"]),
    "no draft's cache": lambda: cache_grid(ALONE, WORDS, 0, ["before", "drafted"]),
    **{play: partial(verification_strip, by_hand([0, 1], PLAYS[play]).rounds[0], WORDS) for play in PLAYS},
    "drawn": lambda: verification_strip(unequal(), WORDS, [None, 0.7, 0.1]),
    "certain": lambda: verification_strip(certain(), WORDS),
    "along": lambda: along_the_text(positions_of(RUN, WORDS)),
    "coloured": lambda: coloured_text(RUN, WORDS),
    "timeline": lambda: timeline(RUN, WORDS, tokens=99),
    "other times": lambda: timeline(RUN, WORDS, WorkTimes(2.0, 0.25, 1.5), tokens=3),
    "rows": lambda: row_slots({"in turns": TURNS, "refilled": REFILLED}),
    "mask": lambda: attention_mask(43, 5, [" cat", " sat", " on", " the", " mat", "."]),
    "mask of five": lambda: attention_mask(5, 1, ["pending", "drafted"]),
    "mask of none": lambda: attention_mask(0, 0, ["pending"]),
    "tree": lambda: tree_mask(PARENTS, TREE, first=46),
    "shapes": lambda: tree_shapes({"sure": [0, 1, 2, 3], "in doubt": [0, 0, 1, 1]}),
    "draft": lambda: draft_bars(unequal(), WORDS),
    "certain draft": lambda: draft_bars(certain(), WORDS),
    "seven guesses": lambda: draft_bars(by_hand([0], ([1, 2, 3, 4, 5, 6, 7], 7, 0)).rounds[0], WORDS),
    "growth": lambda: draft_growth(FOUND, 8),
    "overlap": lambda: overlap(P, Q, "abc"),
    "overlap of c": lambda: overlap(P, Q, "abc", drawn=2, number=0.2),
    "overlap of c, rejected": lambda: overlap(P, Q, "abc", drawn=2, number=0.3),
    "overlap of a": lambda: overlap(P, Q, "abc", drawn=0),
    "overlap of equals": lambda: overlap(P, P, "abc"),
    "overlap of equals, drawn": lambda: overlap(P, P, "abc", drawn=1),
    "overlap with others": lambda: overlap(MANY, MANY[::-1], [f" {i}" for i in range(12)], drawn=6),
    "rule 3": lambda: rule_distribution(FROM_P, P, "abc", guess=(0.25, 0.5, 0.25), q=Q, name="Rule 3"),
    "right rule": lambda: rule_distribution(first_token(verify_rejection, P, Q), P, "abc"),
    "constant rule": lambda: rule_distribution(first_token(verify_greedy, P, Q), P, "abc"),
    "shares": lambda: sampled_shares(COUNTS, P, "abc"),
    "shares of one": lambda: sampled_shares({"Rule 3": COUNTS["Rule 3"]}, P, "abc"),
    "latency": lambda: latency(FORWARDS, at=5),
    "guessed latency": lambda: latency(FORWARDS, guess=30),
    "dear latency": lambda: latency(DEAR),
    "bytes": lambda: bytes_against_arithmetic(costs(1, 5, 200), MACHINE, "it"),
    "nothing cheap": lambda: bytes_against_arithmetic(costs(1, 100, 300), MACHINE),
    "curves": lambda: speed_up_curves([0.9, 0.5], 0.1, SPEEDS, most=8),
    "curves alone": lambda: speed_up_curves([0.5, 0.7, 0.75, 0.8, 0.95], 0.09),
    "gains": lambda: gain_by_k(SPEEDS[::-1], assumed=0.3),
    "losses": lambda: gain_by_k(LOSING, assumed=0.1),
    "predicted": lambda: predicted_measured(SPEEDS),
    "drafts": lambda: draft_sweep(DRAFTS, guess="large"),
    "two drafts": lambda: draft_sweep(DRAFTS[1:]),
    "batches": lambda: batch_sweep(BATCHES),
    "contexts": lambda: gain_by_rows({4096: [(1, 2.0), (64, 1.25)], 64: [(1, 2.5), (64, 0.5)]}, k=3),
    "contexts that lose": lambda: gain_by_rows({64: [(1, 2.0), (2, 0.5)], 128: [(1, 1.5), (2, 0.75)]}, k=1),
    "one batch": lambda: batch_sweep(BATCHES[1:]),
    "kills": lambda: kill_matrix(KILLS, ["alpha", "beta", "gamma"], other_checks=["gamma"]),
    "one check": lambda: kill_matrix(KILLS[::2], ["alpha"]),
    "learning": lambda: learning(LIVE, RECORDED, 0.37, guess=0.0),
    "learned": lambda: learning(LIVE[1:2], RECORDED, 0.37),
    "recomputation": lambda: recomputation(steps_without_cache(3, 4), steps_with_cache(3, 4), 200),
    "no guess": lambda: recomputation(steps_without_cache(3, 4), steps_with_cache(3, 4)),
}


def numbers(*values):
    return " ".join(f"{value:.3g}" for value in values)


def look_of(artist, colour):
    return (
        f"{COLOURS.get(to_hex(colour), to_hex(colour))} {getattr(artist, 'get_hatch', str)() or ''}".strip()
    )


def area_of(patch, axes):
    """Returns the colour of an area, and where a bar of a chart begins and ends."""
    look = look_of(patch, patch.get_facecolor())
    return f"{look} {numbers(*patch.get_bbox().extents)}" if axes.axison else look


def text_of(name):
    """Returns what a picture says and draws, as lines; of pages without axes, no places."""
    picture = PICTURES[name]()
    readable(picture)
    texts = [text.get_text() for text in picture.figure.findobj(Text) if text.get_visible()]
    drawn = {"texts": [text.replace("\n", " ") for text in texts if text.strip()]}
    for i, axes in enumerate(picture.figure.axes):
        drawn[f"from, to {i}"] = [numbers(*axes.get_xlim()), numbers(*axes.get_ylim())] * axes.axison
        drawn[f"areas {i}"] = [area_of(patch, axes) for patch in axes.patches]
        for j, line in enumerate(axes.lines):
            points = [numbers(*point) for point in line.get_xydata() if axes.axison]
            drawn[f"line {i}.{j}"] = [f"{look_of(line, line.get_color())} {line.get_marker()}", *points]
        for j, collection in enumerate(axes.collections):
            points = [point for path in collection.get_paths() for point in path.vertices]
            drawn[f"lines {i}.{j}"] = [numbers(*point) for point in points]
    lines = [f"## {name}", picture.alt, picture.caption, picture.twin]
    lines += [f"{kind}: {' | '.join(values)}" for kind, values in drawn.items() if values]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


@pytest.mark.parametrize("name", PICTURES)
def test_figures_show_and_say_what_they_are_given(name):
    """Texts, areas, points, the key, and the words for others; and all of it can be read."""
    assert text_of(name) in EXPECTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    EXPECTED.write_text("".join(map(text_of, PICTURES)), encoding="utf-8")
