"""What all tests share: Hypothesis profiles, a home folder of their own, a browser.

`MINISPEC_HYPOTHESIS=wide` draws far more instances, and other ones each time.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several workers share the cores. Two processes that each want all cores would take turns, slowly.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "docs")]  # so that tests can import `tiny`, and `book`

# The files that take longest, longest first: begun last, one of them would run alone at the end.
LONGEST = (
    "tests/test_main_job.py",
    "tests/evidence/proof/test_sampling.py",
    "tests/test_shipped_pair.py",
    "tests/evidence/zoo/test_zoo.py",
    "tests/evidence/checker/test_check.py",
    "tests/notebooks/test_claims.py",
    "tests/train/test_training.py",
    "notebooks/10_measure_it.ipynb",
    "notebooks/03_train_two_models.ipynb",
)


def pytest_collection_modifyitems(items):
    """Puts the longest files first; the others keep their order."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONGEST)))


settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("wide", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("MINISPEC_HYPOTHESIS", "ci"))


@pytest.fixture
def minispec_home(tmp_path, monkeypatch):
    """An empty folder in which minispec keeps what it trains."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("MINISPEC_HOME", str(home))
    return home


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
