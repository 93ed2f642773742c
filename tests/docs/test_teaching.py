"""The teaching materials: minutes add up, names exist, tables are current, handouts can be printed."""

import re
from pathlib import Path

import pytest
from book import __main__ as commands
from book import handouts as handouts_module
from book.forms import rules, twelfths
from book.handouts import handouts, sheet_of, write_handouts
from class_times import alone, class_times
from made_tables import TABLES
from readability import drawn_texts, unreadable

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.questions import QUESTIONS

TEACHING = Path(__file__).resolve().parents[2] / "docs" / "teaching"
NOTEBOOKS = TEACHING.parents[1] / "notebooks"
KEYS = {item.key: item.notebook for item in (*EXERCISES, *QUESTIONS)}
PREDICTIONS = {question.key for question in QUESTIONS}
CLASSES = 7  # four, and three more: on other drafters, on trees and batches, on other rules


def text_of(name):
    return (TEACHING / name).read_text(encoding="utf-8")


def tables(text):
    """Returns the tables of a page, each a list of rows of cells."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    return [
        [[cell.strip() for cell in row.strip("|").split(" | ")] for row in b.splitlines()] for b in blocks
    ]


def minutes_in(table):
    """Returns the numbers of a table's column of minutes."""
    column = table[0].index("minutes")
    return [int(row[column]) for row in table[2:]]


def sections(text):
    """Returns the number in each heading `## Notebook 6…`, and the section's text."""
    parts = re.split(r"(?m)^## ", text)
    return [(int(found[1]), part) for part in parts if (found := re.match(r"Notebook (\d+)", part))]


def test_the_minutes_of_one_class_add_up():
    """Fifteen of ninety are slack, the rest is booked; the steps of each notebook add up to its minutes."""
    text = text_of("one_class.md")
    glance = tables(text)[0]
    *planned, last, booked, slack, whole = minutes_in(glance)
    assert sum(planned) + last == booked and booked + slack == whole == 90 and slack == 15
    assert [row[0] for row in glance[-3:]] == ["booked", "slack", "together"]
    assert f"## The exit question ({last} minutes)" in text
    listed = [int(re.match(r"\[(\d+)\.", row[0])[1]) for row in glance[2:-4]]
    for number, minutes, (heading, part) in zip(listed, planned, sections(text), strict=True):
        assert heading == number and f"({minutes} minutes)" in part.splitlines()[0]
        assert sum(minutes_in(tables(part)[0])) == minutes


def test_the_minutes_of_four_classes_add_up():
    """Each class's steps sum to the ninety in its last row."""
    plans = [table for table in tables(text_of("four_classes.md")) if "minutes" in table[0]]
    assert len(plans) == CLASSES
    for plan in plans:
        *steps, whole = minutes_in(plan)
        assert sum(steps) == whole == 90


@pytest.mark.parametrize("page", ["one_class", "four_classes"])
def test_what_a_plan_asks_fits_its_minutes(page):
    """Reading, running and writing at the stated rates takes no longer than planned, in each notebook."""
    rows = class_times(page)[1:]
    assert len(rows) == {"one_class": 4, "four_classes": 16}[page]
    for number, *_, needed, minutes in rows:
        assert int(needed) <= int(minutes), number


@pytest.mark.parametrize("text", sorted((NOTEBOOKS / "text").glob("*.py")), ids=lambda path: path.name[:2])
def test_a_notebook_takes_no_longer_than_it_says(text):
    """Alone, with all exercises, at the same rates, which are rough: a quarter more is allowed."""
    (minutes,) = re.findall(r"\*\*Time\*\*: (\d+) minutes", text.read_text(encoding="utf-8"))
    assert alone(int(text.name[:2])) <= 1.25 * int(minutes)


def planned(name):
    """Returns (notebook, key) of each prediction and exercise that a plan's tables name."""
    text = text_of(name)
    rows = [(number, row) for number, part in sections(text) for row in tables(part)[0][2:]]
    for table in tables(text):
        if table[0][:2] == ["minutes", "notebook"]:
            rows += [(int(found[1]), row) for row in table[2:] if (found := re.match(r"\[(\d+)\]", row[1]))]
    return [(number, key) for number, row in rows for key in re.findall(r"`([a-z-]+)`", row[-1])]


@pytest.mark.parametrize("name", ["one_class.md", "four_classes.md"])
def test_plans_name_what_is_there(name):
    """Each prediction and exercise exists, and stands in the notebook that the plan gives it to."""
    found = planned(name)
    assert len(found) >= 8
    for number, key in found:
        assert KEYS.get(key) == number, key
        (path,) = (NOTEBOOKS / "text").glob(f"{number:02d}_*.py")
        assert f'"{key}"' in path.read_text(encoding="utf-8")


def test_four_classes_ask_every_question():
    """All predictions of the book come up in the course."""
    assert {key for _, key in planned("four_classes.md")} >= PREDICTIONS


@pytest.mark.parametrize("name", ["one_class.md", "four_classes.md"])
def test_names_in_backticks_and_headings_exist(name):
    """What looks like a key is one, headings that are quoted stand in a notebook."""
    text = text_of(name)
    notebooks = "".join(file.read_text(encoding="utf-8") for file in (NOTEBOOKS / "text").glob("*.py"))
    assert set(re.findall(r"(?<!\})`([a-z]+(?:-[a-z0-9]+)+)`", text)) <= KEYS.keys()
    before = r"(?:run|cells of|up to|from|Then|out, in any case:.*,)"
    for heading in re.findall(rf"{before} \*([A-Z][^*]+)\*", text):
        assert f"# ## {' '.join(heading.split())}" in notebooks, heading


def test_each_exercise_is_in_the_table_and_has_a_section():
    """The table links to the section, by the key; a section has both hints and every message."""
    table, sections = TABLES["exercises"](), TABLES["each-exercise"]()
    for exercise in EXERCISES:
        assert f"[{exercise.title}](#{exercise.key}) | {'●' * exercise.difficulty} |" in table
        assert f"{{#{exercise.key}}}\n## {exercise.title}\n" in sections
        messages = [message.replace("|", r"\|") for message, _ in exercise.wrong.values()]
        assert all(text in sections for text in [*exercise.hints, *messages])
    assert f"| all {len(EXERCISES)} |" in table


# Handouts.


@pytest.fixture(scope="module")
def sheets():
    return handouts()


def test_handouts_are_drawn_and_blank(sheets):
    """Main figures, forms to fill in, and answers to each form."""
    titles = " ".join(sheet.title for sheet in sheets)
    for word in ("round by round", "caches", "mask", "four rules", "verdict", "residual", "Answers"):
        assert word in titles
    for sheet in sheets:
        for picture in sheet.pictures:
            assert picture.alt and picture.caption and picture.twin


def test_a_blank_form_gives_nothing_away(sheets):
    """What is to be filled in stands in the answers, and not in the form."""
    by_title = {sheet.title: sheet for sheet in sheets}
    (blank,) = by_title["6  To fill in: four rules for three words"].pictures
    filled = by_title["Answers to 6 and 8"].pictures[0]
    _, rows, solved = filled.twin.rpartition("4  keep")
    kept, instead, *_ = (line.split()[-4:] for line in solved.splitlines()[1:])
    assert rows and (kept, instead) == (["2", "2", "2", "6"], ["4", "2", "0", "6"])
    boxes = [line for line in blank.twin.splitlines() if line.startswith("kept")]
    assert [line.split()[1:] for line in boxes] == [["-"] * 4] * 4
    assert "target, p        6        4        2        12" in blank.twin


def test_the_rules_table_is_computed():
    """Rules 2 and 4 give p, rules 1 and 3 do not; the numbers are the package's own."""
    numbers = [[twelfths(x) for x in found.distribution] for found in rules().values()]
    assert numbers == [["12", "0", "0"], ["6", "4", "2"], ["5", "4", "3"], ["6", "4", "2"]]


def test_handouts_can_be_read(sheets, monkeypatch):
    """No text over another, over the edge, too small: on forms and sheets; figures have their own tests."""
    monkeypatch.setattr(handouts_module, "INK", 20)
    forms = [
        sheet for sheet in sheets if "fill in" in sheet.title or sheet.title.startswith(("5", "9", "Answers"))
    ]
    for picture in (picture for sheet in forms for picture in sheet.pictures):
        assert unreadable(picture.figure) == {}
    for sheet in (sheets[0], sheets[-1]):
        page = sheet_of(sheet)
        assert unreadable(page, points=10) == {} and len(drawn_texts(page)) >= 1 + len(sheet.pictures)
        assert min(axes.get_position().y0 for axes in page.axes) > 0


def test_a_pdf_is_written_whole_and_the_same_each_time(tmp_path, monkeypatch, capsys, sheets):
    """One command; the same bytes for the same figures; a bad place is one line."""
    monkeypatch.setattr(commands, "handouts", lambda: sheets[5:6])
    for path, status in ((tmp_path / "one.pdf", 0), (tmp_path / "nowhere" / "x.pdf", 2)):
        with pytest.raises(SystemExit) as ended:
            commands.main(["handouts", str(path)])
        assert ended.value.code == status
    write_handouts(tmp_path / "two.pdf", map(sheet_of, sheets[5:6]))
    one, two = ((tmp_path / name).read_bytes() for name in ("one.pdf", "two.pdf"))
    assert one[:5] == b"%PDF-" and one == two
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.pdf", "two.pdf"]
    assert capsys.readouterr().err.count("\n") == 1
