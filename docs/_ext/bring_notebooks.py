"""The notebooks in the book: copied from /notebooks, executed as they are committed.

They are read where they are by JupyterLab and by tests. Sphinx reads only what lies under docs, so they are
copied to docs/notebooks, which git ignores. Links to a notebook's file become links to its page. The list of
notebooks on docs/notebooks.md is made from what each says of itself in its first cell.
"""

import json
import re
import shutil
from pathlib import Path

from sphinx import addnodes
from sphinx.transforms import SphinxTransform

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def copy_notebooks(app, config):
    """Makes docs/notebooks equal to /notebooks; files keep their dates, so Sphinx reads what has changed."""
    folder = Path(app.srcdir) / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NOTEBOOKS, folder, ignore=other_files)


def other_files(folder, names):
    """Returns what in a folder is neither a notebook nor the folder of solutions."""
    return [name for name in names if not re.fullmatch(r"solutions|\d.*\.ipynb", name)]


def fill_list(app, docname, source):
    """Puts the list of notebooks in place of its comment, when Sphinx reads that page."""
    if docname == "notebooks":
        entries = [entry(path) for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))]
        source[0] = source[0].replace("<!-- notebooks -->", "\n".join(entries))


def entry(path):
    """Returns what the list says of one notebook: title, purpose, time, and where the file is."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    opening = "".join(cells[0]["source"])
    solution = f"notebooks/solutions/{path.stem[:2]}_solutions"
    files = f"{{download}}`the notebook <notebooks/{path.name}>`"
    if (NOTEBOOKS.parent / f"{solution}.ipynb").is_file():
        files += f", [solutions]({solution}.ipynb)"
    title = opening.splitlines()[0].removeprefix("# ")
    return (
        f"## [{title}](notebooks/{path.name})\n\n"
        f"**You will** {paragraph(opening, 'do')}\n\n**You will learn** {paragraph(opening, 'learn')}\n\n"
        f"**Time**: {paragraph(opening, 'Time')} **Files**: {files}.\n"
    )


def paragraph(opening, what):
    """Returns the paragraph that begins with **You'll do**, **You'll learn** or **Time**."""
    found = re.search(rf"^\*\*(?:You'll )?{what}\*\*: (.+?)(?:\n\n|\Z)", opening, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"a notebook does not say {what!r} in its first cell: {opening[:40]!r}")
    return " ".join(found[1].split())


class LinksToNotebooks(SphinxTransform):
    """A link to /notebooks/x.ipynb, which a person on a code host can follow, leads to the page here."""

    default_priority = 5

    def apply(self, **kwargs):
        # MyST takes the file for a page of the book, outside docs, and names it by its full path.
        for link in self.document.findall(addnodes.pending_xref):
            path = Path(link.get("reftarget", ""))
            if link.get("refdomain") == "doc" and path.is_relative_to(NOTEBOOKS):
                link["reftarget"] = f"notebooks/{path.relative_to(NOTEBOOKS).as_posix()}"


def setup(app):
    app.connect("config-inited", copy_notebooks, priority=100)
    app.connect("source-read", fill_list)
    app.add_transform(LinksToNotebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
