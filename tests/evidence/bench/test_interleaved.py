"""Interleaved timing: who decodes when, and what is made of the seconds."""

import pytest
import torch

from minispec.core.records import Draft, Round, Verdict
from minispec.evidence.bench.interleaved import (
    Run,
    Setting,
    by_position,
    figures,
    interleave,
    positions_of,
    quartiles,
    speed_up_of,
)
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.io.trace import Statistics


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


def test_quartiles():
    """Quartiles of 1 to 5 are 2, 3 and 4."""
    assert quartiles([5, 1, 4, 2, 3]) == (2, 3, 4) and quartiles([7]) == (7, 7, 7)


def test_threads_come_back():
    """Also after an error."""
    before = torch.get_num_threads()
    with pytest.raises(KeyError), using_threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before and thread_counts()[0] == 1


def a_round(tokens, accepted, path=None, **more):
    """A round of one row, as far as counting goes."""
    draft = Draft(torch.tensor([tokens]), torch.ones(1, len(tokens), 9) / 9, **more)
    probs = torch.ones(1, len(tokens) + 1, 9) / 9
    return Round(
        index=0,
        prompt_ids=(0,),
        pending=torch.tensor([0]),
        draft=draft,
        target_hidden=probs,
        target_logits=probs,
        target_probs=probs,
        verdict=Verdict(torch.tensor([accepted]), torch.tensor([0]), path),
        stops_at_first_rejection=True,
        live=(True,),
        emitted=((0,) * (accepted + 1),),
        finish=(None,),
        lengths=(9,),
    )


def test_positions_are_counted_where_they_were_tested():
    """Of a chain: 2 of 3 kept, all of 2, none of 3, and one of one that is as short as that."""
    rounds = [a_round([1, 2, 3], 2), a_round([1, 2], 2), a_round([1, 2, 3], 0)]
    rounds.append(a_round([1, 2], 1, lengths=torch.tensor([1])))
    assert by_position(rounds) == ((4, 3), (2, 2), (1, 0))
    runs = [Run(1.0, (), positions=by_position(rounds)), Run(1.0, ()), Run(1.0, (), positions=((2, 1),))]
    assert positions_of(runs) == [(6, 4), (2, 2), (1, 0)]


def test_in_a_tree_a_position_is_a_depth():
    """Candidates 0 and 1 follow the pending token, 2 follows token 1: kept are 1, or 0, a leaf."""

    def kept(*path):
        on = torch.zeros(1, 3, dtype=torch.bool)
        on[0, list(path)] = True
        return a_round([5, 6, 7], len(path), on, parents=torch.tensor([[0, 0, 2]]))

    assert by_position([kept(1)]) == ((1, 1), (1, 0))
    assert by_position([kept(0)]) == ((1, 1),)
    assert by_position([kept(1, 2), kept()]) == ((2, 1), (1, 1))
