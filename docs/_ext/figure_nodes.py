"""A figure of the package as a part of a page, and the same in words under a line that opens."""

from __future__ import annotations

import html

from docutils import nodes

from minispec.show.plots.style import Picture


def nodes_of(picture: Picture) -> list[nodes.Node]:
    """Returns the figure with its caption, and its text twin."""
    twin = (
        "<details><summary>The figure in words</summary>"
        f'<pre tabindex="0" style="white-space:pre-wrap">{html.escape(picture.twin)}</pre></details>'
    )
    return [nodes.raw("", shown, format="html") for shown in (picture.html(), twin)]
