"""A tiny pair for all tests of the command line; none of them changes it."""

import pytest
from pairs import build_pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Returns the folder of a pair of random models."""
    return build_pair(tmp_path_factory.mktemp("pairs") / "tiny")
