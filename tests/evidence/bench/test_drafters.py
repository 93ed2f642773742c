"""The section on drafters: every one of them on every pair, and what it is made of."""

from dataclasses import replace

import torch

from minispec import ModelDrafter, load_pair
from minispec.core.records import Draft, Round, Verdict
from minispec.drafters.entry import NODES
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench import drafters
from minispec.evidence.bench.drafters import ROWS, benches, bytes_held, training_of
from minispec.evidence.bench.interleaved import Run, Setting, by_position, positions_of
from minispec.evidence.bench.section import BenchRun
from minispec.native.backend import on_backend
from minispec.native.drafters import make_drafter

NO_STATES = torch.zeros(1, 0, 16)


def called(pair, name):
    """The pair by another name."""
    return replace(pair, info=pair.info | {"name": name})


def test_every_drafter_that_can_be_had_is_in_the_table(report):
    """On each backend, greedy and sampled, with what outside checks read; the others say why not."""
    rows = report["drafters"]
    lack = report["sections"]["drafters"]["unavailable"]
    missing = {name for name in ROWS for place in lack if place.startswith(f"tiny, {name}")}
    assert {row["name"] for row in rows} | missing == set(ROWS)
    assert set(ROWS) > {name for name, entry in DRAFTERS.items() if not entry.chooses}
    assert {"model", "ngram", "suffix"} <= {row["name"] for row in rows}
    assert all("train it with" in lack[f"tiny, {name}"] for name in ("exit", "medusa", "eagle"))
    backends = {row["backend"] for row in rows}
    assert {row["backend"] for row in rows if row["name"] == "tree"} == backends >= {"torch"}
    for row in rows:
        assert row["pair"] == "tiny" and row["lossless"] is True and row["k"] in (1, 3, 16)
        assert min(row["speedup_over_fastest"], row["extra_bytes"]) > 0
        assert 0 <= row["verified_per_target_call"] <= 16 and row["speedup"] > 0
        assert (row["limit"] is None) is (row["share"] is None)
        assert row["tokens_per_target_call"] >= 1 and len(row["acceptance_by_position"]) <= row["k"]
        assert all(0 <= rate <= 1 for rate in row["acceptance_by_position"])
    on = [(row["name"], row["backend"], row["temperature"]) for row in rows]
    assert len(set(on)) == len(on) and ("ngram", "torch", 0.0) in on and ("model", "torch", 1.0) in on


def test_other_pairs_come_with_the_first_only(pair, tiny, monkeypatch):
    """`stories` brings those that were trained, each with a target alone of its own; the others are told."""
    monkeypatch.setattr(drafters, "target_only", lambda bench: {"of": bench.pair.name})

    def load(name, **_):
        if name == "english":
            raise ValueError("there is no such pair")
        return called(pair, name)

    monkeypatch.setattr(drafters, "load_pair", load)
    pair_results = []
    lack = {}
    for name in ("tiny", "stories"):
        bench = BenchRun(called(pair, name), tiny, None, results={"target-only": "own"})
        pair_results.append(
            [(pair_bench.pair.name, pair_bench.results["target-only"]) for pair_bench in benches(bench, lack)]
        )
        assert bench.results == {"target-only": "own"}
    assert pair_results == [[("tiny", "own")], [("stories", "own"), ("python", {"of": "python"})]]
    assert lack == {"english": "there is no such pair"}


def test_the_target_alone_runs_beside_each_drafter(pair, tiny):
    """On the drafter's backend, with the threads that suit the target there."""
    rates = [("torch", 1, 5.0), ("torch", 2, 7.0), ("native", 1, 9.0), ("native", 2, 8.0)]
    rows = [{"path": path, "threads": threads, "target_only": rate} for path, threads, rate in rates]
    bench = BenchRun(pair, tiny, None, results={"target-only": {"rows": rows}})
    drafted = Setting(on_backend(pair, "torch"), 4, "rejection", 0.5, 1, "ngram, torch", object())
    alone = drafters.alone_on_backend(bench, drafted)
    assert (alone.k, alone.verifier, alone.temperature, alone.threads) == (0, "rejection", 0.5, 2)
    assert alone.models.backend.name == "torch" and alone.drafter is None


def test_a_chain_stands_beside_the_tree_of_as_many_tokens(pair, tiny):
    """And an EAGLE of one layer beside the usual one; what is drafted and trained is told by the row."""
    best = [{"path": "torch", "threads": 1, "speculative": 1.0}]
    bench = BenchRun(pair, replace(tiny, backends=("torch",)), None, results={"target-only": {"rows": best}})
    lack = {}
    widths = {s[0].label: [one.k for one in s] for s in drafters.settings_of(bench, lack)}
    assert widths["model, torch"] == [1, 3] == widths["tree, torch"]
    assert widths[f"model, {NODES} tokens, torch"] == [NODES]
    assert "--drafter eagle-1" in lack["tiny, eagle, 1 layer"] and "--drafter eagle " in lack["tiny, eagle"]
    assert training_of(pair, f"model, {NODES} tokens") == training_of(pair, "model")


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


def test_what_a_drafter_keeps_is_counted_once_and_without_weights(pair):
    """The cache of a draft model, whatever its weights take; an index grows with its text."""
    drafter = ModelDrafter(pair.draft)
    drafter.start([[1, 2, 3]], NO_STATES)
    assert drafter.cache.bytes <= bytes_held(drafter) < drafter.cache.bytes + 2000
    state = torch.zeros(7, dtype=torch.float64)
    assert bytes_held([state, state]) - bytes_held([]) == 56 + 16  # and two places in the list
    looked = make_drafter(DRAFTERS["ngram"], pair, on_backend(pair, "torch"))[1]
    sizes = []
    for prompt in ([1, 2], [*range(60)]):
        looked.start([prompt], NO_STATES)
        sizes.append(bytes_held(looked))
    assert sizes[0] < sizes[1]


def test_what_it_took_is_read_from_the_files(pair):
    """The shipped heads say it in their header, the pair's own draft in `pair.json`, if it was published."""
    stories = load_pair("stories")
    models = stories.info["models"]
    seconds = models["draft-plain"]["seconds"] + models["draft"]["seconds"]
    assert training_of(stories, "model") == (stories.draft.parameters_count, seconds)
    assert training_of(stories, "exit")[0] == 16_512 and training_of(stories, "exit")[1] > 0
    assert training_of(stories, "medusa-tree") == training_of(stories, "medusa") != (0, 0.0)
    assert training_of(stories, "tree") == training_of(stories, "model")
    assert training_of(stories, "ngram") == (0, 0.0) and training_of(pair, "model")[1] is None
