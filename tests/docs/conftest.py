"""What the tests of the site share: where it lies, and the modules that build it."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "docs" / "_build" / "html"


@pytest.fixture(scope="session")
def vendor():
    """The module that fetches MathJax and axe-core; tests are skipped where Sphinx is missing."""
    pytest.importorskip("sphinx")
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        return importlib.import_module("vendor")
    finally:
        sys.path.pop(0)
