"""One directive for what pages have from code: `` ```{made} NAME ARGUMENT… ``, a figure or a table.

Figures are the functions of `made_figures.py`, tables those of `made_tables.py`. A figure comes with its
caption, and the same in words under a line that opens. A table is Markdown, read as if it stood on the page.
"""

from __future__ import annotations

import html
from pathlib import Path

from book import handouts
from docutils import nodes
from made_figures import FIGURES, HANDOUTS
from made_tables import TABLES
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import minispec
from minispec.show.plots.style import Picture

DOTS = 110  # per inch of a handout, on the screen


class Made(SphinxDirective):
    """A figure or a table, by the name of its function."""

    required_arguments = 1
    optional_arguments = 8

    def run(self) -> list[nodes.Node]:
        """Draws it, or writes it."""
        name, *arguments = self.arguments
        if name not in FIGURES and name not in TABLES:
            raise self.error(f"there is no {name!r}; there is {', '.join([*FIGURES, *TABLES])}")
        try:
            if name in TABLES:
                return self.parse_text_to_nodes(TABLES[name](*arguments), allow_section_headings=True)
            drawn = FIGURES[name](*arguments)
        except (TypeError, ValueError) as error:
            raise self.error(f"{name}: {error}") from None
        shown = drawn if isinstance(drawn, str) else with_words(drawn)
        return [nodes.raw("", shown, format="html")]


def with_words(picture: Picture) -> str:
    """Returns a figure, and its text twin under a line that opens."""
    return (
        f"{picture.html()}<details><summary>The figure in words</summary>"
        f'<pre tabindex="0" style="white-space:pre-wrap">{html.escape(picture.twin)}</pre></details>'
    )


def write_handouts(app: Sphinx, failed: Exception | None) -> None:
    """Writes the handouts and their PDF, unless they are newer than all that draws them."""
    if failed or app.builder.format != "html":
        return
    folder = Path(app.outdir) / HANDOUTS
    pdf = folder / "handouts.pdf"
    sources = (Path(minispec.__file__).parent, Path(handouts.__file__).parent)
    files = (path for source in sources for path in source.rglob("*") if path.suffix in (".py", ".json"))
    changed = max(path.stat().st_mtime for path in files)
    if pdf.is_file() and pdf.stat().st_mtime > changed:
        return
    folder.mkdir(parents=True, exist_ok=True)
    pages = handouts.handouts()
    for number, page in enumerate(pages, 1):
        handouts.sheet_of(page).savefig(folder / f"{number:02d}.png", dpi=DOTS, metadata={"Software": None})
    handouts.write_handouts(pdf, pages)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directive."""
    app.add_directive("made", Made)
    app.connect("build-finished", write_handouts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
