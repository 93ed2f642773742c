"""What the tests of the book share: the modules that build it can be imported."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "docs" / "_ext"), str(ROOT / "notebooks")]
