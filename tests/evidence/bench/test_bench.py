"""The bench: a report of all sections is complete, and prompts are dealt out once."""

import json
from dataclasses import replace
from itertools import product

import pytest
from pairs import build_pair

from minispec import SeededRng, Warp, load_pair
from minispec.evidence.bench import real, real_sizes
from minispec.evidence.bench.drafters import ROWS
from minispec.evidence.bench.run import NAMES, SECTIONS, choose, run_bench
from minispec.evidence.bench.section import CORE, FULL, QUICK, Plan, group
from minispec.evidence.bench.sections import RULES
from minispec.evidence.theory.acceptance import acceptance_probabilities, target_only_texts


def test_every_section_has_its_rows(report):
    """What outside checks read is there, of every section, and every number is finite."""
    assert set(report["sections"]) == set(NAMES) - {"real-sizes", "real"}
    assert report["machine"]["cores"] >= 1 and report["pair"] == "tiny"
    assert [s["verifier"] for s in report["settings"]] == ["greedy", "rejection"]
    for setting in report["settings"]:
        assert setting["pair"] == "tiny" and setting["k"] in (1, 2) and setting["speedup"] > 0
        assert 0 <= setting["accepted_over_drafted"] <= setting["acceptance"] <= 1 and "share" in setting
        assert 1 <= setting["tokens_per_target_call"] <= setting["mean_acceptance_length"]
        assert {"draft", "verify", "rollback", "other"} <= setting["seconds"].keys()
    sections = report["sections"]
    names = [point["name"] for point in sections["drafts"]["points"]]
    assert sorted(names) == ["the pair's", "the pair's, bfloat16", "the target", "untrained"]
    itself = next(point for point in sections["drafts"]["points"] if point["name"] == "the target")
    assert itself["alpha"] == pytest.approx(1.0, abs=0.05)
    assert [point["rows"] for point in sections["batch"]["points"]] == [1, 3]
    assert {(row["rule"], row["k"]) for row in sections["rules"]["rows"]} == set(product(RULES, (1, 3)))
    assert {row["over_token"] for row in sections["rules"]["rows"] if row["rule"] == "token"} == {1}
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_every_drafter_that_can_be_had_is_in_the_table(report):
    """Once on each backend, greedy and sampled; the others say why not."""
    rows = report["drafters"]
    lack = report["sections"]["drafters"]["unavailable"]
    missing = {name for name in ROWS for place in lack if place.startswith(f"tiny, {name}")}
    assert {row["name"] for row in rows} | missing == set(ROWS)
    assert {"model", "ngram", "suffix", "tree"} <= {row["name"] for row in rows}
    assert all("train it with" in lack[f"tiny, {name}"] for name in ("exit", "medusa", "eagle"))
    for row in rows:
        assert row["lossless"] is True and row["k"] in (1, 3, 16) and row["extra_bytes"] > 0
        assert min(row["speedup"], row["speedup_over_fastest"]) > 0 and row["tokens_per_target_call"] >= 1
        assert len(row["acceptance_by_position"]) <= row["k"]
        assert all(0 <= rate <= 1 for rate in row["acceptance_by_position"])
    on = [(row["name"], row["backend"], row["temperature"]) for row in rows]
    assert len(set(on)) == len(on) and ("ngram", "torch", 0.0) in on and ("model", "torch", 1.0) in on


@pytest.mark.evidence
def test_sections_on_real_models_have_their_rows(tmp_path, monkeypatch):
    """On tiny ones: every drafter for each kind of prompt, and every shape, type and number of threads."""
    pair = load_pair(build_pair(tmp_path / "tiny", max_length=2048))
    monkeypatch.setattr(real_sizes, "SHAPES", {"tiny": pair.target.config})
    monkeypatch.setattr(real_sizes, "SETTLE", 1e-4)
    plan = Plan("tiny", reporting=2, repeats=2, new_tokens=8, latencies=1)
    report = run_bench(pair, sections=("real",), plan=plan)
    keys = [(row["kind"], row["temperature"], row["drafter"]) for row in report["real_models"]]
    assert len(set(keys)) == len(keys) >= len(real.KINDS) * 2 * 2
    for row in report["real_models"]:
        assert row["milliseconds_per_token"] > 0
        if row["temperature"] == 0:
            assert row["texts"] == 2 * row["passes"] == row["equal"] + row["near_ties"]
    rows = run_bench(pair, sections=("real-sizes",), plan=plan)["real_sizes"]
    for row in rows:
        assert set(row["milliseconds"]) == {"1", "5", "9"} and min(row["milliseconds"].values()) > 0
    assert {"torch", "native"} <= {row["backend"] for row in rows}


def test_alpha_stands_beside_what_runs_count(report, pair, tiny):
    """Greedy: the share of the target's own tokens, on the reporting prompts, that the draft would choose."""
    prompts = group(pair, tiny).reporting
    texts = target_only_texts(pair.target, prompts, tiny.new_tokens, Warp(0), SeededRng(0))
    agreed = sum(acceptance_probabilities(pair.target, pair.draft, prompts, texts, Warp(0)), [])
    greedy, sampled = (setting["alpha"] for setting in report["settings"])
    assert greedy == pytest.approx(sum(agreed) / len(agreed)) and 0 < sampled < 1


def test_every_backend_decodes_at_the_chosen_k(report):
    """What is reported is the K that was fastest on the choosing half; backends are over torch."""
    widths = report["sections"]["widths"]
    for chosen in widths["settings"]:
        tried = [row for row in widths["sweep"] if row["verifier"] == chosen["verifier"]]
        assert chosen["k"] == max(tried, key=lambda row: row["speedup"])["k"]
        matching = [row for row in widths["backends"]["rows"] if row["verifier"] == chosen["verifier"]]
        assert {row["k"] for row in matching} == {chosen["k"]}
        assert [row["over_readable"] for row in matching if row["path"] == "torch"] == [1.0]


@pytest.mark.parametrize(
    ("plan", "there", "dealt"),
    [
        (Plan(choosing=3, reporting=3), 8, [3, 2, 3]),
        (CORE, 64, [20, 4, 8]),  # no more than 32 of them
        (FULL, 32, [12, 8, 12]),
        (FULL, 64, [28, 16, 20]),
        (FULL, 3, [1, 1, 1]),
    ],
)
def test_prompts_are_dealt_out_once(pair, plan, there, dealt):
    """K is chosen on some, reported on others, and predicted from others still: not less than a third."""
    known = [[n] * 32 for n in range(there)]
    prompts = group(replace(pair, info={"prompts": known}), plan)
    parts = [prompts.learning, prompts.choosing, prompts.reporting]
    assert [len(part) for part in parts] == dealt
    assert len({tuple(prompt) for part in parts for prompt in part}) == sum(dealt)


def test_sections_are_chosen_with_what_they_need():
    """In the order in which they run; a wrong name is told the right ones."""
    assert choose(("auto",)) == ("target-only", "widths", "auto")
    assert choose(full=True) == NAMES[:-1] and set(choose()) < set(NAMES)
    assert all(NAMES.index(need) < NAMES.index(s.name) for s in SECTIONS for need in s.needs)
    with pytest.raises(ValueError, match="there is latency, target-only"):
        choose(("weather",))
    assert [QUICK.name, CORE.name, FULL.name] == ["quick", "core", "full"]


def test_what_measures_nothing_is_refused(pair):
    """A pair that records too few prompts."""
    with pytest.raises(ValueError, match="has 2 prompts"):
        run_bench(replace(pair, info={"prompts": [[1] * 32] * 2}), sections=choose())
