"""The walk-through shows all of the code, and tells of the recorded runs what was recorded."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "walkthrough").glob("*.md"))
IO = ("trace", "recording", "recording_file", "stream")
NATIVE = ("backend", "cache", "checks", "decisions", "drafter", "exit", "library", "model", "pack")
# Shown from their first line to their last.
COMPLETE = [
    *(
        path
        for package in ("core", "drafters", "rules")
        for path in sorted((ROOT / "minispec" / package).glob("*.py"))
    ),
    *(ROOT / "minispec" / "io" / f"{name}.py" for name in IO),
    *(ROOT / "minispec" / "native" / f"{name}.py" for name in NATIVE),
]


def module(name):
    """Imports a module from docs/_ext; the test is skipped where a library of the book is missing."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


source = module("shown_source")


def all_pieces():
    return [shown for page in PAGES for shown in source.pieces_of(page)]


def shown_lines(root=ROOT):
    """Returns the numbers of all lines that are shown, by file."""
    lines = {}
    for shown in all_pieces():
        piece = source.cut(shown, root)
        lines.setdefault(piece.path, set()).update(piece.numbers)
    return lines


def missing(path, lines, root=ROOT):
    """Returns the public names of a file of which some line is shown nowhere."""
    seen = lines.get(path.relative_to(root).as_posix(), set())
    return [f"{path.name}: {name}" for name, needed in source.public_lines(path).items() if needed - seen]


def test_pages_ask_for_pieces():
    """Every directive is found by the parser that the other tests rely on."""
    count = sum(page.read_text(encoding="utf-8").count("{side-by-side}") for page in PAGES)
    assert len([shown for shown in all_pieces() if not shown.folded]) == count > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_piece_is_there(page):
    """Each object and each anchor exists, and a piece is short enough to stand beside a few sentences."""
    for shown in source.pieces_of(page):
        piece = source.cut(shown)
        assert piece.text.strip(), shown
        assert shown.folded or len(piece.numbers) <= source.MOST_LINES, shown


def test_every_public_function_is_shown():
    """Of the core, of drafters, rules and traces no line of a public function is left out."""
    lines = shown_lines()
    assert [name for path in COMPLETE for name in missing(path, lines)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_begins_it_ends(page):
    """A page that shows a part of a function shows the rest too, or another page does."""
    lines = shown_lines()
    for shown in source.pieces_of(page):
        whole = source.cut(source.Shown(shown.name))
        code = {n for n, line in zip(whole.numbers, whole.text.splitlines(), strict=True) if line.strip()}
        parts = shown.name.split(".")
        if not parts[-1][:1].isupper():  # a class may be shown in part: its public part is checked above
            assert code <= lines[whole.path], shown


@pytest.fixture
def copy(tmp_path):
    """A copy of the package's sources, to be changed."""
    for path in (ROOT / "minispec").rglob("*.py"):
        to = tmp_path / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    return tmp_path


def plant(root, name, old, new):
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("core/rollback.py", "def rollback(", "def roll_back(", "has no rollback"),
        ("core/draft.py", "class ModelDrafter(", "class SmallDrafter(", "has no ModelDrafter"),
        ("core/loop.py", "logits = score(target", "found = score(target", "no line after"),
        ("core/cache.py", "row, column, slot = self._slots", "a, b, c = self._slots", "0 lines have"),
        ("core/verify.py", "dist = next_distribution(p", "q = next_distribution(p", "no line after"),
        ("core/commit.py", "if token in self._eos:", "if token == self._eos:", "to mark has 'if token in"),
    ],
)
def test_a_renamed_function_or_line_is_found(copy, name, old, new, said):
    """What is renamed in the code can no longer be shown, and the error says which page's wish it was."""
    plant(copy, f"minispec/{name}", old, new)
    with pytest.raises(ValueError, match=said):
        shown_lines(copy)


def test_few_files_are_shown_without_prose():
    """Without a word on each function: the first page, and the native backend, which is not for reading."""
    whole = {shown.name.rpartition(".")[0] for shown in all_pieces() if shown.folded}
    assert whole == {"minispec.core.basic"} | {f"minispec.native.{name}" for name in NATIVE}


def test_the_walk_through_begins_with_the_method_on_one_screen():
    """`core/basic.py` is shown whole on the first page, before anything else but a sentence."""
    index = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    before = index[: index.index("```{full-source} minispec.core.basic\n```")]
    assert "{" not in before and "## " not in before


def test_the_walk_through_follows_the_files_of_the_core():
    """After what the loop adds to the first page: from the GPT to the loop, then the native backend."""
    index = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    contents = re.search(r"\{toctree\}\n:hidden:\n\n(.*?)```", index, re.DOTALL)[1].split()
    first = ["from_basic_to_loop", "model", "cache", "warp", "rng", "records", "prefill", "draft"]
    then = ["verify_greedily", "verify_by_rejection", "commit", "roll_back", "loop", "batches", "native"]
    assert contents[: len(first) + len(then)] == first + then


def test_the_page_on_what_the_loop_adds_marks_lines():
    """Each piece of the loop has a line that is marked; the piece of `basic.py` has none."""
    page = ROOT / "docs" / "walkthrough" / "from_basic_to_loop.md"
    pieces = [(shown.name, source.cut(shown).marked) for shown in source.pieces_of(page)]
    assert len(pieces) > 12
    assert all(bool(marked) != name.startswith("minispec.core.basic.") for name, marked in pieces)


def test_marks_are_lines_of_the_piece():
    """A text marks its lines, two with … between them all lines from the one to the other, `all` all."""
    name = "minispec.core.commit.Rows.append"
    text = source.cut(source.Shown(name)).text.splitlines()

    def marked(*marks):
        return [text[n - 1].strip() for n in source.cut(source.Shown(name, marks=marks)).marked]

    assert marked("kept.") == ["kept.append(token)"]
    assert marked("if token in … break") == ["if token in self._eos:", 'self.finish[row] = "eos"', "break"]
    assert marked("all") == [line.strip() for line in text]
    for wrong in ("no such line", "break … if token in", "kept. … no such line"):
        with pytest.raises(ValueError, match="no line of the piece to mark"):
            marked(wrong)


def quotations(page):
    """Yields file, first text and last text of each piece of C++ on a page."""
    for path, options in re.findall(r"\{literalinclude\} (\S+)\n((?::.*\n)*)", page.read_text("utf-8")):
        wanted = dict(re.findall(r'^:(start-at|end-before): "?(.*?)"?$', options, re.MULTILINE))
        yield (page.parent / path).resolve(), wanted["start-at"], wanted.get("end-before")


def test_every_piece_of_cpp_is_there():
    """The texts at which a piece of C++ begins and ends stand in its file: once, and in this order."""
    found = [one for page in PAGES for one in quotations(page)]
    assert len(found) > 5
    for path, first, last in found:
        text = path.read_text(encoding="utf-8")
        assert text.count(first) == 1, (path.name, first)
        assert last is None or last in text.partition(first)[2], (path.name, last)


def test_a_moved_file_is_found(copy):
    """A file that is gone is said to be."""
    (copy / "minispec" / "core" / "rollback.py").unlink()
    with pytest.raises(ValueError, match="there is no such module"):
        shown_lines(copy)


def test_an_anchor_that_is_there_twice_is_refused():
    """A text that two lines have says nothing about where to begin."""
    with pytest.raises(ValueError, match="lines have 'accepted'; one should"):
        source.cut(source.Shown("minispec.core.verify.verify_rejection", start_at="accepted"))


@pytest.mark.parametrize(
    "added",
    [
        "\n\ndef forget(cache):\n    cache.truncate([0])\n",
        "\n\nclass Eraser:\n    clean: bool = True\n",
    ],
)
def test_a_function_that_is_not_shown_is_found(copy, added):
    """A new public function without a place in the walk-through is a fault; a private one is not."""
    path = copy / "minispec" / "core" / "rollback.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + added, encoding="utf-8")
    source.parsed.cache_clear()
    assert len(missing(path, shown_lines(copy), copy)) == 1
    path.write_text(text + "\n\ndef _forget(cache):\n    cache.truncate([0])\n", encoding="utf-8")
    source.parsed.cache_clear()
    assert missing(path, shown_lines(copy), copy) == []


def test_a_line_that_is_left_out_is_found(monkeypatch):
    """If a page drops a piece of a function, the rest does not pass for the whole."""
    kept = [shown for shown in all_pieces() if shown.start_at not in ("logits = score(", "live = rows.live")]
    assert len(kept) == len(all_pieces()) - 2
    monkeypatch.setattr(sys.modules[__name__], "all_pieces", lambda: kept)
    lines = shown_lines()
    assert [name for path in COMPLETE for name in missing(path, lines)] == ["loop.py: speculate"]


def test_a_piece_is_the_source(copy):
    """What is shown is what stands in the file, without the docstring, which comes apart."""
    piece = source.cut(source.Shown("minispec.core.rollback.rollback"))
    lines = (ROOT / piece.path).read_text(encoding="utf-8").splitlines()
    assert piece.text.splitlines() == [lines[n - 1] for n in piece.numbers]
    assert '"""' not in piece.text and piece.docstring.startswith("Cuts a cache back")


def test_pages_are_all_in_the_contents():
    """Each page has a line in the index's table, and one in its contents."""
    index = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    names = [page.stem for page in PAGES if page.stem != "index"]
    contents = re.search(r"\{toctree\}\n:hidden:\n\n(.*?)```", index, re.DOTALL)[1].split()
    assert sorted(contents) == names
    assert all(f"]({name}.md) |" in index for name in names)
    assert re.findall(r"^\| \[.*?\]\((\w+)\.md\)", index, re.MULTILINE) == contents


# The running example.


def wanted():
    pages = [*PAGES, ROOT / "docs" / "explanation" / "our_words_and_theirs.md"]
    return sorted({text for page in pages for text in re.findall(r"\{run\}`(.*?)`", page.read_text("utf-8"))})


@pytest.mark.parametrize("text", wanted())
def test_what_is_said_of_the_run_is_known(text):
    """Each word and number that a page asks for can be had from the recordings."""
    said, _ = module("running_example").tell(text)
    assert said and said != "(nothing)"


def test_what_is_said_of_the_run_is_right():
    """The facts, against the recording itself."""
    from minispec.io.walkthrough import load_walkthrough

    tell = module("running_example").tell
    recording = load_walkthrough("greedy")
    r = next(r for r in recording.trace.rounds if 0 < r.accepted(0) < r.drafted(0))
    words = [recording.words[int(token)].strip() for token in r.draft.tokens[0]]
    kept, _ = tell("greedy:corrected.kept")
    assert kept.split() == words[: r.accepted(0)]
    assert tell("greedy:corrected.wrong") == (words[r.accepted(0)], True)
    assert tell("greedy:corrected.accepted") == (str(r.accepted(0)), False)
    assert tell("greedy:corrected.target-after") == (str(r.target_cache.after[0]), False)
    assert tell("greedy:corrected+1.pending")[0] == tell("greedy:corrected.next")[0]
    first, *_ = recording.trace.rounds
    assert first.accepted(0) == 3 < first.drafted(0)  # so it counts as accepted at position 3, tested at 4
    assert tell("greedy:accepted-3") == tell("greedy:tested-4")
    numbers = {name: float(tell(f"greedy:{name}")[0]) for name in ("accepted-3", "tested-3", "alpha-3")}
    assert numbers["alpha-3"] == pytest.approx(numbers["accepted-3"] / numbers["tested-3"], abs=0.005)
    sampled = load_walkthrough("rejection")
    r = next(r for r in sampled.trace.rounds if 0 < r.accepted(0) < r.drafted(0))
    place = r.accepted(0)
    token = int(r.draft.tokens[0, place])
    accepts = min(1.0, float(r.target_probs[0, place, token] / r.draft.probs[0, place, token]))
    number = sampled.accept_draw(r.index, place).number
    assert number > accepts  # it was rejected
    assert float(tell("rejection:corrected@last.probability")[0]) == pytest.approx(accepts, abs=0.005)
    assert float(tell("rejection:corrected@last.number")[0]) == pytest.approx(number, abs=0.005)


@pytest.mark.parametrize(
    "text", ["greedy:corrected.colour", "greedy:never.kept", "sampled:first.kept", "greedy:first+99.kept"]
)
def test_an_unknown_fact_is_refused(text):
    """A misspelt wish ends in one line and not in an empty place on the page."""
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        module("running_example").tell(text)


def test_no_page_types_the_run():
    """The words that the recordings hold for a round stand on no page: they are asked for."""
    tell = module("running_example").tell
    typed = [tell(f"greedy:{name}.drafted")[0] for name in ("corrected", "full")] + [
        tell("rejection:text")[0]
    ]
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert [(name, words) for name, text in pages.items() for words in typed if words in text] == []


def figures():
    pattern = re.compile(r"\{run-figure\} (\w+)\n((?::\w+: .*\n)*)")
    return [
        (page.stem, name, dict(re.findall(r":(\w+): (.*)", options)))
        for page in PAGES
        for name, options in pattern.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("stem, name, options", figures())
def test_every_figure_can_be_drawn(stem, name, options):
    """Each figure has an image, words for those who do not see it, a caption and a twin."""
    picture = module("run_pictures").picture(name, options)
    assert picture.alt and picture.twin and picture.caption.endswith(".")


def test_figures_cover_what_the_walk_needs():
    """Cache grid, mask, draft bars, verification strip, overlap and timeline are all there."""
    assert {name for _, name, _ in figures()} >= {
        *("caches", "mask", "draft", "verification", "overlap", "timeline")
    }


@pytest.mark.parametrize(
    "name, options", [("cash", {}), ("caches", {"round": "never"}), ("mask", {"run": "x"})]
)
def test_an_unknown_figure_is_refused(name, options):
    """A misspelt figure, round or run ends in one line."""
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        module("run_pictures").picture(name, options)


def test_rows_of_a_batch_say_what_they_say_alone():
    """The page on batches: row 1 is a round ahead of row 0, and both say what the recording says."""
    tables = module("run_tables")
    trace, _ = tables.ragged_run()
    alone = module("running_example").run("greedy").trace
    for row, shift in ((0, 0), (1, 1)):
        for r, whole in zip(trace.rounds[:5], alone.rounds[shift:], strict=False):
            assert r.emitted[row] == whole.emitted[0]
            assert r.target_cache.after[row] == whole.target_cache.after[0]
    assert trace.rounds[0].emitted[0] != trace.rounds[0].emitted[1]


def test_the_mask_of_two_rows():
    """By hand: a token at position i sees i + 1 slots, whatever the other row holds."""
    drawn = module("run_tables").ragged_mask((3, 5), 2)
    places = re.findall(r"position (\d+):  (.*)", drawn)
    assert [(int(place), signs.count("■")) for place, signs in places] == [(3, 4), (4, 5), (5, 6), (6, 7)]
    assert all(signs.split() == ["■"] * signs.count("■") + ["□"] * signs.count("□") for _, signs in places)
