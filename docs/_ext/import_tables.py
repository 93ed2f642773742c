"""The import diagram in words: tables for the architecture page, made from the code at every build.

`import-counts`: how many imports lead from package to package. `files-of PACKAGE`: what each file of a
package is for, and what it imports.
"""

from docutils import nodes
from import_map import modules, package_imports, packages, short
from sphinx.util.docutils import SphinxDirective
from walk_nodes import fold, scrolling, table


class ImportCounts(SphinxDirective):
    """A row for each package, a column for each package that it may import."""

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        found = modules()
        order, imports = packages(found), package_imports(found)
        rows = [["package", "files", "lines", *(f"imports {other}" for other in order[1:])]]
        for package in order:
            mine = [m for m in found.values() if m.name.startswith(f"minispec.{package}.")]
            counts = [str(imports.get((package, other), "–")) for other in order[1:]]
            rows.append([package, str(len(mine)), f"{sum(m.lines for m in mine):,}", *counts])
        return [scrolling(table(rows), "Imports from package to package")]


class FilesOf(SphinxDirective):
    """A row for each file of a package."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the table, folded."""
        package, found = self.arguments[0], modules()
        mine = [m for m in found.values() if m.name.startswith(f"minispec.{package}.")]
        if not mine:
            raise self.error(f"there is no package called {package!r}")
        rows: list[list[str | nodes.Node]] = [["file", "what it is for", "imports"]]
        for module in mine:
            names = sorted(called(other, package) for other in module.imports)
            rows.append(
                [module.name.removeprefix(f"minispec.{package}."), module.says, ", ".join(names) or "–"]
            )
        inside = scrolling(table(rows), f"The files of {package}")
        return [fold("", inside, summary=f"The {len(mine)} files of {package}", opened=False)]


def called(name: str, package: str) -> str:
    """Returns a module's name without `minispec`, and without the package where that is the reader's own."""
    return name.removeprefix(f"minispec.{package}.").removeprefix("minispec.") or short(name)


def setup(app):
    app.add_directive("import-counts", ImportCounts)
    app.add_directive("files-of", FilesOf)
    app.setup_extension("walk_nodes")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
