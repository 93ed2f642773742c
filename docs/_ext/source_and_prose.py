"""Source and prose side by side.

    ```{side-by-side} minispec.core.prefill.prefill
    :start-at: cache = model.new_cache
    :end-before: return cache
    What is to be said about these lines.
    ```

The source is taken from the file at every build; `shown_source` finds it. `:mark: text ; first … last` marks
lines of a piece by their texts, `:mark: all` every line. `` ```{full-source} minispec.core.basic `` shows a
file as it is, `` ```{whole-file} minispec.native.backend `` its functions, each folded under its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import shown_source
from docutils import nodes
from docutils.parsers.rst import directives
from shown_source import ROOT, Piece, Shown
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata
from walk_nodes import fold, scrolling, table


class SideBySide(SphinxDirective):
    """Prose on the left, the lines that it speaks of on the right; one under the other where it is narrow."""

    required_arguments = 1
    has_content = True
    option_spec = {
        "start-at": directives.unchanged_required,
        "end-before": directives.unchanged_required,
        "open": directives.flag,  # the docstring stands open
        "mark": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Returns the pair."""
        options = self.options
        shown = Shown(
            self.arguments[0],
            options.get("start-at"),
            options.get("end-before"),
            marks=shown_source.texts_of(options.get("mark")),
        )
        try:
            piece = shown_source.cut(shown)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.env.note_dependency(str(ROOT / piece.path))
        prose = nodes.container(classes=["walk-prose"])
        prose += self.parse_content_to_nodes()
        code = nodes.container(classes=["walk-code"])
        code += [where(shown.name, piece), *source(shown.name, piece, "open" in self.options)]
        pair = nodes.container(classes=["walk"])
        pair += [prose, code]
        return [pair]


class FullSource(SphinxDirective):
    """A file from its first line to its last, as it is."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the file as one block."""
        path = ROOT.joinpath(*self.arguments[0].split(".")).with_suffix(".py")
        if not path.is_file():
            raise self.error(f"{self.arguments[0]}: there is no such module")
        self.env.note_dependency(str(path))
        text = path.read_text(encoding="utf-8")
        block = nodes.literal_block(text, text, language="python")
        said = nodes.paragraph(classes=["walk-where"])
        said += nodes.inline(text=f"{path.relative_to(ROOT).as_posix()}, all {len(text.splitlines())} lines")
        whole = nodes.container(classes=["walk-whole"])
        whole += [said, scrolling(block, f"Source of {self.arguments[0]}")]
        return [whole]


class WholeFile(SphinxDirective):
    """All public functions and classes of a file, each folded under its name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the folds."""
        made: list[nodes.Node] = []
        try:
            for shown in shown_source.all_of(self.arguments[0]):
                piece = shown_source.cut(shown)
                said = shown_source.first_sentence(piece.docstring or "")
                inside = [where(shown.name, piece), *source(shown.name, piece)]
                made.append(fold("", *inside, summary=f"{short(shown.name)}: {said}", opened=False))
        except ValueError as error:
            raise self.error(str(error)) from None
        self.env.note_dependency(str(ROOT / piece.path))
        return made


class WhereShown(SphinxDirective):
    """A list of everything that the walk-through shows, each with its page."""

    def run(self) -> list[nodes.Node]:
        """Returns a table of files, names and pages."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        pages: dict[str, dict[str, str]] = {}
        for page in sorted(here.glob("*.md")):
            self.env.note_dependency(str(page))
            for shown in shown_source.pieces_of(page):
                path = shown_source.find(shown.name).path.relative_to(ROOT).as_posix()
                pages.setdefault(path, {}).setdefault(shown.name, page.stem)
        rows: list[list[str | nodes.Node]] = [["file", "shown"]]
        for path in sorted(pages):
            names = nodes.paragraph()
            for place, (name, page) in enumerate(pages[path].items()):
                names += [nodes.Text(", ")] if place else []
                names += self._link(short(name), page)
            rows.append([path, names])
        return [scrolling(table(rows), "Where each function is shown")]

    def _link(self, text: str, page: str) -> nodes.Node:
        folder = self.env.docname.rpartition("/")[0]
        link = addnodes.pending_xref(
            refdomain="std", reftype="doc", reftarget=f"/{folder}/{page}", refexplicit=True, refwarn=True
        )
        link += nodes.literal(text=text)
        return link


def where(name: str, piece: Piece) -> nodes.paragraph:
    """Says what the lines are and where they stand; the name leads to the API where it is listed."""
    link = addnodes.pending_xref(
        refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=False
    )
    link += nodes.literal(text=short(name))
    said = nodes.paragraph(classes=["walk-where"])
    text = f" {piece.path}, {span(piece.numbers)}"
    if piece.marked:
        text += f"; marked: {runs([piece.numbers[n - 1] for n in piece.marked])}"
    said += [link, nodes.inline(text=text)]
    return said


def source(name: str, piece: Piece, opened: bool = False) -> Iterable[nodes.Node]:
    """Yields the lines, and the docstring to be opened."""
    block = nodes.literal_block(piece.text, piece.text, language="python")
    if piece.marked:
        block["highlight_args"] = {"hl_lines": list(piece.marked)}
    yield scrolling(block, f"Source of {short(name)}, {span(piece.numbers)}")
    if piece.docstring is not None:
        said = nodes.literal_block(piece.docstring, piece.docstring, language="text")
        summary = f"Docstring: {shown_source.first_sentence(piece.docstring)}"
        yield fold("", scrolling(said, f"Docstring of {short(name)}"), summary=summary, opened=opened)


def short(name: str) -> str:
    """Returns a name without its module: a function's own name, or a method's with its class."""
    parts = name.split(".")
    return ".".join(parts[-2:] if parts[-2][:1].isupper() else parts[-1:])


def runs(numbers: Sequence[int]) -> str:
    """Writes numbers in ascending order, neighbours joined: 3, 5–7."""
    firsts = [n for n in numbers if n - 1 not in numbers]
    lasts = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in zip(firsts, lasts, strict=True))


def span(numbers: Sequence[int]) -> str:
    """Says which lines of a file are meant."""
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {numbers[0]} to {numbers[-1]}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("walk_nodes")
    app.add_directive("side-by-side", SideBySide)
    app.add_directive("whole-file", WholeFile)
    app.add_directive("full-source", FullSource)
    app.add_directive("where-shown", WhereShown)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
