"""The bench: its report is complete, its arithmetic is right, and a run that was cut goes on."""

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch

from minispec import SeededRng, Warp, load_pair
from minispec.evidence.bench.run import NAMES, SECTIONS, choose, run_bench
from minispec.evidence.bench.section import CORE, FULL, QUICK, Plan, Section, group
from minispec.evidence.bench.sections import widths
from minispec.evidence.theory.acceptance import acceptance_probabilities, target_only_texts
from minispec.io.files import read_json


def test_report_is_complete(report):
    """Every section has been found, what outside checks read is there, and every number is finite."""
    assert set(report["sections"]) == set(NAMES) - {"real-sizes", "real"}
    assert report["machine"]["cores"] >= 1 and report["pair"] == "tiny"
    assert [s["verifier"] for s in report["settings"]] == ["greedy", "rejection"]
    for setting in report["settings"]:
        assert {"limit", "share", "target_only_share"} <= setting.keys()
        assert setting["pair"] == "tiny" and setting["k"] in (1, 2) and setting["speedup"] > 0
        assert 0 <= setting["accepted_over_drafted"] <= setting["acceptance"] <= 1
        assert 1 <= setting["tokens_per_target_call"] <= setting["mean_acceptance_length"]
        assert {"draft", "verify", "rollback", "other"} <= setting["seconds"].keys()
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_alpha_stands_beside_what_runs_count(report, pair, tiny):
    """Greedy: the share of the target's own tokens, on the reporting prompts, that the draft would choose."""
    prompts = group(pair, tiny).reporting
    texts = target_only_texts(pair.target, prompts, tiny.new_tokens, Warp(0), SeededRng(0))
    agreed = sum(acceptance_probabilities(pair.target, pair.draft, prompts, texts, Warp(0)), [])
    greedy, sampled = (setting["alpha"] for setting in report["settings"])
    assert greedy == pytest.approx(sum(agreed) / len(agreed)) and 0 < sampled < 1


def test_speed_ups_are_over_the_fastest_target_only(report):
    """The baseline is where tokens take least time, greedy and sampled; so it is for the other side."""
    results = report["sections"]["target-only"]
    for side, key in (("baseline", "target_only"), ("speculative", "speculative")):
        total = Counter()
        for row in results["rows"]:
            total[row["path"], row["threads"]] += 1 / row[key]
        assert (results[side]["path"], results[side]["threads"]) == min(total, key=total.get)


def test_every_backend_decodes_at_the_chosen_k(report):
    """What is reported is the K that was fastest on the choosing half; backends are over torch."""
    widths = report["sections"]["widths"]
    for chosen in widths["settings"]:
        tried = [row for row in widths["sweep"] if row["verifier"] == chosen["verifier"]]
        assert chosen["k"] == max(tried, key=lambda row: row["speedup"])["k"]
        matching = [row for row in widths["backends"]["rows"] if row["verifier"] == chosen["verifier"]]
        assert {row["k"] for row in matching} == {chosen["k"]}
        assert [row["over_readable"] for row in matching if row["path"] == "torch"] == [1.0]


def test_drafts_and_batches_have_their_points(report):
    """From a draft that guesses at random to the target itself; batches of both sizes."""
    drafts = report["sections"]["drafts"]
    names = [point["name"] for point in drafts["points"]]
    assert sorted(names) == ["the pair's", "the pair's, bfloat16", "the target", "untrained"]
    itself = next(point for point in drafts["points"] if point["name"] == "the target")
    assert itself["alpha"] == pytest.approx(1.0, abs=0.05) and all(
        point["c"] > 0 for point in drafts["points"]
    )
    assert [point["rows"] for point in report["sections"]["batch"]["points"]] == [1, 3]


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


def test_predictions_are_written_before_anything_they_are_about_is_measured(pair, tiny, tmp_path):
    """When the section `widths` begins, the file beside the report holds what it should come to."""
    predictions = []
    out = tmp_path / "report.json"

    def look(bench):
        partial_report = read_json(tmp_path / "report.json.part")
        predictions.extend(row["setting"] for row in partial_report["sections"]["prediction"]["settings"])
        assert "widths" not in partial_report["sections"] and not out.exists()
        return widths(bench)

    more = [Section("widths", look, ("target-only",))]
    report = run_bench(pair, sections=choose(("prediction", "widths")), plan=tiny, output=out, more=more)
    rows = report["sections"]["prediction"]["compared"]["rows"]
    assert len(rows) == 6 and {row["setting"] for row in rows} == set(predictions)
    assert read_json(out) == report and list(tmp_path.iterdir()) == [out]


def test_a_cut_run_goes_on(pair, tiny, tmp_path):
    """What was finished is not measured again; another plan, or another seed, begins anew."""
    calls = []
    out = tmp_path / "report.json"
    part = tmp_path / "report.json.part"

    def count(bench):
        calls.append(1)
        return {"n": len(calls)}

    def cut(bench):
        raise KeyboardInterrupt

    def measured(last, **changes):
        more = [Section("latency", count), Section("widths", last)]
        how = {"sections": ("latency", "widths"), "plan": tiny, "output": out, "more": more}
        return run_bench(pair, **how | changes)["sections"]["latency"]

    with pytest.raises(KeyboardInterrupt):
        measured(cut)
    assert not out.exists() and part.exists()
    assert measured(lambda bench: {}) == {"n": 1} and list(tmp_path.iterdir()) == [out]
    part.write_text(out.read_text())
    assert measured(lambda bench: {}, seed=1) == {"n": 2}
    part.write_text("{half")
    assert measured(lambda bench: {}) == {"n": 3}


def test_the_type_is_a_condition(pair, tiny):
    """A report in bfloat16 says so, and its weights are not those of float32."""
    half = load_pair(pair.folder, dtype=torch.bfloat16)
    conditions = [run_bench(of, sections=("latency",), plan=tiny)["conditions"] for of in (pair, half)]
    assert [condition["dtype"] for condition in conditions] == ["float32", "bfloat16"]
    assert conditions[0]["target"] != conditions[1]["target"]


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
