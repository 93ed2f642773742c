"""Masks: against the model's own attention, and what each row is for; trees with theirs."""

import torch
from tiny import gpt_pair

from minispec.core.model import Tree
from minispec.show.plots.masks import NEW, mask_rows, tree_mask

PARENTS, WORDS = [0, 0, 1, 2, 3, 4], [" the", " mat", " floor", ".", ".", " Pip", " Pip"]


@torch.inference_mode()
def test_a_row_changes_only_with_what_it_sees():
    """Changing one token of a tiny model's input changes just the outputs whose row sees that key."""
    model, _ = gpt_pair()
    cached = 3
    k = 4
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    base = model(tokens)[0, cached:]  # [K+1, V]
    rows = mask_rows(cached, k)
    for key in range(cached + k + 1):
        other = tokens.clone()
        other[0, key] = (other[0, key] + 1) % model.vocab_size
        changed = (model(other)[0, cached:] - base).abs().amax(-1) > 1e-9
        assert changed.tolist() == [row[key] for row in rows]


def ends_of(axes):
    """Returns the lines that join two tokens: where each begins, where it ends."""
    return [
        ((line.get_xdata()[0], line.get_ydata()[0]), (line.get_xdata()[1], line.get_ydata()[1]))
        for line in axes.lines
        if line.get_linestyle() == "-"
    ]


def test_each_token_is_joined_to_its_parent():
    """A line for each, from the parent's line to its own, left of the mask that a forward uses."""
    picture = tree_mask(PARENTS, WORDS, first=46)
    (axes,) = picture.figure.axes
    heights = sorted({y for ends in ends_of(axes) for _, y in ends}, reverse=True)
    assert [(heights.index(a[1]), heights.index(b[1])) for a, b in ends_of(axes)] == [
        (parent, i) for i, parent in enumerate(PARENTS, 1)
    ]
    tree = Tree.after(torch.tensor([46]), torch.tensor([PARENTS]))
    for i, line in enumerate(picture.twin.splitlines()[2:]):
        signs, position, _, number, _ = line.split()
        assert [sign == NEW.glyph for sign in signs] == tree.mask[0, i].tolist()
        assert int(position) == tree.positions[0, i] and int(number) == i
