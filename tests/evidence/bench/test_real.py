"""The section on a real checkpoint, on a tiny random one: every row is there, and texts are the target's."""

from dataclasses import replace

import pytest
from pairs import build_pair

from minispec import load_pair
from minispec.evidence.bench import real
from minispec.evidence.bench.interleaved import Run
from minispec.evidence.bench.run import run_bench
from minispec.evidence.bench.section import Plan, Section
from minispec.io.trace import Statistics
from minispec.native.loop import Forwards

PLAN = Plan("tiny", reporting=2, repeats=2, new_tokens=8, latencies=1)
DRAFTERS = {real.ALONE, real.AGAIN, *real.WIDTHS} - {*real.TRAINED}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=2048))


class Parrot:
    """Somebody else, who says always the same."""

    def decode(self, prompts, seed, new_tokens):
        return Run(0.5, ((7,) * new_tokens,))


def test_every_drafter_has_a_row_for_each_kind(pair):
    """Greedy over all passes, sampled in one; the texts of all drafters are those of the target alone."""
    report = run_bench(pair, sections=("real",), plan=PLAN)
    rows = report["real_models"]
    keys = [(row["kind"], row["temperature"], row["drafter"]) for row in rows]
    assert len(set(keys)) == len(keys) == len(real.KINDS) * 2 * len(DRAFTERS)
    for row in rows:
        assert (row["project"], row["weights"]) == ("minispec", "float32")
        assert row["drafter"] in DRAFTERS and row["milliseconds_per_token"] > 0
        assert row["passes"] == (1 if row["temperature"] or row["drafter"] in real.ONCE else 2)
        if row["temperature"] == 0:
            assert row["texts"] == 2 * row["passes"] == row["equal"] + row["near_ties"]
        if row["drafter"] in real.WIDTHS:
            assert row["tokens_per_target_call"] >= 1 and row["speedup"] > 0
            assert (row["limit"] is None) is (row["share"] is None)
    assert {point["shape"] for point in report["real_sizes"]} == {"tiny"}
    assert report["prefill"][0]["tokens"] == real.PREFILL and report["prefill"][0]["milliseconds"] > 0


def test_others_stand_beside_ours(pair):
    """Over their own target alone, with the texts of that; in one pass, with prefill."""
    peers = [real.Side("parrots", "Q2", name, Parrot()) for name in (real.ALONE, "look-up")]
    more = [
        Section("chat", lambda bench: real.measure(bench, peers, ("chat",))),
        Section("long", lambda bench: real.forwards(bench, peers)),
    ]
    report = run_bench(pair, sections=("chat", "long"), plan=PLAN, more=more)
    rows = {(row["project"], row["drafter"]): row for row in report["beside"]}
    assert {("minispec", real.ALONE), ("minispec", "suffix"), ("parrots", "look-up")} <= set(rows)
    theirs = rows["parrots", "look-up"]
    assert (theirs["texts"], theirs["equal"], theirs["speedup"]) == (2, 2, 1.0)
    assert theirs["limit"] is None and theirs["milliseconds_per_token"] == 500 / 8
    assert [row["project"] for row in report["prefill"]] == ["minispec", "parrots"]


def test_a_pass_adds_up():
    """Seconds, tokens, counts and forwards of its prompts; a gain is over those of the target alone."""
    counts = Statistics(emitted=6, target_calls=2, row_rounds=2, accepted=4, tested=5, drafted=8, seconds={})
    runs = [Run(0.2, ((1,) * 6,), counts, forwards=Forwards(0.02, 0.1, 0.01)) for _ in range(3)]
    alone = [Run(0.6, ((1,) * 6,), forwards=Forwards(0.0, 0.48, 0.01))] * 3
    row = real.figures([real.together(alone)], [real.together(runs)])
    assert row["milliseconds_per_token"] == pytest.approx(100 / 3) and row["speedup"] == pytest.approx(3)
    assert row["tokens_per_target_call"] == 3 and row["acceptance"] == 0.8
    assert row["limit"] == pytest.approx(4) and row["share"] == pytest.approx(0.65)


def test_a_text_that_differs_is_counted(pair):
    """It is no near tie, if the token is another one."""
    prompt = [5, 6, 7]
    target = pair.target
    own = Run(1.0, ((1, 2, 3), (1, 2, 3)))
    other = replace(own, texts=((1, 2, 3), (1, 9, 3)))
    assert real.texts(target, [prompt, prompt], [own], [other]) == {"texts": 2, "equal": 1, "near_ties": 0}


def test_prompts_are_of_all_kinds():
    """Eight or more of each, none twice."""
    assert set(real.KINDS) == {"chat", "story", "code", "edit", "summary"}
    for texts in real.KINDS.values():
        assert len(set(texts)) == len(texts) >= 8
