"""The field guide to bugs has every bug of the zoo, once, and what it advises works.

Facts on the page come from the zoo and its record when the book is built. The prose is the page's own.
`RECIPES` are what it advises for any implementation, tried on the shipped code and on bugs.
"""

import re
from pathlib import Path

import pytest
from field_guide import linked, row_of
from pitfall_recipes import RECIPES

from minispec.evidence.bench.measurements import saved
from minispec.evidence.zoo.mutants import FAMILIES, MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import planted

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^```\{bug\} ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FAMILY = re.compile(r"^```\{made\} bugs (\S+)\n", re.MULTILINE)
LEADS = ("**Symptom.** ", "**Why.** ", "**See it.** ")


def entries():
    """Returns per family of the page the bugs that are described after its table."""
    parts = FAMILY.split(PAGE)
    return {
        name: [bug for bugs, _ in ENTRY.findall(text) for bug in bugs.split()]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_bug_has_its_entry_in_its_family():
    """Families are those of the code, entries stand in its order, and the families are the whole zoo."""
    found = entries()
    assert found == {name: [mutant.name for mutant in FAMILIES[name]] for name in found}
    assert [bug for bugs in found.values() for bug in bugs] == [mutant.name for mutant in MUTANTS]


def test_entries_say_symptom_reason_and_remedy():
    """Each in a paragraph of its own, in this order, and short; bugs that are alike share an entry."""
    for names, text in ENTRY.findall(PAGE):
        paragraphs = text.strip().split("\n\n")
        assert [lead for lead, words in zip(LEADS, paragraphs, strict=True) if words.startswith(lead)] == [
            *LEADS
        ]
        assert max(len(words.split()) for words in paragraphs) <= 80 * len(names.split()), names


def test_the_record_is_of_this_zoo():
    """What the page says of damage and finders was recorded for the bugs that there are now."""
    assert [row.name for row in saved("zoo").points] == [mutant.name for mutant in MUTANTS]
    assert all(row_of(mutant).effect == mutant.effect for mutant in MUTANTS)


GITHUB = "https://github.com"


@pytest.mark.parametrize(
    ("seen", "urls"),
    [
        (
            "huggingface/transformers #32867 and #47932",
            [f"{GITHUB}/huggingface/transformers{end}" for end in ("", "/issues/32867", "/issues/47932")],
        ),
        ("vllm-metal #716", [f"{GITHUB}/vllm-project/vllm-metal{end}" for end in ("", "/issues/716")]),
        (
            "vLLM advisory GHSA-8wr5-jm2h-8r4f: an id at or beyond V",
            [f"{GITHUB}/vllm-project/vllm{end}" for end in ("", "/security/advisories/GHSA-8wr5-jm2h-8r4f")],
        ),
        ("Medusa (arXiv 2401.10774), where it is meant", ["https://arxiv.org/abs/2401.10774"]),
        ("not seen in other code", []),
    ],
)
def test_where_a_bug_was_seen_becomes_links(seen, urls):
    """Issues belong to the repository named before them; the words stay as they were."""
    link = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
    assert [url for _, url in link.findall(linked(seen))] == urls
    assert link.sub(r"\1", linked(seen)) == seen
    for mutant in MUTANTS:  # no number of an issue stays plain text
        assert not re.search(r"#\d+", link.sub("", linked(mutant.seen)))


@pytest.mark.parametrize(("recipe", "bugs"), RECIPES.items())
def test_what_the_guide_advises_finds_bugs(recipe, bugs):
    """The advice says nothing of the shipped code, and something of each bug, which may do anything."""
    recipe()
    for name in bugs:
        with planted(mutant_named(name)), pytest.raises(Exception):  # noqa: B017
            recipe()
