"""What single sections are made of: int8, the bandwidth, transformers, and the comparison of predictions."""

import importlib.util

import pytest
import torch
from pairs import build_pair, random_models

from minispec import ModelDrafter, SeededRng, Warp, generate, load_pair, record, verify_greedy
from minispec.evidence.bench.bandwidth import random_model, read_bandwidth, read_bytes, seconds_per_step
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.quantize import int8, weight_bytes
from minispec.evidence.bench.sections.compare import compare
from minispec.evidence.bench.sections.peers import measure as measure_peers
from minispec.evidence.bench.sections.plan import Plan
from minispec.evidence.bench.sections.section import Bench, Skipped, group
from minispec.evidence.bench.settings import bandwidth
from minispec.evidence.bench.transformers_speed import Theirs, counting, load, logit_difference

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra peers"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny"))


def test_int8_rounds_the_draft_and_nothing_is_lost():
    """Weights of a byte each, near the same logits, and greedy text that is the target's own."""
    target, draft = random_models()
    small = int8(draft)
    matrices = sum(p.numel() for n, p in draft.named_parameters() if p.dim() == 2 and "embed" not in n)
    assert weight_bytes(small) == weight_bytes(draft) - 3 * matrices
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        off = (small(tokens) - draft(tokens)).abs().max()
    assert 0 < off < 0.2 * draft(tokens).abs().max()
    run = {"max_new_tokens": 30, "warp": Warp(0), "rng": SeededRng(0)}
    alone = [step[0] for step in generate(target, [[1, 2, 3]], **run)]
    trace = record(target, ModelDrafter(small), [[1, 2, 3]], k=3, verifier=verify_greedy, **run)
    assert trace.tokens() == alone


def test_bytes_that_a_token_needs():
    """A tied embedding is read whole, as the head; one of its own is read for one row, not counted."""
    tied, free = random_models(tied=True)[0], random_models(tied=False)[0]
    assert read_bytes(tied) == sum(4 * p.numel() for p in tied.parameters())
    assert read_bytes(free) == sum(4 * p.numel() for p in free.parameters()) - 4 * 300 * 16


def test_bandwidth_is_the_best_of_what_was_tried(monkeypatch):
    """1 MiB in a quarter of a second each way and thread is 4 MiB a second."""
    now = [0.0]

    def clock():
        now[0] += 0.25
        return now[0]

    monkeypatch.setattr(bandwidth, "perf_counter", clock)
    reading = read_bandwidth((1,), size=2**20, repeats=2)
    assert reading.bytes_per_second == 4 * 2**20 and reading.threads == 1


@pytest.mark.parametrize("parameters", bandwidth.SIZES)
def test_random_models_have_about_the_size_that_is_asked_for(parameters):
    """Within a quarter; unknown sizes are refused. (Counted without making the weights.)"""
    with torch.device("meta"):
        count = bandwidth.GPT(bandwidth.SIZES[parameters]).parameters_count
    assert abs(count / parameters - 1) < 0.25
    with pytest.raises(ValueError, match="no size 3"):
        random_model(3.0, torch.device("cpu"), torch.float32)


def test_a_step_takes_time_and_threads_come_back():
    """The median is positive, and afterwards torch computes with as many threads as before."""
    before = torch.get_num_threads()
    assert seconds_per_step(random_models()[0], 5, threads=1) > 0
    with pytest.raises(KeyError), using_threads(2):
        raise KeyError
    assert torch.get_num_threads() == before and thread_counts()[0] == 1


def found(measured=2.0):
    """Sections in which one K was predicted to give 2.2 and one batch to lose."""
    row = {"speedup_quartiles": [1.9, 2.1], "tokens_per_target_call": 3.0, "verifier": "greedy", "k": 4}
    said = {"simple": 3.0, "tokens_per_target_call": 3.3}
    return {
        "prediction": {
            "settings": [
                said | {"setting": "a", "section": "widths", "speedup": 2.2, "k": 4},
                said | {"setting": "b", "section": "widths", "speedup": 1.2, "k": 2},
                said | {"setting": "r1", "section": "batch", "speedup": 1.2, "k": 4},
                said | {"setting": "r8", "section": "batch", "speedup": 0.9, "k": 4},
            ]
        },
        "widths": {
            "sweep": [
                row | {"setting": "a", "speedup": measured},
                row | {"setting": "b", "speedup": 2.5, "k": 2},
                row | {"setting": "unforeseen", "speedup": 9.0, "verifier": "another"},
            ]
        },
        "batch": {
            "points": [
                {"setting": "r1", "rows": 1, "gain": 1.2, "low": 1.1, "high": 1.3},
                {"setting": "r8", "rows": 8, "gain": 1.05, "low": 1.0, "high": 1.1},
            ]
        },
    }


def test_predictions_are_held_against_measurements():
    """Relative errors over all that was predicted; what was said to be best beside what was."""
    got = compare(found())
    assert [row["setting"] for row in got["rows"]] == ["a", "b", "r1", "r8"]
    assert [row["error"] for row in got["rows"]] == pytest.approx([0.1, -0.52, 0.0, 0.9 / 1.05 - 1])
    assert got["worst_error"] == pytest.approx(0.52)
    assert got["median_error"] == pytest.approx((0.1 + 1 - 0.9 / 1.05) / 2)
    assert got["tokens_per_target_call_median_error"] == pytest.approx(0.1)
    width, batch = got["choices"]
    assert (width["predicted"], width["measured"]) == (4, 2) and width["of_the_best"] == pytest.approx(0.8)
    assert (batch["predicted"], batch["measured"]) == ("8", "none")
    assert compare({"widths": found()["widths"]}) is None


def test_without_transformers_the_section_says_so(pair, monkeypatch):
    """It is skipped with the words that install it."""
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    plan = Plan(choosing=1, reporting=1)
    with pytest.raises(Skipped, match=r"pip install 'minispec\[peers\]'"):
        measure_peers(Bench(pair, plan, group(pair, plan)))


@needs_transformers
def test_transformers_reads_the_same_models_and_writes_the_same_text(pair):
    """Logits agree, plain and assisted greedy texts are ours, and its settings do what they say."""
    target, draft = load(pair)
    prompt = pair.info["prompts"][0]
    assert logit_difference(pair, (target, draft), [prompt]) < 1e-4
    run = generate(pair.target, [prompt], max_new_tokens=24, warp=Warp(0), rng=SeededRng(0))
    ours = tuple(step[0] for step in run)
    plain = Theirs(target).decode([prompt], 0, 24)
    assert plain.texts == (ours,) and plain.seconds > 0
    calls = {}
    for tokens in (3, 6):
        with counting(target) as widths:
            assert Theirs(target, draft, tokens, 0.0).decode([prompt], 0, 24).texts == (ours,)
        calls[tokens] = widths
    assert max(calls[3][1:]) == 4 and max(calls[6][1:]) == 7  # the drafted tokens, and one more
    with pytest.raises(ValueError, match="one prompt"):
        plain = Theirs(target, draft, 3).decode([prompt] * 2, 0, 4)


@needs_transformers
def test_other_weights_are_noticed(pair):
    """A model whose logits are not ours has a large difference."""
    target, draft = load(pair)
    with torch.no_grad():
        target.lm_head.weight[0] += 1
    assert logit_difference(pair, (target, draft), [pair.info["prompts"][0]]) > 1e-2
