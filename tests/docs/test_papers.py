"""Papers in miniature: what is exact comes out again, and the page has every paper."""

from math import exp, isfinite, log

import pytest
import torch
from book import papers
from papers import adaptive, distillspec, leviathan, sequoia
from readability import unreadable

from minispec import ModelDrafter, SeededRng, Warp, speculate, verify_rejection
from minispec.evidence.proof.models import table_model
from minispec.evidence.theory.formulas import acceptance

FOUND = papers.recorded()
FIGURES = [name for name in FOUND if hasattr(papers.paper(name), "figure")]
COMPUTED = [name for name, record in FOUND.items() if record["rows"] and hasattr(papers.paper(name), "exact")]


def rows_of(name):
    """Returns the recorded rows of a paper, of which there must be some."""
    rows = FOUND[name]["rows"]
    assert rows
    return rows


def test_what_a_record_has():
    """When, how long, on which machine, and rows of finite numbers."""
    assert set(FOUND) <= set(papers.NAMES)
    for record in FOUND.values():
        assert set(record) == {"date", "seconds", "machine", "rows"}
        assert record["seconds"] >= 0 and {"processor", "threads", "torch"} <= set(record["machine"])
        numbers = [value for row in record["rows"] for value in row.values() if isinstance(value, float)]
        assert all(map(isfinite, numbers))


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_exact_comes_out_again(name):
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
    for row in rows_of("leviathan"):
        assert abs(row["measured"] - row["exact"]) < 5 * row["error"]


@pytest.mark.parametrize("alpha", leviathan.ALPHAS)
def test_the_table_models_have_this_acceptance_everywhere(alpha):
    target, draft = (model.table.softmax(-1) for model in leviathan.models(alpha))
    assert [acceptance(*both) for both in zip(target, draft, strict=True)] == pytest.approx([alpha] * 6)


def test_a_tree_by_its_paths_is_the_best_by_the_programme():
    """The trees that were run have the expected tokens that the dynamic programme found."""
    first, *rows = rows_of("sequoia")
    rates = first["rates"]
    best = [row for row in rows if row["shape"] == "best" and "measured" in row]
    assert best
    for row in best:
        parents = sequoia.best_tree(row["size"], rates)
        ranks = [parents[:i].count(parent) for i, parent in enumerate(parents)]
        assert sequoia.path_sum(parents, ranks, rates) == pytest.approx(row["expected"], rel=1e-3)


def test_costs_are_counted_by_hand():
    """A draft that is the target: two rounds of two drafted tokens and a bonus."""
    target = table_model(3)
    how = {"k": 2, "verifier": verify_rejection, "warp": Warp(), "rng": SeededRng(0)}
    found = adaptive.counted(speculate(target, ModelDrafter(target), [[0]], max_new_tokens=6, **how))
    assert found == {"tokens": 3, "drafted": 2, "speed_up": pytest.approx(6 / (2 + 4 * adaptive.C))}


def test_divergences_by_hand():
    """Of p = (1/2, 1/2) from q = (1/4, 3/4)."""
    p, q = (torch.tensor(dist).log() for dist in ([0.5, 0.5], [0.25, 0.75]))
    found = [float(distillspec.distance(name, p, q)) for name in distillspec.DIVERGENCES]
    expected = [log(2) - log(3) / 2, 3 / 4 * log(3) - log(2), 1 / 4]
    assert found == pytest.approx(expected)


def test_the_page_names_every_paper():
    """Claim, what was done and a word on how."""
    text = " ".join(papers.page(FOUND).split())
    for name in papers.NAMES:
        module = papers.paper(name)
        rows = FOUND.get(name, {}).get("rows")
        assert f"## {module.TITLE}" in text and (module.VERDICT if rows else "not recorded") in text
        assert " ".join(module.CLAIM.split()) in text


@pytest.mark.parametrize("name", FIGURES)
def test_figures_can_be_read(name):
    picture = papers.figure(name)
    assert unreadable(picture.figure) == {} and picture.twin.startswith(picture.title)


def test_what_the_papers_prove_holds_in_the_record():
    """Bounds, on rows that are exact."""
    for row in rows_of("spectr"):
        assert 1 - exp(-1) <= row["least"] and row["sequential"] <= row["optimum"]
    for row in rows_of("intersection"):
        assert row["total_variation"] < 1e-12 and row["union"] <= row["intersection"]
    assert all(row["token"] <= row["block"] for row in rows_of("block"))
