"""Interleaved timing: who decodes when, and what is made of the seconds."""

from dataclasses import replace

import pytest
import torch

from minispec import load_pair
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench.interleaved import (
    Run,
    Setting,
    figures,
    interleave,
    limit_of,
    quartiles,
    share_of,
    speed_up_of,
)
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.io.trace import Statistics
from minispec.native.backend import on_backend
from minispec.native.drafters import make_drafter
from minispec.native.loop import Forwards


class Timed:
    """A setting that takes as long as it is told, and notes when it decodes."""

    def __init__(self, name, seconds, log):
        self.name = name
        self.seconds = seconds
        self.log = log

    def decode(self, prompts, seed, new_tokens):
        self.log.append((self.name, seed, new_tokens))
        return Run(self.seconds, tuple(tuple(range(new_tokens)) for _ in prompts))


def test_each_setting_follows_or_precedes_its_base():
    """On every prompt, after a warm-up that is not counted; who begins changes, and so does the seed."""
    log = []
    groups = {name: (Timed("alone", 1.0, log), Timed(name, 0.5, log)) for name in "ab"}
    runs = interleave(groups, [[[1]], [[2]]], seed=7, new_tokens=40)
    assert {name: [len(of) for of in sides] for name, sides in runs.items()} == {"a": [2, 2], "b": [2, 2]}
    assert [name for name, _, tokens in log if tokens == 40] == [
        *("alone", "a"), *("b", "alone"), *("a", "alone"), *("alone", "b")
    ]  # fmt: skip
    assert [seed for _, seed, tokens in log if tokens == 40] == [7] * 4 + [8] * 4
    assert speed_up_of(*runs["a"]) == (2.0, 2.0, 2.0)  # target-only over speculative, whoever began


def test_who_begins_moves_on():
    """Over three batches each of three settings has been first once. After the last seed comes the first."""
    log = []
    last = 2**32 - 1
    runs = interleave({"": [Timed(n, 1.0, log) for n in "abc"]}, [[[1]]] * 3, seed=last, new_tokens=40)[""]
    assert [seed for _, seed, tokens in log if tokens == 40][::3] == [last, 0, 1]
    assert "".join(name for name, _, tokens in log if tokens == 40) == "abcbcacab"
    assert [len(of) for of in runs] == [3, 3, 3]


def test_the_speed_up_is_the_median_ratio():
    """Ratios of 4, 2 and 1 give 2; acceptance is accepted over tested, and beside it as engines count."""
    statistics = Statistics(20, 5, 5, 15, 20, 25, {"draft": 1.0})
    alone = [Run(seconds, ((1, 2),)) for seconds in (4.0, 1.0, 2.0)]
    drafted = [Run(1.0, ((1, 2),), statistics)] * 3
    row = figures("p", Setting(None, 5, "greedy", 0.0, label="x"), alone, drafted)
    assert row["speedup"] == 2.0 and row["speedup_quartiles"] == [1.5, 3.0]
    assert row["acceptance"] == 0.75 and row["tokens_per_target_call"] == 4.0
    assert row["accepted_over_drafted"] == 0.6 and row["mean_acceptance_length"] == 1 + 15 / 5
    assert row["setting"] == "greedy, T = 0, K = 5, x" and row["seconds"]["draft"] == 1.0


def test_the_limit_is_a_ratio_of_forwards_alone():
    """3 s of forwards for 2 tokens, 2 s for 4 with a draft: 3 times; prefill counts in the shares only."""
    alone = [Run(5.0, ((1, 2),), forwards=Forwards(0.0, 3.0, 1.0))] * 3
    drafted = [Run(4.0, ((1, 2, 3, 4),), forwards=Forwards(0.5, 1.5, 1.0))] * 3
    assert limit_of(alone, drafted) == 3.0 and speed_up_of(alone, drafted)[1] == 2.5
    assert share_of(alone) == 0.8 and share_of(drafted) == 0.75
    counted = Statistics(20, 5, 5, 15, 20, 25, {})
    row = figures("p", Setting(None), alone, [replace(run, statistics=counted) for run in drafted])
    assert (row["limit"], row["share"], row["target_only_share"]) == (3.0, 0.75, 0.8)


def test_where_forwards_are_not_counted_there_is_no_share():
    """Nor a limit: a side of which nothing is known is enough."""
    known = Run(4.0, ((1, 2),), forwards=Forwards(0.0, 2.0, 1.0))
    unknown = Run(4.0, ((1, 2),))
    assert unknown.share == 0 and share_of([unknown]) is None and share_of([known]) == 0.75
    assert limit_of([known], [unknown]) is None and limit_of([unknown], [known]) is None
    assert limit_of([known], [known]) == 1.0


@pytest.mark.parametrize("name", [name for name in DRAFTERS if "eagle3" not in name])
def test_forwards_of_every_drafter_are_counted(name):
    """On native, those that the library plays and those that are started from Python; a look-up has none."""
    pair = load_pair("stories")
    models = on_backend(pair, "native")
    entry = DRAFTERS[name]
    target, drafter = make_drafter(entry, pair, models, 3)
    models = replace(models, target=target)
    setting = Setting(models, 3, "greedy", 0.0, drafter=drafter, proposes_trees=entry.proposes_trees)
    run = setting.decode([pair.info["prompts"][0][:32]], 0, 20)
    if not run.share:
        pytest.skip("the library does not play these rounds")
    assert 0 < run.share < 1 and run.forwards.prefill > 0
    assert (run.forwards.draft > 0) is (name not in ("ngram", "suffix"))


def test_the_torch_backend_counts_no_forwards():
    """What is not known is not guessed."""
    pair = load_pair("stories")
    for k in (0, 2):
        run = Setting(on_backend(pair, "torch"), k).decode([[1, 2, 3]], 0, 4)
        assert run.share == 0 and len(run.texts[0]) == 4
    run = Setting(on_backend(pair, "native")).decode([[1, 2, 3]], 0, 4)
    assert run.forwards.draft == 0 and 0 < run.forwards.target < run.seconds


def test_quartiles():
    """Quartiles of 1 to 5 are 2, 3 and 4."""
    assert quartiles([5, 1, 4, 2, 3]) == (2, 3, 4) and quartiles([7]) == (7, 7, 7)


def test_threads_come_back():
    """Also after an error."""
    before = torch.get_num_threads()
    with pytest.raises(KeyError), using_threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before and thread_counts()[0] == 1
