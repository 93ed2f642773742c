"""What the explanation pages, the glossary and the references name is there."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).resolve().parents[2]

OTHERS = [ROOT / "docs" / name for name in ("pitfalls.md", "references.md")]
PAGES = sorted([*ROOT.glob("docs/explanation/*.md"), *OTHERS])


def name_of(page):
    return page.stem


def text_of(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


SHORT = {name: f"minispec.evidence.theory.{name}" for name in ("acceptance", "formulas", "predict")}
NAME = re.compile(rf"`((?:minispec|{'|'.join(SHORT)})(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def is_there(name):
    """Whether a dotted name leads to something."""
    first, dot, rest = name.partition(".")
    try:
        resolve_name(SHORT.get(first, first) + dot + rest)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_in_prose_exist(page):
    """Functions, modules, files and tests that a page names in `…`."""
    text = page.read_text(encoding="utf-8")
    assert [name for name in NAME.findall(text) if not is_there(name)] == []
    for file, test in TEST.findall(text):
        assert (ROOT / file).is_file(), file
        assert test in (ROOT / file).read_text(encoding="utf-8"), test
    for file in re.findall(r"`((?:core|drafters|verifiers|io|native|train|evidence|show)/[\w/]+\.py)`", text):
        assert (ROOT / "minispec" / file).is_file(), file


def test_a_wrong_name_is_found():
    """The finder can fail."""
    assert is_there("formulas.best_k")
    assert not is_there("formulas.worst_k") and not is_there("minispec.evidence.magic")


WORDS = (
    "target, draft model, drafter, draft, prefill, verify, accepted, correction, bonus, rollback, "
    "pending token, round, residual, acceptance rate, cost ratio, warp, target-only"
).split(", ")


def test_the_glossary_has_every_word():
    """The words that all pages use; and each is defined once."""
    terms = re.findall(r"^(\S[^`{}|#\n]*)\n    \S", text_of("glossary"), re.MULTILINE)
    assert set(WORDS) <= set(terms)
    assert len(terms) == len(set(terms))


# Names of bugs, code and titles of works keep such words; prose does not.
NOT_PROSE = re.compile(
    r"^(`{3,})(?!\{bug\}).*?^\1$|^`+\{bug\}.*?$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
REPLACED = re.compile(r"\b(?:laws?|chances?|behind)\b", re.IGNORECASE)


PROSE = [path for path in ROOT.glob("docs/**/*.md") if not {"_build", "node_modules"} & set(path.parts)]


@pytest.mark.parametrize("page", sorted([*PROSE, ROOT / "CONTRIBUTING.md"]), ids=name_of)
def test_pages_use_the_words_of_the_field(page):
    """A distribution, a probability, after: what papers and engines say, and so do all pages."""
    text = NOT_PROSE.sub("", page.read_text(encoding="utf-8"))
    for name in ("*Scaling Laws", "| laws forgotten |", "| uniform law |"):  # a title, names of wrong answers
        text = text.replace(name, "")
    assert REPLACED.findall(text) == []


# A name, further names, a year: "Leviathan et al. 2023", "DeMillo, Lipton and Sayward 1978".
SOURCE = re.compile(
    r"\b([A-Z][A-Za-zü]+)(?:(?:,? (?:and|et al\.|others|[A-Z][a-z]+),?)*)(?: \()?,? ((?:19|20)\d\d)\b"
)


def test_every_source_that_the_code_cites_is_listed():
    """Name and year, and every arXiv number."""
    listed = text_of("references")
    missing = set()
    for file in sorted((ROOT / "minispec").rglob("*.py")):
        text = re.sub(r"\s+", " ", file.read_text(encoding="utf-8"))
        for name, year in SOURCE.findall(text):
            lines = [line for line in listed.splitlines() if name in line and year in line]
            if not lines and name not in ("Linux", "November", "Python"):
                missing.add(f"{file.name}: {name} {year}")
        missing |= {f"{file.name}: {n}" for n in re.findall(r"arXiv (\d{4}\.\d{5})", text) if n not in listed}
    assert not missing
