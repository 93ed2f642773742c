"""Tables of a report of the bench: what `minispec bench` prints, and the results page shows as Markdown."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from rich import box
from rich.table import Table

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn."""

    columns: Sequence[str]  #: their headings
    rows: Sequence[Sequence[str]]  #: cells
    left_columns: int = 1  #: how many columns stand left; the others stand right

    def rich(self, title: str, padding: int = 1) -> Table:
        """Returns it for a terminal; padding: blanks on both sides of a cell."""
        pad = (0, padding)
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=pad)
        for number, column in enumerate(self.columns):
            table.add_column(
                column, justify="left" if number < self.left_columns else "right", overflow="fold"
            )
        for row in self.rows:
            table.add_row(*row)
        return table


class Cells(Formatter):
    """Writes the cells of a table; what is None is a dash."""

    def format_field(self, value: Any, spec: str) -> str:
        """Writes one value."""
        return "–" if value is None else super().format_field(value, spec)


COLUMNS = tomllib.loads(Path(__file__).with_name("bench_tables.toml").read_text(encoding="utf-8"))
PLAIN = (  # a section, where its rows are, their columns, how many of these stand left, a title
    ("widths", "sweep", "speed-ups", 1, "Every K, on the prompts that choose it"),
    ("widths", "settings", "speed-ups", 1, "The best K, on other prompts"),
    ("widths", "settings", "acceptance", 1, "Accepted at the best K, as counted here and by engines"),
    ("auto", "rows", "auto", 1, "K chosen round by round, over the best fixed K"),
    ("temperature", "points", "speed-ups", 1, "Every temperature, in order, at its best K"),
    ("drafts", "points", "drafts", 1, "Every draft at its best K; c: its cost"),
    ("rules", "rows", "rules", 2, "Every rule at temperature 1; token: rejection sampling"),
)


def grid(name: str, rows: Sequence[Results], left_columns: int = 1) -> Grid:
    """Returns a table whose columns stand in bench_tables.toml under this name."""
    columns = COLUMNS[name]
    cells = [tuple(Cells().vformat(cell, (), row) for cell in columns.values()) for row in rows]
    return Grid(tuple(columns), cells, left_columns)


def tables(report: Results) -> Iterator[Table]:
    """Yields tables of each section of what `run_bench` returns."""
    results = report["sections"]
    if "latency" in results:
        cached = results["latency"]["cached_tokens"]
        yield latencies(results["latency"]).rich(f"Milliseconds of a forward over n tokens, {cached} cached")
    if "target-only" in results:
        baseline = "{path}, {threads} threads".format_map(results["target-only"]["baseline"])
        yield target_only(report).rich(f"Tokens per second; speed-ups are over {baseline}, alone")
    for section, key, name, left_columns, title in PLAIN:
        if section in results:
            yield grid(name, results[section][key], left_columns).rich(title)
    if "widths" in results:
        yield backends(report).rich("Every backend, at the best K")
    if "queue" in results.get("batch", {}):
        yield queues(results["batch"]["queue"]).rich(f"A queue of prompts; {stops_paying(results['batch'])}")
    for pair, rows in by_pair(report.get("drafters", ())).items():
        yield grid("drafters", rows, 2).rich(f"Every drafter of {pair} at its best K, on other prompts")
        yield drafter_parts(rows).rich("Accepted of the tested, in %, position by position")
    sizes = report.get("real_sizes", ())
    for kind in dict.fromkeys(row["dtype"] for row in sizes):
        table = real_sizes({"real_sizes": [row for row in sizes if row["dtype"] == kind]})
        cells = [(shape, *rest) for shape, _, *rest in table.rows]  # their type stands in the title
        title = f"{kind}: milliseconds over n tokens; native is × times as fast"
        yield Grid((table.columns[0], *table.columns[2:]), cells).rich(title, padding=0)


def decoding(row: Results) -> str:
    """Writes what a row decodes: greedy, or sampled at a temperature."""
    return "greedy" if row["verifier"] == "greedy" else f"sampled, T = {row['temperature']:g}"


def latencies(results: Results) -> Grid:
    """Returns milliseconds of forwards on each backend, for some of the numbers of new tokens."""
    by: dict[tuple[str, str, str], dict[int, float]] = {}
    for point in results["points"]:
        labels = (point["model"], point["path"], str(point["threads"]))
        by.setdefault(labels, {})[point["width"]] = 1e3 * point["seconds"]
    widths = [n for n in (1, 2, 3, 5, 9, 17) if any(n in times for times in by.values())]
    rows = [(*labels, *(f"{of[n]:.2f}" if n in of else "–" for n in widths)) for labels, of in by.items()]
    return Grid(("model", "backend", "threads", *(f"n = {n}" for n in widths)), rows, 2)


def target_only(report: Results) -> Grid:
    """Returns tokens per second on each backend, alone and with a draft."""
    results = report["sections"]["target-only"]
    table = grid("target-only", [{**row, "decodes": decoding(row)} for row in results["rows"]], 2)
    return Grid((*table.columns[:-1], f"with a draft, K = {results['k']}"), table.rows, 2)


def backends(report: Results) -> Grid:
    """Returns speculative decoding on each backend at the same K."""
    rows = report["sections"]["widths"]["backends"]["rows"]
    return grid("backends", [{**row, "decodes": decoding(row)} for row in rows], 2)


def queues(points: Sequence[Results]) -> Grid:
    """Returns what refilled rows gain, with the target alone and with a draft."""
    return grid("queues", [{**point, "refill": "yes" if point["refill"] else "no"} for point in points], 2)


def stops_paying(results: Results) -> str:
    """Says with how many rows the target alone is faster, without refill and with it."""
    sizes = {name: f"{rows} rows" if rows else "no size" for name, rows in results["stops_paying"].items()}
    return "speculation stops paying " + " and ".join(f"{name} refill at {at}" for name, at in sizes.items())


def by_pair(rows: Sequence[Results]) -> dict[str, list[Results]]:
    """Returns rows by the pair that they are of."""
    pairs = dict.fromkeys(row["pair"] for row in rows)
    return {pair: [row for row in rows if row["pair"] == pair] for pair in pairs}


def drafter_parts(rows: Sequence[Results]) -> Grid:
    """Returns where the drafters of a pair are right, and what they take, on the first backend of each."""
    first = {(row["name"], row["temperature"]): row for row in reversed(rows)}
    shown = [
        {**row, "kept": " ".join(f"{100 * rate:.0f}" for rate in row["acceptance_by_position"])}
        for row in reversed(first.values())
    ]
    return grid("drafter-parts", shown, 3)


def real_sizes(report: Results, times: Callable[[float], str] = "{:.2f}x".format) -> Grid:
    """Returns milliseconds of forwards, ours and others'; `times` writes how many times as fast native is."""
    results: dict[tuple[str, ...], dict[str, float]] = {}
    for row in report["real_sizes"]:
        for n, milliseconds in row["milliseconds"].items():
            key = (row["shape"], row["dtype"], str(row["threads"]), n)
            results.setdefault(key, {})[row["backend"]] = milliseconds
    others = dict.fromkeys(row["backend"] for row in report["real_sizes"] if row["backend"] != "native")
    rows = []
    for labels, of in results.items():
        cells = [*labels, f"{of['native']:.2f}" if "native" in of else "–"]
        for name in others:
            cells.append(f"{of[name]:.2f}" if name in of else "–")
            cells.append(times(of[name] / of["native"]) if {name, "native"} <= of.keys() else "–")
        rows.append(cells)
    columns = [cell for name in others for cell in (name, "×")]
    return Grid(("shape", "weights", "threads", "n", "native", *columns), rows, 2)
