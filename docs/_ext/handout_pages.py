"""A directive that shows the handouts page by page, and the PDF of all of them beside it.

Both are drawn at build from the recorded runs. What a page says is said again in words, under a line that
opens.
"""

import html
from pathlib import Path

from book import handouts
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import minispec

FOLDER = "_static/handouts"
DOTS = 110  # per inch, on the screen


class HandoutsDirective(SphinxDirective):
    """All handouts below each other; on paper, one a page."""

    def run(self):
        up = "../" * self.env.docname.count("/")
        parts = [HEAD.format(pdf=f"{up}{FOLDER}/handouts.pdf")]
        for number, page in enumerate(handouts.handouts(), 1):
            alt = " ".join([f"{page.title}.", *(picture.alt for picture in page.pictures)])
            twin = "\n\n".join(f"{picture.caption}\n\n{picture.twin}" for picture in page.pictures)
            parts.append(
                f'<figure class="handout"><img alt="{html.escape(alt, quote=True)}" '
                f'src="{up}{FOLDER}/{number:02d}.png" style="width:100%"></figure>'
                f'<details class="handout"><summary>{html.escape(page.title)}: the same in words</summary>'
                f'<pre tabindex="0">{html.escape(twin)}</pre></details>'
            )
        return [nodes.raw("", "\n".join(parts), format="html")]


HEAD = """<style>
.handout img {{ border: 1px solid #767676; background: #fff; }}
.handout pre {{ white-space: pre-wrap; }}
@media print {{
  figure.handout {{ break-after: page; margin: 0; }} .handout img {{ border: none; }}
  details.handout {{ display: none; }}
}}
</style>
<p><a href="{pdf}">All pages as a PDF</a></p>"""


def draw(app, failed):
    """Writes the pages and the PDF, unless they are newer than all that draws them."""
    if failed or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    sources = (Path(minispec.__file__).parent, Path(handouts.__file__).parent)
    files = (path for source in sources for path in source.rglob("*") if path.suffix in (".py", ".json"))
    changed = max(path.stat().st_mtime for path in files)
    if (folder / "handouts.pdf").is_file() and (folder / "handouts.pdf").stat().st_mtime > changed:
        return
    folder.mkdir(parents=True, exist_ok=True)
    pages = handouts.handouts()
    for number, page in enumerate(pages, 1):
        handouts.sheet_of(page).savefig(folder / f"{number:02d}.png", dpi=DOTS, metadata={"Software": None})
    handouts.write_handouts(folder / "handouts.pdf", pages)


def setup(app):
    app.add_directive("handouts", HandoutsDirective)
    app.connect("build-finished", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
