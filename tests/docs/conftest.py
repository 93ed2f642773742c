"""What the tests of the book share: the modules that build it can be imported."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs" / "_ext")]
