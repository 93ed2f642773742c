"""The field guide to bugs has every bug of the zoo, once, and what it advises works.

Facts on the page come from the zoo and its record when the book is built. The prose is the page's own: here
it is compared with the code. `RECIPES` are its "See it." lines, tried on the shipped code and on the bug.
"""

import re
import sys
from pathlib import Path

import pytest
from docutils import nodes
from native_models import needs_compiler

from minispec.evidence.bench.measurements import saved
from minispec.evidence.zoo.mutants import FAMILIES, MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import planted

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "docs" / "_ext")]

from field_guide import linked, row_of  # noqa: E402
from pitfall_recipes import RECIPES  # noqa: E402

PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^```\{bug\} (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FAMILY = re.compile(r"^```\{bug-table\} (\S+)\n", re.MULTILINE)
LEADS = ("**Symptom.** ", "**Why.** ", "**See it.** ")


def entries():
    """Returns per family of the page the bugs that are described after its table."""
    parts = FAMILY.split(PAGE)
    return {
        name: [bug for bug, _ in ENTRY.findall(text)]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_bug_has_its_entry_in_its_family():
    """Families are those of the code, entries stand in its order, and the families are the whole zoo."""
    found = entries()
    assert found == {name: [mutant.name for mutant in FAMILIES[name]] for name in found}
    assert [bug for bugs in found.values() for bug in bugs] == [mutant.name for mutant in MUTANTS]


@pytest.mark.parametrize(("name", "text"), ENTRY.findall(PAGE))
def test_an_entry_says_symptom_reason_and_remedy(name, text):
    """Each in a paragraph of its own, in this order, and short."""
    paragraphs = text.strip().split("\n\n")
    assert len(paragraphs) == len(LEADS)
    for paragraph, lead in zip(paragraphs, LEADS, strict=True):
        assert paragraph.startswith(lead)
        assert len(paragraph.split()) <= 80, name


def test_the_record_is_of_this_zoo():
    """What the page says of damage and finders was recorded for the bugs that there are now."""
    assert [row.name for row in saved("zoo").points] == [mutant.name for mutant in MUTANTS]
    assert all(row_of(mutant).effect == mutant.effect for mutant in MUTANTS)


@pytest.mark.parametrize(
    ("seen", "urls"),
    [
        (
            "huggingface/transformers #32867 and #47932",
            [
                f"https://github.com/huggingface/transformers{end}"
                for end in ("", "/issues/32867", "/issues/47932")
            ],
        ),
        (
            "vllm-metal #716",
            [f"https://github.com/vllm-project/vllm-metal{end}" for end in ("", "/issues/716")],
        ),
        (
            "vLLM advisory GHSA-8wr5-jm2h-8r4f: an id at or beyond V",
            [
                "https://github.com/vllm-project/vllm",
                "https://github.com/vllm-project/vllm/security/advisories/GHSA-8wr5-jm2h-8r4f",
            ],
        ),
        ("Medusa (arXiv 2401.10774), where it is meant", ["https://arxiv.org/abs/2401.10774"]),
        (
            "feifeibear/LLMSpeculativeSampling, by reading",
            ["https://github.com/feifeibear/LLMSpeculativeSampling"],
        ),
        ("not seen in other code", []),
    ],
)
def test_where_a_bug_was_seen_becomes_links(seen, urls):
    """Issues belong to the repository named before them; the words stay as they were."""
    parts = linked(seen)
    assert "".join(part.astext() for part in parts) == seen
    assert [part["refuri"] for part in parts if isinstance(part, nodes.Element)] == urls


def test_every_issue_is_linked():
    """No number of an issue stays plain text."""
    for mutant in MUTANTS:
        links = [part.astext() for part in linked(mutant.seen) if isinstance(part, nodes.Element)]
        assert set(re.findall(r"#\d+", mutant.seen)) <= set(links)


def test_recipes_are_of_bugs_that_there_are():
    """Most bugs have one; the others need more than a few lines."""
    assert set(RECIPES) <= {mutant.name for mutant in MUTANTS}
    assert len(RECIPES) >= 0.8 * len([mutant for mutant in MUTANTS if not mutant.is_native])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_compiler if "native" in name else ()) for name in RECIPES]
)
def test_what_the_guide_advises_finds_the_bug(name):
    """ "See it.": the advice says nothing of the shipped code, and something of the bug."""
    RECIPES[name]()
    with planted(mutant_named(name)):
        try:
            RECIPES[name]()
        except Exception:  # a bug may do anything
            return
    pytest.fail(f"what the guide advises does not find {name}")
