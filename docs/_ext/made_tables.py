"""Tables on pages, by name, written at build in Markdown; `made.py` puts them there."""

from book import real_tables
from book.reports import saved_real
from book.results_tables import table
from claims_table import claim_rows
from class_times import RATES, class_times
from exercise_tables import about, exercise_rows, wrong_rows
from field_guide import check_rows, family_rows
from import_tables import file_rows, package_rows
from run_tables import ragged_mask, ragged_table, rounds_table, widths_table
from running_example import at, run
from sign_key import coloured, distributions_table, in_terminal, round_table, states_table
from source_and_prose import ROOT, pieces_of, short

from minispec.classroom.exercises import EXERCISES


def markdown(rows):
    """Returns a table in Markdown from its rows, heads first; cells may have signs and colours."""
    heads, *others = ([coloured(cell).replace("|", r"\|") for cell in row] for row in rows)
    return table(heads, others, len(heads))


def as_text(text):
    """Returns a drawing in characters."""
    return f"```text\n{text}\n```"


def files_of(package):
    """Returns the table of a package's files, under a line that opens."""
    rows = file_rows(package)
    summary = f"The {len(rows) - 1} files of {package}"
    return f"<details><summary>{summary}</summary>\n\n{markdown(rows)}\n\n</details>"


def where_shown():
    """Returns what the walk-through shows, file by file, each name with a link to its page."""
    shown = {}
    for page in sorted((ROOT / "docs" / "walkthrough").glob("*.md")):
        for piece in pieces_of(page):
            link = f"[`{short(piece.name)}`]({page.name})"
            shown.setdefault(piece.path.relative_to(ROOT).as_posix(), {}).setdefault(piece.name, link)
    return markdown([["file", "shown"], *([path, ", ".join(shown[path].values())] for path in sorted(shown))])


def each_exercise():
    """Returns a section for each exercise: where it stands, its hints, and the messages of wrong answers."""
    return "\n".join(f"{about(exercise)}\n{markdown(wrong_rows(exercise))}\n" for exercise in EXERCISES)


def signs_of_round(name):
    """Returns a round of the greedy run by position."""
    recording, r = at("greedy", name)
    return markdown(round_table(r, recording.words))


def real_models(recorded, name):
    """Returns a table of a report on a checkpoint that people use, by its function, if it is recorded."""
    found = "".join(getattr(real_tables, name)(report) for report in saved_real(recorded))
    return found or markdown([["not recorded yet"], ["the commands on this page measure it"]])


TABLES = {
    "bugs": lambda family: markdown(family_rows(family)),
    "checks": lambda: markdown(check_rows()),
    "class-times": lambda page: f"{RATES}\n\n{markdown(class_times(page))}",
    "claims": lambda *title: markdown(claim_rows(" ".join(title))),
    "distributions": lambda: markdown(distributions_table()),
    "each-exercise": each_exercise,
    "exercises": lambda: markdown(exercise_rows()),
    "files-of": files_of,
    "in-terminal": lambda glyphs: as_text(in_terminal(glyphs)),
    "packages": lambda: markdown(package_rows()),
    "ragged": lambda: markdown(ragged_table(6)),
    "ragged-mask": lambda: as_text(ragged_mask((3, 5), 2)),
    "real-heads": lambda name: real_models("real-heads", name),
    "real-models": lambda name: real_models("real-models", name),
    "rounds": lambda count: markdown(rounds_table(run("greedy"), int(count))),
    "signs": signs_of_round,
    "states": lambda: markdown(states_table()),
    "where-shown": where_shown,
    "widths": lambda: markdown(widths_table()),
}
