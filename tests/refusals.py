"""What is refused is refused in one line."""

from contextlib import contextmanager

import pytest


@contextmanager
def refused(says, names=""):
    """Asserts a ValueError of one line that says something, as a pattern, and names a path, as it is."""
    with pytest.raises(ValueError, match=says or None) as caught:
        yield caught
    assert "\n" not in str(caught.value) and str(names) in str(caught.value)
