"""The pictures of a round and of prefill show what the loop did, token by token and slot by slot."""

from collections import defaultdict
from pathlib import Path

import matplotlib
import pytest
import refresh_pictures

import minispec
from minispec.io.walkthrough import load_walkthrough, record_pair
from minispec.show.plots.paper import LABELS
from minispec.show.plots.pictures import draw_prefill, draw_round

DOCS = Path(refresh_pictures.__file__).parent


def rows(drawing):
    """Returns the texts of a picture right of its labels: a list a row, from above and from the left."""
    (axes,) = drawing.figure.axes
    found = defaultdict(list)
    for text in axes.texts:
        x, y = text.get_position()
        if text.get_text() and x > LABELS - 0.2:
            found[round(y, 2)].append((x, text.get_text()))
    return [[text for _, text in sorted(found[y])] for y in sorted(found, reverse=True)]


def run_of_four():
    """Returns a run of the shipped pair that drafts four tokens a round."""
    pair = minispec.load_pair("stories")
    return record_pair(pair, pair.walkthrough, "greedy", k=4, max_new_tokens=26)


@pytest.mark.parametrize("recorded", [run_of_four, load_walkthrough])
def test_a_round_is_drawn_as_the_loop_ran_it(recorded):
    """All rounds of a run but its last: words, signs, and which slots of each cache are cut."""
    run = recorded()
    kinds = set()
    for r in run.trace.rounds[:-1]:
        kinds.add(r.kind(0))
        text = words(run, run.trace.committed(0, r.index))
        drafted = words(run, r.draft.tokens[0].tolist())
        emitted = words(run, r.emitted[0])
        known = "=" if r.index else ""
        accepted = len(emitted) - 1
        drawn = rows(draw_round(run, r.index))
        assert drawn[:3] == [
            ["…", known + text[-2], "→" + text[-1]],
            [f"?{word}" for word in drafted],
            [text[-1], *drafted],
        ]
        assert drawn[4][: accepted + 1] == emitted and len(drawn[4]) == len(drafted) + 1
        kept = [f"✓{word}" for word in emitted[:-1]]
        before = ["…", known + text[-2], known + text[-1]]
        if r.kind(0) == "bonus":
            assert drawn[5:-3] == [[*kept, f"★{emitted[-1]}"]]
        else:
            untested = [f"○{word}" for word in drafted[accepted + 1 :]]
            assert drawn[5:-3] == [[*kept, f"✗{drafted[accepted]}", *untested], [f"↳{emitted[-1]}"]]
        assert drawn[-3] == [*before, *kept, f"→{emitted[-1]}"]
        for row, cache in zip(drawn[-2:], (r.target_cache, r.draft_cache), strict=True):
            cut = [f"⌫{word}" for word in [*text, *drafted][cache.after[0] : cache.verified[0]]]
            assert row[:-1] == [*before, *kept, *cut]
            assert len(text) + len(emitted) - 1 == cache.after[0]
    assert kinds == {"correction", "bonus"}


def words(run, ids):
    return [run.words[token].strip() for token in ids]


def test_prefill_is_drawn_as_it_was():
    """Both caches hold all of the prompt but its last token, which stands in one row alone."""
    recording = load_walkthrough("greedy")
    drawing = draw_prefill(recording)
    prompt = words(recording, recording.trace.prompts[0])
    read = [*prompt[:3], "…", *prompt[-4:-1]]
    assert [row for row in rows(drawing) if len(row) > 2] == [read, [*read, f"→{prompt[-1]}"], read]
    assert f"cache: {len(prompt) - 1} tokens" in "".join(
        text.get_text() for text in drawing.figure.axes[0].texts
    )


@pytest.mark.parametrize("name", ["round", "round-dark", "prefill", "prefill-dark"])
def test_the_files_are_the_pictures(name):
    """`docs/refresh_pictures.py` would write the same SVG; what is shown is small, and has its words."""
    committed = (DOCS / f"{name}.svg").read_bytes()
    if f"Matplotlib v{matplotlib.__version__}".encode() not in committed:
        pytest.skip("another version of matplotlib drew it")
    drawing = refresh_pictures.pictures()[name]
    assert drawing.svg() == committed
    assert max(len(committed), (DOCS / f"{name}.png").stat().st_size) < 150_000
    shown = drawing._repr_html_()
    assert len(shown) < 100_000 and 'alt="' in shown
