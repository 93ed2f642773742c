"""A JupyterLab for tests that have a browser."""

import pytest
from lab_page import jupyterlab

from minispec.cli.lab import copy_notebooks, find_notebooks


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A JupyterLab with a student's copy of the notebooks."""
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("mine")
    copy_notebooks(folder, find_notebooks())
    with jupyterlab(folder, tmp_path_factory.mktemp("scratch")) as running:
        yield running
