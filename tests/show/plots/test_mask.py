"""The mask of a verification: against the model's own attention, and what each row is for."""

import pytest
import torch
from figures import readable
from tiny import gpt_pair

from minispec.show.plots.mask import attention_mask, mask_rows


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
