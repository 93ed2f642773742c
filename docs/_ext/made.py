"""One directive for what pages have from code: `` ```{made} NAME ARGUMENT… ``, a figure or a table.

Figures are the functions of `made_figures.py`, tables those of `made_tables.py`. A figure comes with its
caption, and the same in words under a line that opens. A table is Markdown, read as if it stood on the page.
"""

import html
from pathlib import Path

from book import handouts
from docutils import nodes
from made_figures import FIGURES, HANDOUTS
from made_tables import TABLES
from sphinx.util.docutils import SphinxDirective

DOTS = 110  # per inch of a handout, on the screen


class Made(SphinxDirective):
    """A figure or a table, by the name of its function."""

    required_arguments = 1
    optional_arguments = 8

    def run(self):
        """Draws it, or writes it."""
        name, *arguments = self.arguments
        make = (FIGURES | TABLES).get(name)
        if make is None:
            raise self.error(f"there is no {name!r}; there is {', '.join([*FIGURES, *TABLES])}")
        try:
            made = make(*arguments)
        except (TypeError, ValueError) as error:
            raise self.error(f"{name}: {error}") from None
        if name in TABLES:
            return self.parse_text_to_nodes(made, allow_section_headings=True)
        return [nodes.raw("", made if isinstance(made, str) else with_words(made), format="html")]


def with_words(picture):
    """Returns a figure, and its text twin under a line that opens."""
    return (
        f"{picture.html()}<details><summary>The figure in words</summary>"
        f'<pre tabindex="0" style="white-space:pre-wrap">{html.escape(picture.twin)}</pre></details>'
    )


def write_handouts(app, failed):
    """Writes the handouts, as pictures and as a PDF."""
    if failed or app.builder.format != "html":
        return
    folder = Path(app.outdir) / HANDOUTS
    folder.mkdir(parents=True, exist_ok=True)
    sheets = [handouts.sheet_of(page) for page in handouts.handouts()]
    for number, sheet in enumerate(sheets, 1):
        sheet.savefig(folder / f"{number:02d}.png", dpi=DOTS, metadata={"Software": None})
    handouts.write_handouts(folder / "handouts.pdf", sheets)


def setup(app):
    """Tells Sphinx of the directive."""
    app.add_directive("made", Made)
    app.connect("build-finished", write_handouts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
