"""Tables that commands print, those of a report of the bench above all; pages show some as Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from string import Formatter
from typing import Any

from rich import box
from rich.table import Table

from minispec.io.files import read_table

Results = Mapping[str, Any]

WIDE = 8  # columns: with so many there is one blank between them


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn."""

    columns: Sequence[str]  #: their headings
    rows: Sequence[Sequence[str]]  #: cells
    left_columns: int = 1  #: how many columns are aligned left; the others are aligned right

    def rich(self, title: str, padding: int = 1) -> Table:
        """Returns it for a terminal; padding: blanks beside a cell; with 0 headings take several lines."""
        pad = (0, padding)
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=pad)
        for number, column in enumerate(self.columns):
            is_left = number < self.left_columns
            heading = column if padding else column.replace(" ", "\n")
            table.add_column(heading, justify="left" if is_left else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table


def decoding(temperature: float) -> str:
    """Writes how tokens are chosen: greedily, or sampled at a temperature."""
    return f"sampled, T = {temperature:g}" if temperature else "greedy"


def percentages(rates: Sequence[float]) -> str:
    """Writes rates in percent."""
    return " ".join(f"{100 * rate:.0f}" for rate in rates)


def span(quartiles: Sequence[float]) -> str:
    """Writes quartiles."""
    return "{:.2f}–{:.2f}".format(*quartiles)


def stops_paying(sizes: Mapping[str, int | None]) -> str:
    """Says with how many rows the target alone is faster, `without` refill and `with` it."""
    parts = (f"{name} refill at {f'{rows} rows' if rows else 'no size'}" for name, rows in sizes.items())
    return f"speculation stops paying {' and '.join(parts)}"


class CellFormatter(Formatter):
    """Writes the cells of a table; what is None, or not there, is a dash."""

    conversions: Mapping[str, Callable[[Any], str]] = {
        "d": decoding,
        "p": percentages,
        "s": stops_paying,
        "x": "{:.2f}x".format,
        "q": span,
        "y": {True: "yes", False: "no"}.__getitem__,
    }

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Results) -> Any:
        """Returns what a name stands for; None where a row, of an older report, does not have it."""
        return args[key] if isinstance(key, int) else kwargs.get(key)

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Writes a value as a conversion after `!` says."""
        return self.conversions[conversion](value) if conversion and value is not None else value

    def format_field(self, value: Any, spec: str) -> str:
        """Writes one value."""
        return "–" if value is None else super().format_field(value, spec)


FORMATTER = CellFormatter()
LAYOUT = read_table(__file__, "tables.toml")


def grid(name: str, rows: Sequence[Results], left_columns: int = 1, section: Results | None = None) -> Grid:
    """Returns a table whose columns stand in tables.toml under this name.

    section: the results that headings name.
    """
    columns = LAYOUT["columns"][name]
    cells = [tuple(FORMATTER.vformat(cell, (), row) for cell in columns.values()) for row in rows]
    return Grid(tuple(column.format_map(section or {}) for column in columns), cells, left_columns)


def grids(report: Results, columns: str | None = None) -> Iterator[tuple[str, Grid]]:
    """Yields titles and tables: those of tables.toml for which a report has rows.

    columns: only tables that have the columns of this name; None: all.
    """
    for table in LAYOUT["tables"]:
        name, *keys = table["rows"].split("/")
        section = report["sections"].get(name, {})
        rows = reduce(lambda results, key: results.get(key, {}), keys, section)
        if rows and columns in (None, table["columns"]):
            title = FORMATTER.vformat(table["title"], (), section)
            yield title, grid(table["columns"], rows, table.get("left", 1), section)


def tables(report: Results) -> Iterator[Table]:
    """Yields tables of each section of what `run_bench` returns."""
    if latency := report["sections"].get("latency"):
        yield latencies(latency).rich(
            f"Milliseconds of a forward over n tokens, {latency['cached_tokens']} cached"
        )
    for title, table in grids(report):
        yield table.rich(title, padding=int(len(table.columns) < WIDE))
    for listed in LAYOUT["lists"]:
        for group, rows in grouped(report.get(listed["rows"], ()), listed["group"]).items():
            table = grid(listed["columns"], rows, listed["left"])
            yield table.rich(listed["title"].format(group), padding=0)
    for rows in grouped(report.get("drafters", ()), "pair").values():
        yield drafter_parts(rows).rich("Accepted of the tested, in %, position by position")
    for dtype, rows in grouped(report.get("real_sizes", ()), "dtype").items():
        table = real_sizes(rows)
        cells = [(shape, *numbers) for shape, _, *numbers in table.rows]  # their type stands in the title
        title = f"{dtype}: milliseconds over n tokens; native is × times as fast"
        yield Grid((table.columns[0], *table.columns[2:]), cells).rich(title, padding=0)
    if (table := decoding_table(report)).rows:
        yield table.rich("Decoding on native; over: times the milliseconds of its forwards, timed alone")


def decoding_table(report: Results) -> Grid:
    """Returns how long decoding takes beside its forwards, for models of real sizes."""
    rows = [row | one for row in report.get("real_sizes", ()) for one in row.get("decoding", ())]
    return grid("decoding", rows, 2)


def grouped(rows: Sequence[Results], field: str) -> dict[str, list[Results]]:
    """Returns rows by the value of a field."""
    groups: dict[str, list[Results]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return groups


def latencies(results: Results) -> Grid:
    """Returns milliseconds of forwards on each backend, for some of the numbers of new tokens."""
    times: dict[tuple[str, ...], dict[int, float]] = {}
    for point in results["points"]:
        place = (point["model"], point["path"], str(point["threads"]))
        times.setdefault(place, {})[point["width"]] = 1e3 * point["seconds"]
    widths = [n for n in (1, 2, 3, 5, 9, 17) if any(n in row for row in times.values())]
    rows = [(*place, *(number(row.get(n)) for n in widths)) for place, row in times.items()]
    return Grid(("model", "backend", "threads", *(f"n = {n}" for n in widths)), rows, 2)


def drafter_parts(rows: Sequence[Results]) -> Grid:
    """Returns where the drafters of a pair are right, and what they take, on the first backend of each."""
    first = {(row["name"], row["temperature"]): row for row in reversed(rows)}
    return grid("drafter-parts", [*reversed(first.values())], 3)


def real_sizes(rows: Sequence[Results], times: Callable[[float], str] = "{:.2f}x".format) -> Grid:
    """Returns milliseconds of forwards, ours and others'; `times` writes how many times as fast native is."""
    results: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        for n, milliseconds in row["milliseconds"].items():
            key = (row["shape"], row["dtype"], str(row["threads"]), n)
            results.setdefault(key, {})[row["backend"]] = milliseconds
    others = dict.fromkeys(row["backend"] for row in rows if row["backend"] != "native")
    lines = []
    for place, by_backend in results.items():
        native = by_backend.get("native")
        cells = [*place, number(native)]
        for name in others:
            other = by_backend.get(name)
            cells += [number(other), times(other / native) if other and native else "–"]
        lines.append(cells)
    columns = [cell for name in others for cell in (name, "×")]
    return Grid(("shape", "weights", "threads", "n", "native", *columns), lines, 2)


def number(value: float | None) -> str:
    """Writes a number, or a dash for None."""
    return FORMATTER.format("{:.2f}", value)
