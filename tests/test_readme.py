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
    """Every file of the annotated tree exists, and all of the model and the method stand in it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^    (\w+\.py) ", text, re.MULTILINE))
    modules = {
        room: {path.name for path in (ROOT / "minispec" / room).glob("*.py")} - {"__init__.py"}
        for room in ("lm", "decoding", "evidence", "show")
    }
    assert listed <= set.union(*modules.values())
    assert modules["lm"] | modules["decoding"] <= listed


def test_every_notebook_is_listed():
    """The table of notebooks names each of them, in order, and links to it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(notebooks/(\w+\.ipynb)\)", text)
    assert linked == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
