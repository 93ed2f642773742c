"""The bench: its report is complete, its arithmetic is right, and a run that was cut goes on."""

import json
import math
from dataclasses import replace

import pytest
from pairs import build_pair

from minispec import load_pair
from minispec.evidence.bench.interleaved import (
    Run,
    Setting,
    Turn,
    gain_of,
    quartiles,
    round_robin,
    take_turn,
    take_turns,
)
from minispec.evidence.bench.sections import everything, run
from minispec.evidence.bench.sections.plan import CORE, FULL, QUICK, Plan
from minispec.evidence.bench.sections.registry import NAMES, SECTIONS, choose
from minispec.evidence.bench.sections.run import run_bench
from minispec.evidence.bench.sections.section import Section, Skipped, group
from minispec.io.trace import Statistics

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
    batch_repeats=1,
    latencies=1,
    paths=("torch", "native"),
    matrix_bytes=2**20,
    parameters=(1e6,),
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=128))


@pytest.fixture(scope="module")
def report(pair):
    """All that needs no other library and no training."""
    names = choose(full=True, skip=("draft-sizes", "transformers"))
    return run_bench(pair, sections=names, plan=TINY)


def numbers(value):
    """Yields every number in a document."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


class Timed:
    """A way of decoding that takes as long as it is told, and notes its turns."""

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log = name, seconds, log

    def decode(self, prompts, seed, new_tokens):
        self.log.append((self.name, seed, new_tokens))
        counts = Statistics(new_tokens, 1, 1, 1, 1, 1, {"draft": 0.1})
        return Run(self.seconds, tuple(tuple(range(new_tokens)) for _ in prompts), counts)


def test_report_is_complete(pair, report):
    """Every section has been found, what outside checks read is there, and every number is finite."""
    assert set(report["sections"]) == set(NAMES) - {"draft-sizes", "transformers"}
    assert report["skipped"] == {} and report["machine"]["cores"] >= 1 and report["pair"] == "tiny"
    assert all(map(math.isfinite, numbers(report)))
    assert [s["verifier"] for s in report["settings"]] == ["greedy", "rejection"]
    for setting in report["settings"]:
        assert setting["pair"] == "tiny" and setting["k"] in (1, 2) and setting["speedup"] > 0
        assert 0 <= setting["acceptance"] <= 1 and setting["tokens_per_target_call"] >= 1
        assert {"draft", "verify", "rollback", "other"} <= setting["seconds"].keys()
    assert json.loads(json.dumps(report)) == report


def test_every_goal_is_in_the_reach(report):
    """Each row of the table has a value or a reason; a value is judged by its limit, the right way round."""
    rows = {(row["what"], row["pair"]): row for row in report["reach"]}
    assert len(rows) == len(report["reach"]) == 13
    for row in rows.values():
        assert (row["value"] is None) == ("reason" in row) and row["aim"] is not None
        if row["value"] is not None and row["at_least"] is not None:
            better = (
                row["value"] <= row["at_least"]
                if row["better"] == "lower"
                else row["value"] >= row["at_least"]
            )
            assert row["reached"] is better
    assert rows["speed-up, greedy", "stories"]["reason"] == "measured with --pair stories"
    assert rows["automatic K over the best fixed K", "tiny"]["value"] > 0


def test_speed_ups_are_over_the_fastest_target_only(report):
    """The baseline is the combination whose tokens take least time over both laws; so is the other side's."""
    found = report["sections"]["target-only"]
    for side, key in (("baseline", "target_only"), ("speculative", "speculative")):
        total = {}
        for row in found["rows"]:
            place = row["path"], row["threads"]
            total[place] = total.get(place, 0) + 1 / row[key]
        assert (found[side]["path"], found[side]["threads"]) == min(total, key=total.get)
    assert report["sections"]["widths"]["baseline"] == found["baseline"]


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


def swap(monkeypatch, name, measure):
    """Puts another function in the place of a section's."""
    sections = tuple(replace(s, run=measure) if s.name == name else s for s in SECTIONS)
    monkeypatch.setattr(run, "SECTIONS", sections)


def test_a_cut_run_goes_on(pair, tmp_path, monkeypatch):
    """What was finished is not measured again; another plan, or another seed, begins anew."""
    calls, out = [], tmp_path / "report.json"

    def count(bench):
        calls.append(1)
        return {"n": len(calls)}

    def cut(bench):
        raise KeyboardInterrupt

    sections = (Section("memory", "", count), Section("widths", "", cut))
    monkeypatch.setattr(run, "SECTIONS", sections)
    arguments = {"sections": ("memory", "widths"), "plan": TINY, "output": out}
    with pytest.raises(KeyboardInterrupt):
        run_bench(pair, **arguments)
    assert not out.exists() and (tmp_path / "report.json.part").exists()
    monkeypatch.setattr(
        run, "SECTIONS", (sections[0], replace(sections[1], run=lambda bench: {"settings": []}))
    )
    assert run_bench(pair, **arguments)["sections"]["memory"] == {"n": 1}
    assert list(tmp_path.iterdir()) == [out]
    (tmp_path / "report.json.part").write_text(out.read_text())
    assert run_bench(pair, **arguments | {"seed": 1})["sections"]["memory"] == {"n": 2}
    (tmp_path / "report.json.part").write_text("{half")
    assert run_bench(pair, **arguments)["sections"]["memory"] == {"n": 3}


def test_a_section_that_cannot_be_measured_says_why(pair, monkeypatch):
    """So does one that needs it, and the reach."""

    def refuse(bench):
        raise Skipped("there is no clock")

    swap(monkeypatch, "target-only", refuse)
    report = run_bench(pair, sections=choose(("auto",)), plan=TINY)
    assert report["skipped"]["target-only"] == "there is no clock"
    assert "target-only: there is no clock" in report["skipped"]["auto"]
    (row,) = (row for row in report["reach"] if row["what"].startswith("automatic"))
    assert row["value"] is None and "no clock" in row["reason"]


def test_sections_are_chosen_with_what_they_need():
    """In the order in which they run; a wrong name is told the right ones."""
    assert choose(("auto",)) == ("target-only", "widths", "auto")
    assert choose(full=True) == NAMES and set(choose()) < set(NAMES)
    assert choose(("memory",), skip=("memory",)) == ()
    assert all(NAMES.index(need) < NAMES.index(s.name) for s in SECTIONS for need in s.needs)
    with pytest.raises(ValueError, match="there is latency, target-only"):
        choose(("weather",))
    assert [QUICK.name, CORE.name, FULL.name] == ["quick", "core", "full"]
    assert len(everything.SECTIONS) == 16


def test_speedup_is_the_median_ratio():
    """Turns of 4, 2 and 1 times as fast give 2; acceptance is accepted over tested."""
    statistics = Statistics(20, 5, 5, 15, 20, 25, {"draft": 1.0})
    turns = [Turn(ratio, 1.0, statistics) for ratio in (4.0, 1.0, 2.0)]
    setting = Setting("p", "greedy", 0.0, 5, turns)
    assert setting.speedup == 2.0 and gain_of(turns) == (2.0, 1.5, 3.0)
    figures = setting.to_json()
    assert figures["acceptance"] == 0.75 and figures["tokens_per_target_call"] == 4.0
    assert figures["speedup_quartiles"] == [1.5, 3.0]


@pytest.mark.parametrize("flip", [False, True])
def test_a_turn_is_target_only_over_speculative_whoever_begins(flip):
    """8 seconds alone over 2 with a draft is 4, and both have decoded the same."""
    log = []
    turn = take_turn(Timed("alone", 8.0, log), Timed("draft", 2.0, log), [[1]], 3, 5, flip)
    assert turn.ratio == 4.0 and [name for name, *_ in log] == (
        ["draft", "alone"] if flip else ["alone", "draft"]
    )
    assert {(seed, tokens) for _, seed, tokens in log} == {(3, 5)}


def test_what_is_compared_takes_turns():
    """Each way follows or precedes its base on every prompt, after a warm-up that is not counted."""
    log = []
    base, ways = {}, {}
    for name in "ab":
        base[name], ways[name] = Timed("alone", 1.0, log), Timed(name, 0.5, log)
    turns = take_turns(base, ways, [[[1]], [[2]]], seed=7, new_tokens=40)
    assert {name: len(of) for name, of in turns.items()} == {"a": 2, "b": 2}
    assert [name for name, _, tokens in log if tokens == 40] == [
        *("alone", "a"), *("b", "alone"), *("a", "alone"), *("alone", "b")
    ]  # fmt: skip
    assert [seed for _, seed, tokens in log if tokens == 40] == [7] * 4 + [8] * 4


def test_who_begins_moves_on():
    """Over three batches each of three ways has been first once."""
    log = []
    runs = round_robin({n: Timed(n, 1.0, log) for n in "abc"}, [[[1]]] * 3, seed=0, new_tokens=40)
    assert "".join(name for name, _, tokens in log if tokens == 40) == "abcbcacab"
    assert {name: len(of) for name, of in runs.items()} == {"a": 3, "b": 3, "c": 3}


def test_quartiles():
    """Quartiles of 1 to 5 are 2, 3 and 4."""
    assert quartiles([5, 1, 4, 2, 3]) == (2, 3, 4) and quartiles([7]) == (7, 7, 7)
    with pytest.raises(ValueError, match="nothing"):
        quartiles([])


@pytest.mark.parametrize("changes", [{"repeats": 0}, {"widths": ()}, {"rows": (0,)}])
def test_plans_of_nothing(changes):
    """A plan that measures nothing is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        replace(CORE, **changes)


def test_a_pair_without_prompts(tmp_path):
    """A pair that records no prompts, or two, cannot be measured, and that is said."""
    bare = load_pair(build_pair(tmp_path / "bare", prompts=[]))
    with pytest.raises(ValueError, match="no prompts"):
        run_bench(bare, plan=TINY)
    few = load_pair(build_pair(tmp_path / "few", prompts=[[1] * 32] * 2))
    with pytest.raises(ValueError, match="3 or more"):
        run_bench(few, plan=TINY)
