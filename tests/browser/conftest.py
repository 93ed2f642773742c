"""A browser for tests, where there is one: Debian's chromium, driven by playwright."""

import shutil

import pytest
from lab_page import jupyterlab

from minispec.cli.lab import copy_notebooks, find_notebooks


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; tests are skipped where it, or playwright, is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("there is no Chromium on the path")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A JupyterLab with a student's copy of the notebooks."""
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("mine")
    copy_notebooks(folder, find_notebooks())
    with jupyterlab(folder, tmp_path_factory.mktemp("scratch")) as running:
        yield running
