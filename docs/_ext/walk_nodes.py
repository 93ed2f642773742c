"""What the walk-through's pages are made of: regions that scroll, folds, figures, tables, a style sheet."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

STATIC = Path(__file__).with_name("walk_static")


class scroll(nodes.General, nodes.Element):
    """What may be wider than its column: reachable with the keyboard, and named."""


class fold(nodes.General, nodes.Element):
    """What opens on request: a `details` element, whose `summary` is an attribute."""


class plotted(nodes.General, nodes.Element):
    """A figure with its alternative text and its caption, as attributes."""


def scrolling(child: nodes.Node, label: str) -> scroll:
    """Wraps what may be wider than its column."""
    return scroll("", child, label=label)


def table(rows: Sequence[Sequence[str | nodes.Node]]) -> nodes.table:
    """Returns a table whose first row has the heads."""
    made, group = nodes.table(), nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    head, body = nodes.thead(), nodes.tbody()
    for place, row in enumerate(rows):
        line = nodes.row()
        for cell in row:
            inside = nodes.paragraph(text=cell) if isinstance(cell, str) else cell
            line += nodes.entry("", inside)
        (body if place else head).append(line)
    group += [head, body]
    made += group
    return made


def enter_scroll(self: Any, node: scroll) -> None:
    """Opens a group that the keyboard reaches."""
    label = html.escape(node["label"], quote=True)
    self.body.append(f'<div class="walk-scroll" tabindex="0" role="group" aria-label="{label}">')


def leave_scroll(self: Any, node: scroll) -> None:
    """Closes it."""
    self.body.append("</div>")


def enter_fold(self: Any, node: fold) -> None:
    """Opens a `details` element."""
    state = " open" if node["opened"] else ""
    summary = html.escape(node["summary"])
    self.body.append(f'<details class="walk-fold"{state}><summary>{summary}</summary>')


def leave_fold(self: Any, node: fold) -> None:
    """Closes it."""
    self.body.append("</details>")


def enter_plotted(self: Any, node: plotted) -> None:
    """Writes the image beside the site's others, and shows it."""
    folder = Path(self.builder.outdir) / self.builder.imagedir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / node["file"]).write_bytes(node["png"])
    source = f"{self.builder.imgpath}/{node['file']}"
    self.body.append(
        f'<figure class="walk-figure"><img src="{source}" alt="{html.escape(node["alt"], quote=True)}" '
        f'style="width:{node["wide"]}px"><figcaption>{html.escape(node["caption"])}</figcaption>'
    )


def leave_plotted(self: Any, node: plotted) -> None:
    """Closes it."""
    self.body.append("</figure>")


def say_plotted(self: Any, node: plotted) -> None:
    """Other formats than HTML get the words."""
    self.add_text(node["caption"] + "\n")


def pass_by(self: Any, node: nodes.Node) -> None:
    """Nothing: what stands inside says it all."""


def add_static(app: Sphinx, config: Any) -> None:
    """Brings the style sheet into the site."""
    config.html_static_path = [*config.html_static_path, str(STATIC)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers nodes and the style sheet."""
    quiet = (pass_by, pass_by)
    app.add_node(scroll, html=(enter_scroll, leave_scroll), text=quiet, latex=quiet)
    app.add_node(fold, html=(enter_fold, leave_fold), text=quiet, latex=quiet)
    app.add_node(plotted, html=(enter_plotted, leave_plotted), text=(say_plotted, pass_by), latex=quiet)
    app.connect("config-inited", add_static)
    app.add_css_file("walkthrough.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
