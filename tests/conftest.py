"""What all tests share: Hypothesis profiles, a home folder of their own, a browser.

`MINISPEC_HYPOTHESIS=wide` draws far more instances, and other ones each time.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from minispec.native import library

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several workers share the cores. Two processes that each want all cores would take turns, slowly.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "docs")]  # so that tests can import `tiny`, and `book`

ONE_BY_ONE = "tests/notebooks/test_cells.py"


class ByFile(LoadScopeScheduling):
    """How xdist hands out tests: by file, because a file's tests share fixtures that train or build.

    Files with many tests go first, as xdist orders them, and single tests last, when they fill what time is
    left to either worker. Each notebook is such a test: they are long, and share nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file == ONE_BY_ONE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Whatever `--dist` says."""
    return ByFile(config, log)


def pytest_configure(config):
    """Gives the session, with all that it starts, a home of its own; `MINISPEC_HOME` names another."""
    if not os.environ.get("MINISPEC_HOME"):
        home = tempfile.TemporaryDirectory(prefix="minispec-tests-", ignore_cleanup_errors=True)
        os.environ["MINISPEC_HOME"] = home.name
        config.add_cleanup(home.cleanup)


settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("wide", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("MINISPEC_HYPOTHESIS", "ci"))


@pytest.fixture(scope="session")
def libraries():
    """The folder of native libraries; where there is a compiler, the session has built one in it."""
    folder = library.library_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # the other worker waits, and finds it built
        if library.will_be_built():
            library.build_library(library.find_compiler(), library.SOURCE, library.FLAGS)
    return folder


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
