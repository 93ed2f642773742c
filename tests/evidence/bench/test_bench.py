"""The bench: its report is complete, its arithmetic is right, and a run that was cut goes on."""

import json
from dataclasses import replace

import pytest
import torch
from pairs import build_pair

from minispec import load_pair
from minispec.evidence.bench import run
from minispec.evidence.bench.run import NAMES, SECTIONS, choose, run_bench
from minispec.evidence.bench.section import CORE, FULL, QUICK, Plan, Section, Skipped, group

TINY = Plan(
    "tiny",
    choosing=1,
    reporting=2,
    repeats=1,
    new_tokens=8,
    widths=(1, 2),
    few_widths=(2,),
    temperatures=(0.0, 1.0),
    rows=(1, 3),
    latencies=1,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=128))


@pytest.fixture(scope="module")
def report(pair):
    """All that needs no other library, no training and no large model."""
    return run_bench(pair, sections=choose(full=True, skip=("real-sizes",)), plan=TINY)


def test_report_is_complete(report):
    """Every section has been found, what outside checks read is there, and every number is finite."""
    assert set(report["sections"]) == set(NAMES) - {"real-sizes"}
    assert report["skipped"] == {} and report["machine"]["cores"] >= 1 and report["pair"] == "tiny"
    assert [s["verifier"] for s in report["settings"]] == ["greedy", "rejection"]
    for setting in report["settings"]:
        assert setting["pair"] == "tiny" and setting["k"] in (1, 2) and setting["speedup"] > 0
        assert 0 <= setting["acceptance"] <= 1 and setting["tokens_per_target_call"] >= 1
        assert 0 <= setting["accepted_over_drafted"] <= setting["acceptance"]
        assert 1 <= setting["tokens_per_target_call"] <= setting["mean_acceptance_length"]
        assert {"draft", "verify", "rollback", "other"} <= setting["seconds"].keys()
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_speed_ups_are_over_the_fastest_target_only(report):
    """The baseline is where tokens take least time, greedy and sampled; so it is for the other side."""
    found = report["sections"]["target-only"]
    for side, key in (("baseline", "target_only"), ("speculative", "speculative")):
        total = {}
        for row in found["rows"]:
            where = row["path"], row["threads"]
            total[where] = total.get(where, 0) + 1 / row[key]
        assert (found[side]["path"], found[side]["threads"]) == min(total, key=total.get)


def test_every_backend_decodes_at_the_chosen_k(report):
    """What is reported is the K that was fastest on the choosing half; backends are over torch."""
    widths = report["sections"]["widths"]
    for chosen in widths["settings"]:
        tried = [row for row in widths["sweep"] if row["verifier"] == chosen["verifier"]]
        assert chosen["k"] == max(tried, key=lambda row: row["speedup"])["k"]
        own = [row for row in widths["backends"]["rows"] if row["verifier"] == chosen["verifier"]]
        assert {row["k"] for row in own} == {chosen["k"]}
        assert [row["over_readable"] for row in own if row["path"] == "torch"] == [1.0]


def test_drafts_and_batches_have_their_points(report):
    """From a draft that guesses at random to the target itself; batches of both sizes."""
    drafts = report["sections"]["drafts"]
    names = [point["name"] for point in drafts["points"]]
    assert sorted(names) == ["the pair's", "the pair's, bfloat16", "the target", "untrained"]
    own = next(point for point in drafts["points"] if point["name"] == "the target")
    assert own["alpha"] == pytest.approx(1.0, abs=0.05) and all(point["c"] > 0 for point in drafts["points"])
    assert [point["rows"] for point in report["sections"]["batch"]["points"]] == [1, 3]


@pytest.mark.parametrize(
    ("plan", "there", "dealt"),
    [
        (replace(TINY, choosing=3, reporting=3), 8, [3, 2, 3]),
        (CORE, 64, [20, 4, 8]),  # no more than 32 of them
        (FULL, 32, [12, 8, 12]),
        (FULL, 64, [28, 16, 20]),
        (FULL, 3, [1, 1, 1]),
    ],
)
def test_prompts_are_dealt_out_once(tmp_path, plan, there, dealt):
    """K is chosen on some, reported on others, and predicted from others still: not less than a third."""
    pair = load_pair(build_pair(tmp_path / "pair", prompts=[[n % 16] * 31 + [n // 16] for n in range(there)]))
    prompts = group(pair, plan)
    parts = [prompts.learning, prompts.choosing, prompts.reporting]
    assert [len(part) for part in parts] == dealt
    assert len({tuple(prompt) for part in parts for prompt in part}) == sum(dealt)


def swap(monkeypatch, name, measure):
    """Puts another function in the place of a section's."""
    sections = tuple(replace(s, run=measure) if s.name == name else s for s in SECTIONS)
    monkeypatch.setattr(run, "SECTIONS", sections)


def test_predictions_are_written_before_anything_they_are_about_is_measured(pair, tmp_path, monkeypatch):
    """When the section `widths` begins, the file beside the report holds what it should come to."""
    seen, out = [], tmp_path / "report.json"

    def look(bench):
        left = json.loads((tmp_path / "report.json.part").read_text())
        seen.append([p["setting"] for p in left["sections"]["prediction"]["settings"]])
        assert "widths" not in left["sections"] and not out.exists()
        return found(bench)

    found = next(s for s in SECTIONS if s.name == "widths").run
    swap(monkeypatch, "widths", look)
    report = run_bench(pair, sections=choose(("prediction", "widths")), plan=TINY, output=out)
    rows = report["sections"]["prediction"]["compared"]["rows"]
    assert len(rows) == 6 and {row["setting"] for row in rows} == set(seen[0])
    for row in rows:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    assert json.loads(out.read_text()) == report and list(tmp_path.iterdir()) == [out]


def test_a_cut_run_goes_on(pair, tmp_path, monkeypatch):
    """What was finished is not measured again; another plan, or another seed, begins anew."""
    calls, out = [], tmp_path / "report.json"

    def count(bench):
        calls.append(1)
        return {"n": len(calls)}

    def cut(bench):
        raise KeyboardInterrupt

    sections = (Section("latency", count), Section("widths", cut))
    monkeypatch.setattr(run, "SECTIONS", sections)
    arguments = {"sections": ("latency", "widths"), "plan": TINY, "output": out}
    with pytest.raises(KeyboardInterrupt):
        run_bench(pair, **arguments)
    assert not out.exists() and (tmp_path / "report.json.part").exists()
    monkeypatch.setattr(
        run, "SECTIONS", (sections[0], replace(sections[1], run=lambda bench: {"settings": []}))
    )
    assert run_bench(pair, **arguments)["sections"]["latency"] == {"n": 1}
    assert list(tmp_path.iterdir()) == [out]
    (tmp_path / "report.json.part").write_text(out.read_text())
    assert run_bench(pair, **arguments | {"seed": 1})["sections"]["latency"] == {"n": 2}
    (tmp_path / "report.json.part").write_text("{half")
    assert run_bench(pair, **arguments)["sections"]["latency"] == {"n": 3}


def test_the_type_is_a_condition(pair):
    """A report in bfloat16 says so, and its weights are not those of float32."""
    half = load_pair(pair.folder, dtype=torch.bfloat16)
    conditions = [run_bench(one, sections=("latency",), plan=TINY)["conditions"] for one in (pair, half)]
    assert [one["dtype"] for one in conditions] == ["float32", "bfloat16"]
    assert conditions[0]["target"] != conditions[1]["target"]


def test_a_section_that_cannot_be_measured_says_why(pair, monkeypatch):
    """So does one that needs it."""

    def refuse(bench):
        raise Skipped("there is no clock")

    swap(monkeypatch, "target-only", refuse)
    report = run_bench(pair, sections=choose(("auto",)), plan=TINY)
    assert report["skipped"]["target-only"] == "there is no clock"
    assert "target-only: there is no clock" in report["skipped"]["auto"]


def test_sections_are_chosen_with_what_they_need():
    """In the order in which they run; a wrong name is told the right ones."""
    assert choose(("auto",)) == ("target-only", "widths", "auto")
    assert choose(full=True) == NAMES and set(choose()) < set(NAMES)
    assert choose(("latency",), skip=("latency",)) == ()
    assert all(NAMES.index(need) < NAMES.index(s.name) for s in SECTIONS for need in s.needs)
    with pytest.raises(ValueError, match="there is latency, target-only"):
        choose(("weather",))
    assert [QUICK.name, CORE.name, FULL.name] == ["quick", "core", "full"]


def test_what_measures_nothing_is_refused(tmp_path):
    """A pair that records no prompts, or two: each is said in one line."""
    for prompts, words in (([], "has 0 prompts"), ([[1] * 32] * 2, "has 2 prompts")):
        pair = load_pair(build_pair(tmp_path / words, prompts=prompts))
        with pytest.raises(ValueError, match=words):
            run_bench(pair, plan=TINY)
