"""What the book records and this machine can compute exactly comes out again."""

import pytest
from book import papers
from book.atlas import RECORDED
from papers import sequoia

from minispec.evidence.atlas.atlas import chain_means, measure
from minispec.evidence.atlas.family import positions
from minispec.evidence.atlas.rules import RULES
from minispec.io.files import read_json

pytestmark = pytest.mark.evidence
FOUND = papers.recorded()
EXACT = [name for name, record in FOUND.items() if record["rows"] and hasattr(papers.paper(name), "exact")]


@pytest.mark.parametrize("name", EXACT)
def test_papers_in_miniature(name):
    """These rows come first, and have further columns where something was measured beside them."""
    kept = FOUND[name]["rows"]
    if name == "sequoia":
        again = sequoia.exact(kept)
        kept = kept[1:]
    else:
        again = papers.paper(name).exact()
    assert 0 < len(again) <= len(kept)
    for row, recorded in zip(again, kept, strict=False):
        for key, value in row.items():
            expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-6, abs=1e-9)
            assert recorded[key] == expected


def test_measured_means_lie_near_the_closed_form():
    """The recorded ones: 5 standard errors are passed by chance once in a million."""
    rows = FOUND["leviathan"]["rows"]
    assert rows and all(abs(row["measured"] - row["exact"]) < 5 * row["error"] for row in rows)


def test_the_atlas():
    """Every rule with each number of candidates; those with one are measured again, and the chains."""
    record = read_json(RECORDED)
    found = {(one["name"], one["candidates"]): one for one in record["rules"]}
    assert record["passed"]
    assert list(found) == [(rule.name, k) for rule in RULES for k in rule.candidates]
    for rule in RULES:
        if rule.candidates == (1,):
            again = measure(rule, 1, *positions())
            for name in ("accepted", "optimum", "total_variation", "draws"):
                assert getattr(again, name) == pytest.approx(found[rule.name, 1][name], abs=1e-9)
    assert [one.block for one in chain_means()] == pytest.approx([one["block"] for one in record["chains"]])
