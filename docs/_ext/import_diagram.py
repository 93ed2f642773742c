"""The import diagrams, drawn from the code: the packages, and the files of `core`.

`python docs/_ext/import_diagram.py` reads the imports of every file and writes two drawings beside the
architecture page. They hold what is structure, who imports whom, and no counts: they change only when the
structure does.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from import_map import ROOT, Module, levels, modules, needed, package_imports, packages, within

DRAWINGS = ("architecture-packages.svg", "architecture-core.svg")
INK, PAPER, LINE, FILL = "#000000", "#FFFFFF", "#0072B2", "#EAF3FA"
GAP, EDGE, BETWEEN = 18, 14, 50  # between two boxes, around the drawing, between two rows


@dataclass(frozen=True)
class Size:
    """Of a box.

    Attributes:
        wide: its width.
        high: its height.
        columns: how many letters of its words stand in a line.
    """

    wide: float
    high: float
    columns: int = 0


def draw_packages(found: Mapping[str, Module]) -> str:
    """Returns the drawing of the packages: what each is for, and arrows to what it imports."""
    edges = {name: {to for one, to in package_imports(found) if one == name} for name in packages(found)}
    says = {name: found[f"minispec.{name}"].says.replace("`", "") for name in edges}
    return layered(edges, "The packages of minispec", Size(192, 100, 28), says, "no other package")


def draw_files(found: Mapping[str, Module], package: str) -> str:
    """Returns the drawing of a package's files, and arrows to what each imports."""
    return layered(within(found, package), f"The files of {package}", Size(124, 34), {}, "none of them")


def layered(
    edges: Mapping[str, set[str]], title: str, size: Size, says: Mapping[str, str], nothing: str
) -> str:
    """Returns boxes in rows, one row a level, with arrows down to what each imports.

    Args:
        edges: who imports whom; arrows that follow from others are left out.
        title: of the drawing.
        size: of a box.
        says: what stands in a box under its name.
        nothing: how to say that a box imports none of the others.
    """
    depth = levels(edges)
    chains = {
        (one, other): chain(one, other, depth)
        for one, others in needed(edges).items()
        for other in sorted(others)
    }
    centre = arranged(depth, list(chains.values()), size.wide)
    low, step = max(depth.values()), size.high + BETWEEN
    left = min(centre[name] for name in depth) - size.wide / 2 - EDGE
    across = max(centre[name] for name in depth) + size.wide / 2 + EDGE - left

    def top(level: int) -> float:
        return EDGE + (low - level) * step

    shapes = []
    for _, stops in sorted(chains.items()):
        xs = [centre[stop] - left for stop in stops]
        first, last = depth[stops[0]], depth[stops[-1]]
        tilt = [
            max(-40.0, min(40.0, (one - other) / 18)) for one, other in ((xs[1], xs[0]), (xs[-2], xs[-1]))
        ]
        line = f"M{xs[0] + tilt[0]:g},{top(first) + size.high:g}"
        for place, x in enumerate(xs[1:-1], 1):
            line += f" L{x:g},{top(first - place):g} V{top(first - place) + size.high:g}"
        shapes.append(arrow(f"{line} L{xs[-1] + tilt[1]:g},{top(last) - 3:g}"))
    for name in sorted(depth):
        words = textwrap.wrap(says[name], size.columns, max_lines=5) if name in says else []
        shapes.append(box(centre[name] - size.wide / 2 - left, top(depth[name]), size, name, words))
    said = "; ".join(
        f"{name} imports {', '.join(sorted(edges[name])) or nothing}"
        for name in sorted(edges, key=lambda name: (-depth[name], name))
    )
    return svg(across, 2 * EDGE + low * step + size.high, title, said, shapes)


def chain(one: str, other: str, depth: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the stops of an arrow: its ends, and a gap between the boxes of each row that it passes."""
    passed = range(depth[one] - 1, depth[other], -1)
    return (one, *(f"{one}>{other}@{level}" for level in passed), other)


def arranged(depth: Mapping[str, int], chains: Sequence[Sequence[str]], wide: float) -> dict[str, float]:
    """Returns how far to the right each stop's middle is: row by row from below, near what it leads to."""
    level_of = dict(depth) | {stop: int(stop.partition("@")[2]) for stops in chains for stop in stops[1:-1]}
    below: dict[str, list[str]] = {stop: [] for stop in level_of}
    for stops in chains:
        for one, other in zip(stops, stops[1:], strict=False):
            below[one].append(other)
    centre: dict[str, float] = {}
    for level in range(max(level_of.values()) + 1):
        row = [stop for stop in level_of if level_of[stop] == level]
        row.sort(key=lambda stop: (mean([centre[other] for other in below[stop]]), stop))
        wides = [(wide if stop in depth else GAP) + GAP for stop in row]
        x = -sum(wides) / 2
        for stop, width in zip(row, wides, strict=True):
            centre[stop] = x + width / 2
            x += width
    return centre


def mean(values: Sequence[float]) -> float:
    """Returns the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def box(x: float, y: float, size: Size, name: str, lines: Sequence[str]) -> str:
    """Returns a box with a name and a few lines."""
    middle = x + size.wide / 2
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{size.wide:g}" height="{size.high:g}" rx="6" fill="{FILL}" '
        f'stroke="{INK}"/>',
        f'<text x="{middle:g}" y="{y + 22:g}" font-size="15" font-weight="bold">{html.escape(name)}</text>',
    ]
    for place, line in enumerate(lines):
        parts.append(
            f'<text x="{middle:g}" y="{y + 42 + 16 * place:g}" font-size="12">{html.escape(line)}</text>'
        )
    return "".join(parts)


def arrow(line: str) -> str:
    """Returns an arrow along a line."""
    return f'<path d="{line}" fill="none" stroke="{LINE}" stroke-width="1.6" marker-end="url(#head)"/>'


def svg(wide: float, high: float, title: str, said: str, shapes: Sequence[str]) -> str:
    """Returns a whole drawing, with its title and its words for those who do not see it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
            f'height="{high:g}" role="img" font-family="DejaVu Sans, Arial, sans-serif" text-anchor="middle" '
            f'fill="{INK}">',
            f"<title>{html.escape(title)}</title>",
            f"<desc>{html.escape(said)}</desc>",
            f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{LINE}"/></marker></defs>',
            f'<rect width="{wide:g}" height="{high:g}" fill="{PAPER}"/>',
            *shapes,
            "</svg>",
            "",
        ]
    )


def drawings(root: Path = ROOT) -> dict[str, str]:
    """Returns both drawings by the names of their files."""
    found = modules(root)
    return dict(zip(DRAWINGS, (draw_packages(found), draw_files(found, "core")), strict=True))


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (ROOT / "docs" / name).write_text(drawing, encoding="utf-8")
        print(f"docs/{name}")
