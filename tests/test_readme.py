"""The README: what it shows can be run."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_python_blocks_run(capsys):
    """Every Python block of the README runs as it stands and prints text."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_tree_names_real_files():
    """Every file of the annotated tree exists, and every module of the package stands in the tree."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^    (\w+\.py) ", text, re.MULTILINE))
    real = {
        path.name
        for room in ("lm", "decoding", "evidence", "show")
        for path in (ROOT / "minispec" / room).glob("*.py")
        if path.name != "__init__.py"
    }
    assert listed == real
