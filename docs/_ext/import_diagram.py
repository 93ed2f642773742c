"""The import diagram, drawn from the code: rooms and arrows, and the files of `decoding`.

`python docs/_ext/import_diagram.py` reads the imports of every file of the package and writes two drawings
beside the architecture page. They hold what is structure, who imports whom, and no counts: they change only
when the structure does.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from import_map import ROOT, Module, levels, modules, needed, room_arrows, rooms, within

DRAWINGS = ("architecture-rooms.svg", "architecture-decoding.svg")
INK, PAPER, LINE, FILL = "#000000", "#FFFFFF", "#0072B2", "#EAF3FA"
BOX, GAP = 124, 18  # widths of a file's box, and between two


def draw_rooms(found: Mapping[str, Module]) -> str:
    """Returns the drawing of the rooms: what each is for, and arrows to what it imports."""
    order, wide, gap, top, high = rooms(found), 164, 22, 146, 110
    left = {room: 14 + place * (wide + gap) for place, room in enumerate(order)}
    shapes = []
    for one, other in sorted(
        room_arrows(found), key=lambda pair: (order.index(pair[0]), order.index(pair[1]))
    ):
        far = order.index(other) - order.index(one)
        start, end = left[one] + wide - 14 - 9 * (far - 1), left[other] + 14 + 9 * (far - 1)
        rise = 24 + 28 * (abs(far) - 1)
        if far < 0:  # never, while the test of the arrows passes; if so, let it be seen
            rise, start, end = -40, left[one] + 14, left[other] + wide - 14
        shapes.append(
            arrow(f"M{start},{top} C{start},{top - rise * 1.3:g} {end},{top - rise * 1.3:g} {end},{top - 3}")
        )
    for room in order:
        says = found[f"minispec.{room}"].says.replace("`", "")
        shapes.append(box(left[room], top, wide, high, room, textwrap.wrap(says, 25, max_lines=5)))
    said = "; ".join(
        f"{room} imports {', '.join(o for o in order if (room, o) in room_arrows(found)) or 'no other room'}"
        for room in order
    )
    return svg(left[order[-1]] + wide + 14, top + high + 14, "The rooms of minispec", said, shapes)


def draw_files(found: Mapping[str, Module], room: str) -> str:
    """Returns the drawing of a room's files, one row per level, arrows down to what each imports."""
    edges = within(found, room)
    depth = levels(edges)
    ways = {
        (one, other): way(one, other, depth)
        for one, others in needed(edges).items()
        for other in sorted(others)
    }
    centre = arranged(depth, list(ways.values()))
    low, high, step = max(depth.values()), 34, 92
    left = min(centre[name] for name in depth) - BOX / 2 - 14
    across = max(centre[name] for name in depth) + BOX / 2 + 14 - left

    def top(level: int) -> float:
        return 14 + (low - level) * step

    shapes = []
    for _, stops in sorted(ways.items()):
        xs = [centre[stop] - left for stop in stops]
        first, last = depth[stops[0]], depth[stops[-1]]
        lean = [
            max(-40.0, min(40.0, (one - other) / 18)) for one, other in ((xs[1], xs[0]), (xs[-2], xs[-1]))
        ]
        path = f"M{xs[0] + lean[0]:g},{top(first) + high:g}"
        for place, x in enumerate(xs[1:-1], 1):
            path += f" L{x:g},{top(first - place):g} V{top(first - place) + high:g}"
        shapes.append(arrow(f"{path} L{xs[-1] + lean[1]:g},{top(last) - 3:g}"))
    shapes += [
        box(centre[name] - BOX / 2 - left, top(depth[name]), BOX, high, name) for name in sorted(depth)
    ]
    said = "; ".join(
        f"{name} imports {', '.join(sorted(edges[name])) or 'none of them'}"
        for name in sorted(edges, key=lambda name: (-depth[name], name))
    )
    return svg(across, 28 + low * step + high, f"The files of {room}", said, shapes)


def way(one: str, other: str, depth: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the stops of an arrow: its ends, and a gap between the boxes of each row that it passes."""
    passed = range(depth[one] - 1, depth[other], -1)
    return (one, *(f"{one}>{other}@{level}" for level in passed), other)


def arranged(depth: Mapping[str, int], ways: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns how far to the right each stop's middle is: row by row from below, near what it leads to."""
    level_of = dict(depth) | {stop: int(stop.partition("@")[2]) for stops in ways for stop in stops[1:-1]}
    below: dict[str, list[str]] = {stop: [] for stop in level_of}
    for stops in ways:
        for one, other in zip(stops, stops[1:], strict=False):
            below[one].append(other)
    centre: dict[str, float] = {}
    for level in range(max(level_of.values()) + 1):
        row = [stop for stop in level_of if level_of[stop] == level]
        row.sort(key=lambda stop: (mean([centre[other] for other in below[stop]]), stop))
        wides = [(BOX if stop in depth else GAP) + GAP for stop in row]
        x = -sum(wides) / 2
        for stop, wide in zip(row, wides, strict=True):
            centre[stop] = x + wide / 2
            x += wide
    return centre


def mean(values: Sequence[float]) -> float:
    """Returns the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def box(x: float, y: float, wide: float, high: float, name: str, lines: Sequence[str] = ()) -> str:
    """Returns a box with a name and a few lines."""
    middle = x + wide / 2
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="6" fill="{FILL}" stroke="{INK}"/>',
        f'<text x="{middle:g}" y="{y + 22:g}" font-size="15" font-weight="bold">{html.escape(name)}</text>',
    ]
    for place, line in enumerate(lines):
        parts.append(
            f'<text x="{middle:g}" y="{y + 42 + 16 * place:g}" font-size="12">{html.escape(line)}</text>'
        )
    return "".join(parts)


def arrow(path: str) -> str:
    """Returns an arrow along a path."""
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.6" marker-end="url(#head)"/>'


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
    return dict(zip(DRAWINGS, (draw_rooms(found), draw_files(found, "decoding")), strict=True))


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (ROOT / "docs" / name).write_text(drawing, encoding="utf-8")
        print(f"docs/{name}")
