"""The import diagram in words: tables for the architecture page, made from the code at every build.

`import-counts`: how many imports lead from room to room. `files-of ROOM`: what each file of a room is for,
and what it imports.
"""

from docutils import nodes
from import_map import modules, room_arrows, rooms, short
from sphinx.util.docutils import SphinxDirective
from walk_nodes import fold, scrolling, table


class ImportCounts(SphinxDirective):
    """A row for each room, a column for each room that it may import."""

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        found = modules()
        order, arrows = rooms(found), room_arrows(found)
        rows = [["room", "files", "lines", *(f"imports {other}" for other in order[1:])]]
        for room in order:
            mine = [m for m in found.values() if m.name.startswith(f"minispec.{room}.")]
            counts = [str(arrows.get((room, other), "–")) for other in order[1:]]
            rows.append([room, str(len(mine)), f"{sum(m.lines for m in mine):,}", *counts])
        return [scrolling(table(rows), "Imports from room to room")]


class FilesOf(SphinxDirective):
    """A row for each file of a room."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the table, folded."""
        room, found = self.arguments[0], modules()
        mine = [m for m in found.values() if m.name.startswith(f"minispec.{room}.")]
        if not mine:
            raise self.error(f"there is no room called {room!r}")
        rows: list[list[str | nodes.Node]] = [["file", "what it is for", "imports"]]
        for module in mine:
            names = sorted(called(other, room) for other in module.imports)
            rows.append([module.name.removeprefix(f"minispec.{room}."), module.says, ", ".join(names) or "–"])
        inside = scrolling(table(rows), f"The files of {room}")
        return [fold("", inside, summary=f"The {len(mine)} files of {room}", opened=False)]


def called(name: str, room: str) -> str:
    """Returns a module's name as its neighbours say it: without the package, and without their own room."""
    return name.removeprefix(f"minispec.{room}.").removeprefix("minispec.") or short(name)


def setup(app):
    app.add_directive("import-counts", ImportCounts)
    app.add_directive("files-of", FilesOf)
    app.setup_extension("walk_nodes")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
