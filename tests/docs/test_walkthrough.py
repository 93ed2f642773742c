"""The walk-through shows all of the code, and tells of the recorded runs what was recorded."""

import ast
import re

import pytest
import source_and_prose as source
from run_tables import ragged_mask, ragged_run
from running_example import run, tell

from minispec.io.walkthrough import load_walkthrough

ROOT = source.ROOT
PAGES = sorted((ROOT / "docs" / "walkthrough").glob("*.md"))
IO = ("trace", "recording", "recording_file", "stream")
# Shown from their first line to their last; `basic` is on the first page as a whole.
COMPLETE = [
    path for name in ("core", "drafters", "verifiers") for path in (ROOT / "minispec" / name).glob("*.py")
]
COMPLETE += [ROOT / "minispec" / "io" / f"{name}.py" for name in IO]
LONGEST = 45  # beside a few sentences


def public(path):
    """Yields the public functions of a file, and what its classes have, each with the lines of its code."""
    statements, lines = source.parsed(path)
    for name, node in statements.items():
        kinds = (ast.FunctionDef, ast.AnnAssign, ast.Assign) if "." in name else ast.FunctionDef
        if isinstance(node, kinds) and not re.search(r"\b_(?!_)", name):
            yield name, {n for n in source.lines_of(node) if lines[n - 1].strip()}


def missing(path, pieces):
    """Returns the public names of a file of which some line is shown nowhere."""
    shown = {n for piece in pieces if piece.path == path for n in piece.numbers}
    return [name for name, needed in public(path) if needed - shown]


@pytest.fixture(scope="module")
def pieces():
    return [piece for page in PAGES for piece in source.pieces_of(page)]


def test_every_public_line_is_shown(pieces):
    """Of core, drafters, verifiers and traces; what a page drops would be missing."""
    basic = ROOT / "minispec" / "core" / "basic.py"
    assert [name for path in COMPLETE if path != basic for name in missing(path, pieces)] == []
    loop = ROOT / "minispec" / "core" / "loop.py"
    assert missing(loop, [piece for piece in pieces if "hidden = read(" not in piece.text]) != []
    index = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    before = index[: index.index("```{literalinclude} ../../minispec/core/basic.py")]
    assert "{" not in before and "## " not in before  # the method on one screen comes first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_piece_is_short_and_comes_with_prose(page):
    """Each can be found by the parser that the other tests rely on, and stands beside a few sentences."""
    text = page.read_text(encoding="utf-8")
    fragments = source.FRAGMENT.findall(text)
    assert len(fragments) == text.count("{side-by-side}")
    for _, options in fragments:
        texts = dict(re.findall(r"^:(start-at|end-before): (.*)$", options, re.MULTILINE)).values()
        assert not any("#" in text for text in texts)  # the rest would be taken for a comment
    assert sum(len(piece.numbers) for piece in source.pieces_of(page)) <= LONGEST * len(fragments)


def test_a_piece_is_the_source():
    """What is shown is what stands in the file, without docstrings, which come apart."""
    (piece,) = source.pieces("minispec.core.rollback.rollback")
    lines = piece.path.read_text(encoding="utf-8").splitlines()
    assert piece.text.splitlines() == [lines[n - 1] for n in piece.numbers]
    assert '"""' not in piece.text and piece.docstring.startswith("Cuts a cache from")
    whole, *others = source.pieces("minispec.core.loop.read generate")
    assert [source.short(one.name) for one in (whole, *others)] == ["read", "generate"]
    part = source.cut("minispec.core.loop.speculate", "hidden = read(", "emitted = batch.commit(")
    assert part.docstring is None and len(part.numbers) < 10


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("minispec.core.nothing.f",), "no such module"),
        (("minispec.core.loop.nothing",), "has no nothing"),
        (("minispec.core.verify.accept_rejection", "accepted"), "one should"),
        (("minispec.core.loop.read", None, "no such line"), "no line after"),
    ],
)
def test_what_is_not_there_is_refused(names, error):
    """A renamed function or line stops the build, and so does a text that two lines have."""
    with pytest.raises(ValueError, match=error):
        source.cut(*names)


def test_marks_are_lines_of_the_piece():
    """A text marks its lines, two with … between them all lines from the one to the other."""
    text = source.cut("minispec.core.batch.Row.append").text

    def marked(marks):
        return [text.splitlines()[n - 1].strip() for n in source.marked_lines(text, marks)]

    assert marked("if token in … break ; emitted.")[-1] == "break"
    assert "emitted.append(token)" in marked("emitted.")
    with pytest.raises(ValueError, match="to mark"):
        marked("break … no such line")


def test_pages_are_all_in_the_contents():
    """The lines of the index's table are its contents, in the same order."""
    index = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    contents = re.search(r"\{toctree\}\n:hidden:\n\n(.*?)```", index, re.DOTALL)[1].split()
    assert re.findall(r"^\| \[.*?\]\((\w+)\.md\)", index, re.MULTILINE) == contents


def test_every_piece_of_cpp_is_there():
    """The texts at which a piece of C++ begins and ends stand in its file: once, and in this order."""
    text = (ROOT / "docs" / "walkthrough" / "native.md").read_text(encoding="utf-8")
    found = re.findall(r"\{literalinclude\} (\S+/cpp/\S+)\n((?::.*\n)*)", text)
    assert len(found) > 5
    for path, options in found:
        wanted = dict(re.findall(r'^:(start-at|end-before): "?(.*?)"?$', options, re.MULTILINE))
        before, first, after = (
            (ROOT / "docs" / "walkthrough" / path).read_text("utf-8").partition(wanted["start-at"])
        )
        assert first and first not in after, path
        assert wanted.get("end-before", "") in after, path


# The running example.


def test_what_is_told_of_the_run_is_right():
    """The facts, against the recordings themselves."""
    recording = load_walkthrough("greedy")
    r = first_corrected(recording)
    words = [recording.words[int(token)].strip() for token in r.draft.tokens[0]]
    assert tell("greedy:corrected.kept").strip("`").split() == words[: r.accepted(0)]
    assert tell("greedy:corrected.wrong") == f"`{words[r.accepted(0)]}`"
    assert tell("greedy:corrected.target-after") == str(r.target_cache.after[0])
    assert recording.trace.rounds[0].accepted(0) == 3 < recording.trace.rounds[0].drafted(0)
    assert tell("greedy:accepted-3") == tell("greedy:tested-4")  # so it counts as tested at position 4
    ratio = float(tell("greedy:accepted-3")) / float(tell("greedy:tested-3"))
    assert float(tell("greedy:alpha-3")) == pytest.approx(ratio, abs=0.005)


def test_what_is_told_of_a_test_is_right():
    """The probability to accept and the number that was drawn, where a token was rejected."""
    recording = load_walkthrough("rejection")
    r = first_corrected(recording)
    place = r.accepted(0)
    token = int(r.draft.tokens[0, place])
    accepts = min(1.0, float(r.target_probs[0, place, token] / r.draft.probs[0, place, token]))
    number = recording.accept_draw(r.index, place).number
    assert number > accepts
    told = [float(tell(f"rejection:corrected@last.{fact}")) for fact in ("probability", "number")]
    assert told == pytest.approx([accepts, number], abs=0.005)


def first_corrected(recording):
    return next(r for r in recording.trace.rounds if 0 < r.accepted(0) < r.drafted(0))


@pytest.mark.parametrize("text", ["greedy:corrected.colour", "greedy:never.kept", "sampled:first.kept"])
def test_an_unknown_fact_is_refused(text):
    """A misspelt wish ends in one line and not in an empty place on the page."""
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        tell(text)


def test_no_page_types_the_run():
    """The words that the recordings hold for a round stand on no page: they are asked for."""
    wanted = ("greedy:corrected.drafted", "greedy:full.drafted", "rejection:text")
    typed = [tell(name).strip("`") for name in wanted]
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [words for words in typed if words in text] == []


def test_rows_of_a_batch_say_what_they_say_alone():
    """The page on batches: row 1 is a round ahead of row 0, and both say what the recording says."""
    trace = ragged_run()
    alone = run("greedy").trace
    for row, shift in ((0, 0), (1, 1)):
        for r, whole in zip(trace.rounds[:5], alone.rounds[shift:], strict=False):
            assert r.emitted[row] == whole.emitted[0]
            assert r.target_cache.after[row] == whole.target_cache.after[0]
    assert trace.rounds[0].emitted[0] != trace.rounds[0].emitted[1]


def test_the_mask_of_two_rows():
    """By hand: a token at position i sees i + 1 slots, whatever the other row holds."""
    places = re.findall(r"position (\d+):  (.*)", ragged_mask((3, 5), 2))
    assert [(int(place), signs.count("■")) for place, signs in places] == [(3, 4), (4, 5), (5, 6), (6, 7)]
    assert all(signs.split() == ["■"] * signs.count("■") + ["□"] * signs.count("□") for _, signs in places)
