"""What the tests of the native backend share."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def built(libraries):
    """The library is there before a test has a home of its own or watches the clock."""


@pytest.fixture
def two_threads():
    """Within the test torch, and so a forward, may use two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
