"""Tables on pages, by name, written at build in Markdown; `made.py` puts them there."""

from book import real_tables
from book.reports import saved_real
from book.results_tables import table
from claims_table import claim_rows
from class_times import RATES, class_times
from exercise_tables import about, exercise_rows, wrong_rows
from field_guide import check_rows, family_rows
from import_tables import package_rows
from run_tables import ragged_mask, ragged_table, rounds_table, widths_table
from running_example import at, run
from sign_key import coloured, distributions_table, in_terminal, round_table, states_table

from minispec.classroom.exercises import EXERCISES


def markdown(rows):
    """Returns a table in Markdown from its rows, heads first; cells may have signs and colours."""
    heads, *others = ([coloured(cell).replace("|", r"\|") for cell in row] for row in rows)
    return table(heads, others, len(heads))


def as_text(text):
    """Returns a drawing in characters."""
    return f"```text\n{text}\n```"


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
    "in-terminal": lambda glyphs: as_text(in_terminal(glyphs)),
    "packages": lambda: markdown(package_rows()),
    "ragged": lambda: markdown(ragged_table(6)),
    "ragged-mask": lambda: as_text(ragged_mask((3, 5), 2)),
    "real-heads": lambda name: real_models("real-heads", name),
    "real-models": lambda name: real_models("real-models", name),
    "rounds": lambda count: markdown(rounds_table(run("greedy"), int(count))),
    "signs": signs_of_round,
    "states": lambda: markdown(states_table()),
    "widths": lambda: markdown(widths_table()),
}
