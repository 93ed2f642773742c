"""The running example on a page: `run-figure`, `run-table`, and the role `run` for a word or a number.

```{run-figure} caches
:run: rejection
:round: corrected
```
The draft says {run}`greedy:corrected.drafted`.
"""

from __future__ import annotations

import re

import run_pictures
import run_tables
import running_example
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.typing import ExtensionMetadata
from walk_nodes import fold, plotted, scrolling, table


class RunFigure(SphinxDirective):
    """A figure of the running example, drawn from the recorded run."""

    required_arguments = 1
    option_spec = {
        "run": directives.unchanged_required,
        "round": directives.unchanged_required,
        "moments": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Returns the figure and its text twin."""
        try:
            picture = run_pictures.picture(self.arguments[0], self.options)
        except ValueError as error:
            raise self.error(str(error)) from None
        chosen = (self.env.docname.rpartition("/")[2], self.arguments[0], *sorted(self.options.values()))
        name = re.sub(r"[^a-z0-9]+", "-", " ".join(["walk", *chosen]).lower())
        wide = round(picture.figure.get_figwidth() * 64)
        drawn = plotted(
            "", png=picture.png(), file=f"{name}.png", alt=picture.alt, caption=picture.caption, wide=wide
        )
        twin = nodes.literal_block(picture.twin, picture.twin, language="text")
        drawn += fold(
            "", scrolling(twin, f"As text: {picture.caption}"), summary="The same as text", opened=False
        )
        return [drawn]


class RunTable(SphinxDirective):
    """A table or a drawing in characters of the running example.

    `rounds`: the first rounds of a run. `ragged`: of the run in two rows. `ragged-mask`: what new tokens see.
    `widths`: the best K.
    """

    required_arguments = 1
    option_spec = {"run": directives.unchanged_required, "most": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        kind, most = self.arguments[0], self.options.get("most", 6)
        if kind == "rounds":
            recording = running_example.run(self.options.get("run", "greedy"))
            return [scrolling(table(run_tables.rounds_table(recording, most)), f"The first {most} rounds")]
        if kind == "ragged":
            return [scrolling(table(run_tables.ragged_table(most)), "The first rounds of two rows")]
        if kind == "widths":
            return [scrolling(table(run_tables.widths_table()), "The best K")]
        if kind == "ragged-mask":
            drawn = run_tables.ragged_mask((3, 5), 2)
            return [scrolling(nodes.literal_block(drawn, drawn, language="text"), "The mask of two rows")]
        raise self.error(f"there is no table called {kind!r}; choose rounds, ragged, ragged-mask or widths")


class RunRole(SphinxRole):
    """A word or a number of the running example."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Returns it: words of the text as code, numbers as they are."""
        try:
            said, is_text = running_example.tell(self.text)
        except ValueError as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        return [nodes.literal(text=said) if is_text else nodes.Text(said)], []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives and the role."""
    app.setup_extension("walk_nodes")
    app.add_directive("run-figure", RunFigure)
    app.add_directive("run-table", RunTable)
    app.add_role("run", RunRole())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
