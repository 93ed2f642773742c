"""Masks: against the model's own attention, and what each row is for; trees with theirs."""

import pytest
import torch
from figures import readable
from tiny import gpt_pair

from minispec.core.model import Tree
from minispec.show.plots.masks import NEW, attention_mask, mask_rows, tree_mask, tree_shapes
from minispec.show.signs import STATES

PARENTS, WORDS = [0, 0, 1, 2, 3, 4], [" the", " mat", " floor", ".", ".", " Pip", " Pip"]


def test_rows_by_hand():
    """Two cached keys and K = 1: each query sees the cache and itself, the second one the first as well."""
    rows = mask_rows(2, 1)
    assert rows == [[True, True, True, False], [True, True, True, True]]


@torch.inference_mode()
def test_a_row_changes_only_with_what_it_sees():
    """Changing one token of a tiny model's input changes just the outputs whose row sees that key."""
    model, _ = gpt_pair()
    cached, k = 3, 4
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    base = model(tokens)[0, cached:]  # [K+1, V]
    rows = mask_rows(cached, k)
    for key in range(cached + k + 1):
        other = tokens.clone()
        other[0, key] = (other[0, key] + 1) % model.vocab_size
        changed = (model(other)[0, cached:] - base).abs().amax(-1) > 1e-9
        assert changed.tolist() == [row[key] for row in rows]


@pytest.mark.parametrize(
    ("cached", "k", "words"),
    [(43, 5, [" cat", " sat", " on", " the", " mat", "."]), (0, 0, None), (5, 1, None), (6, 2, None)],
)
def test_the_figure_says_what_each_row_judges(cached, k, words):
    """K + 1 rows: all but the last name the token they judge, the last one the bonus; readable."""
    picture = attention_mask(cached, k, words)
    readable(picture)
    texts = [text.get_text() for text in picture.figure.axes[0].texts]
    said = [text for text in texts if text.startswith(("judges ", "gives "))]
    names = [word.removeprefix(" ") for word in words[1:]] if words else [f"draft {i + 1}" for i in range(k)]
    assert said == [f"judges {name}" for name in names] + ["gives the bonus"]
    assert texts.count("●") == (k + 1) * (k + 2) // 2 + 1  # and one in the key
    assert (cached > 5) == ("…" in texts)
    assert ("1 distribution" if k == 0 else f"{k + 1} distributions") in picture.caption


def ends_of(axes):
    """Returns the lines that join two tokens: where each begins, where it ends."""
    return [
        ((line.get_xdata()[0], line.get_ydata()[0]), (line.get_xdata()[1], line.get_ydata()[1]))
        for line in axes.lines
        if line.get_linestyle() == "-"
    ]


def test_lines_of_the_mask_are_what_a_forward_uses():
    """The twin has a line a token: what it sees, its position, and itself; siblings share a position."""
    picture = tree_mask(PARENTS, WORDS, first=46)
    readable(picture)
    lines = picture.twin.splitlines()[2:]
    tree = Tree.after(torch.tensor([46]), torch.tensor([PARENTS]))
    for i, line in enumerate(lines):
        signs, position, _, number, _ = line.split()
        assert [sign == NEW.glyph for sign in signs] == tree.mask[0, i].tolist()
        assert int(position) == tree.positions[0, i] and int(number) == i
    assert [line.split()[1] for line in lines] == ["46", "47", "47", "48", "48", "49", "49"]
    (axes,) = picture.figure.axes
    assert sum(text.get_text() == NEW.glyph for text in axes.texts) == int(tree.mask.sum()) + 1  # and the key


def test_each_token_is_joined_to_its_parent():
    """A line for each, from the parent's line and column, in the mask's figure and in the shapes'."""
    (axes,) = tree_mask(PARENTS, WORDS).figure.axes
    heights = sorted({y for ends in ends_of(axes) for _, y in ends}, reverse=True)
    assert [(heights.index(a[1]), heights.index(b[1])) for a, b in ends_of(axes)] == [
        (parent, i) for i, parent in enumerate(PARENTS, 1)
    ]
    (axes,) = tree_shapes({"one": [0, 0, 1, 2, 2]}).figure.axes
    assert ends_of(axes) == [
        ((0, 0), (1, 0)),
        ((0, 0), (1, -1)),
        ((1, 0), (2, 0)),
        ((1, -1), (2, -1)),
        ((1, -1), (2, -2)),
    ]
    markers = {line.get_marker(): len(line.get_xdata()) for line in axes.lines if line.get_linestyle() != "-"}
    assert markers == {STATES["pending"].marker: 1, STATES["drafted"].marker: 5}


def test_two_shapes_stand_side_by_side():
    """Each under its name, with its depths; words and twin say the same."""
    picture = tree_shapes({"sure": [0, 1, 2, 3], "in doubt": [0, 0, 1, 1]})
    readable(picture)
    assert [axes.get_title() for axes in picture.figure.axes] == ["sure", "in doubt"]
    assert picture.title == "The best tree of 4 tokens: 4 deep, or 2 deep"
    assert picture.twin.splitlines()[1:] == ["sure: parents 0 1 2 3", "in doubt: parents 0 0 1 1"]
