"""Forwards at real sizes: the same weights everywhere, every figure in its row, and what lacks says why."""

import importlib.util
import json
from dataclasses import replace

import pytest
import torch
from pairs import build_pair

from minispec import load_pair
from minispec.core.model import GPTConfig
from minispec.evidence.bench import measure, real_sizes
from minispec.evidence.bench.llama_cpp import LlamaCpp, write_gguf
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.real_sizes import SAME, backends, difference, predicted, random_model
from minispec.evidence.bench.run import run_bench
from minispec.evidence.bench.section import QUICK

TIED = GPTConfig(50, layers=2, width=32, heads=4, kv_heads=2, ffn=48, max_length=96, tied=True)
UNTIED = replace(TIED, tied=False, rope_theta=500.0)
SHAPES = {"tiny": TIED, "smaller": replace(TIED, layers=1)}


def needs(package):
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason="needs the extra llama-cpp or peers"
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    pair = load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=128))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real_sizes, "SHAPES", SHAPES)
        patch.setattr(real_sizes, "SETTLE", 1e-4)
        patch.setitem(__import__("sys").modules, "llama_cpp", None)
        return run_bench(pair, sections=("real-sizes",), plan=replace(QUICK, latencies=1))


def test_every_shape_type_and_number_of_threads_has_its_row(report):
    """At the top of the document, with the keys that outside checks read; what is not installed says how."""
    made, lack = report["real_sizes"], report["sections"]["real-sizes"]["unavailable"]
    keys = [(row["shape"], row["backend"], row["dtype"], row["threads"]) for row in made]
    assert len(set(keys)) == len(keys)
    for shape in SHAPES:
        for backend in ("torch", "native"):
            assert (shape, backend, "float32", 1) in keys
        assert (shape, "torch", "bfloat16", 1) in keys
    for row in made:
        assert set(row["milliseconds"]) == {"1", "5", "9"} and min(row["milliseconds"].values()) > 0
        assert row["tokens_per_second"] == pytest.approx(1000 / row["milliseconds"]["1"])
        assert row["llama_cpp_tokens_per_second"] is None and len(row["predicted_speedup"]) == 6
    assert "pip install -e '.[llama-cpp]'" in lack["llama.cpp, float32"]
    assert report["sections"]["real-sizes"]["parameters"]["tiny"] > 0
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_peers_stand_beside_ours(monkeypatch):
    """A row names the others' tokens a second of the same shape, type and threads, and no other's."""
    took = {
        ("native", "float32"): 0.002,
        ("native", "bfloat16"): 0.001,
        ("llama.cpp", "float32"): 0.004,
        ("transformers", "bfloat16"): 0.008,
    }
    monkeypatch.setattr(
        real_sizes, "interleaved_seconds", lambda tasks, *_: {key: [took[key[:2]]] for key in tasks}
    )
    with using_threads(1), torch.inference_mode():
        rows = real_sizes.measure_models({key: random_model(TIED, "float32") for key in took}, 1)
        first, second, *_ = rows
    assert first["tokens_per_second"] == 500 and first["llama_cpp_tokens_per_second"] == 250
    assert first["transformers_tokens_per_second"] is None and second["tokens_per_second"] == 1000
    assert second["llama_cpp_tokens_per_second"] is None
    assert second["transformers_tokens_per_second"] == 125


def test_figures_are_medians_of_what_ran_with_so_many_threads(monkeypatch):
    """Milliseconds with quartiles, by new tokens; a task computes with its own number of threads."""

    def timed(tasks, repeats, settle):
        for (_, _, threads, _), task in tasks.items():
            task()
            assert torch.get_num_threads() == threads
        return {key: [0.001 * key[3], 0.002 * key[3], 0.004 * key[3]] for key in tasks}

    monkeypatch.setattr(real_sizes, "interleaved_seconds", timed)
    with using_threads(2), torch.inference_mode():
        one, two = real_sizes.measure_models({("torch", "float32"): random_model(TIED, "float32")}, 1)
    assert one["milliseconds"] == two["milliseconds"] == pytest.approx({"1": 2, "5": 10, "9": 18})
    assert one["quartiles"]["5"] == pytest.approx([7.5, 15]) and (one["threads"], two["threads"]) == (1, 2)


def test_the_speed_up_is_predicted_at_the_best_k():
    """Where checking is free, at K = 8; where each token costs a forward, drafting does not pay."""
    free, dear = (
        {(p["draft"], p["acceptance"]): p for p in predicted(t)}
        for t in ({"1": 2.0, "5": 2.0, "9": 2.0}, {"1": 1.0, "5": 5.0, "9": 9.0})
    )
    assert free[0.05, 0.8]["k"] == 8
    assert free[0.05, 0.8]["speedup"] == pytest.approx((1 - 0.8**9) / 0.2 / 1.4)
    assert free[0.1, 0.6]["k"] == 3  # of 1.6/1.1, 1.96/1.2, 2.176/1.3, 2.3056/1.4
    assert free[0.1, 0.6]["speedup"] == pytest.approx(2.176 / 1.3)
    assert all(p["k"] == 0 and p["speedup"] == 1 for p in dear.values())
    between = predicted({"1": 1.0, "5": 1.4, "9": 9.0})[2]  # t(3) is 1.2, on a straight line
    assert between["k"] == 4 and between["speedup"] == pytest.approx(sum(0.8**i for i in range(5)) / 1.8)


def test_a_backend_with_other_weights_is_not_timed(tmp_path, monkeypatch):
    """In both types; the readable code in bfloat16 is near enough itself."""
    for dtype in SAME:
        model, lack = random_model(TIED, dtype), {}
        other = random_model(replace(TIED, rope_theta=1000.0), dtype)
        monkeypatch.setattr(
            real_sizes,
            "MAKERS",
            {"ours": lambda model, folder: model, "other": lambda *_, other=other: other},
        )
        assert list(backends(model, dtype, tmp_path, lack)) == ["ours"]
        assert "its logits are not the model's" in "".join(lack.values()) and len(lack) == 1


def test_no_part_of_a_random_model_is_idle():
    """Each weight matters to the logits, far more than rounding; bfloat16 rounds the same weights."""
    model, ids = random_model(UNTIED, "float32"), torch.arange(9)[None]
    wanted, gains = model(ids), [tuple(w.tolist()) for w in model.parameters() if w.dim() == 1]
    assert len(set(gains)) == len(gains) == 5  # one for another would be noticed
    for name, weight in model.named_parameters():
        before = weight.clone()
        weight.mul_(1.5)
        assert difference(model(ids), wanted) > 10 * SAME["float32"], name
        weight.copy_(before)
    rounded = random_model(UNTIED, "bfloat16")
    for one, half in zip(model.parameters(), rounded.parameters(), strict=True):
        assert torch.equal(one.bfloat16(), half)


def test_a_task_may_run_until_others_threads_sleep(monkeypatch):
    """At least once and for so many seconds before the run that counts, with a clock that is not real."""
    clock, calls = [0.0], []

    def task():
        clock[0] += 0.4
        calls.append(1)

    monkeypatch.setattr(measure, "perf_counter", lambda: clock[0])
    found = measure.interleaved_seconds({"a": task}, 1, settle=1.0)
    assert found["a"] == pytest.approx([0.4]) and len(calls) == (1 + measure.WARM_UP) * (3 + 1)
    calls.clear()
    measure.interleaved_seconds({"a": task}, 1)
    assert len(calls) == (1 + measure.WARM_UP) * measure.STREAK


@needs("gguf")
@pytest.mark.parametrize("config", [TIED, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", SAME)
def test_the_file_for_llama_cpp_holds_the_model(tmp_path, config, dtype):
    """Read back by gguf: the sizes, every weight once, and pairs of axes as neighbours."""
    gguf, model = importlib.import_module("gguf"), random_model(config, dtype)
    write_gguf(model, tmp_path / "model.gguf")
    read = gguf.GGUFReader(tmp_path / "model.gguf")
    sizes = {name: field.contents() for name, field in read.fields.items()}
    assert sizes["llama.embedding_length"] == 32 and sizes["llama.attention.head_count_kv"] == 2
    assert sizes["llama.rope.freq_base"] == config.rope_theta and sizes["tokenizer.ggml.model"] == "no_vocab"
    assert len(read.tensors) == len(list(model.parameters()))
    found = {}
    for tensor in read.tensors:
        data = torch.from_numpy(tensor.data.copy())
        found[tensor.name] = data.view(torch.bfloat16) if data.dtype == torch.uint8 else data
    assert torch.equal(found["token_embd.weight"], model.embed_tokens.weight)
    assert torch.equal(found["blk.1.ffn_down.weight"], model.layers[1].mlp.down_proj.weight)
    assert found["blk.0.attn_norm.weight"].dtype == torch.float32
    key, ours = found["blk.0.attn_k.weight"], model.layers[0].self_attn.k_proj.weight  # [2 · 8, 32]
    assert torch.equal(key[9], ours[8 + 4]) and torch.equal(key[10], ours[8 + 1])  # pair 0, pair 1 of head 1


@needs("llama_cpp")
@needs("gguf")
@pytest.mark.parametrize("config", [TIED, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", SAME)
def test_llama_cpp_computes_the_same(tmp_path, config, dtype):
    """Its logits are ours, in several blocks, after forgetting tokens too."""
    model = random_model(config, dtype)
    theirs, ids = LlamaCpp(model, tmp_path), (7 * torch.arange(20) + 3)[None] % 50
    wanted, cache = random_model(config, dtype).float()(ids), theirs.new_cache(1)
    assert difference(theirs(ids[:, :12], cache), wanted[:, :12]) < SAME[dtype]
    assert difference(theirs(ids[:, :6] + 1, cache), wanted[:, 12:18]) > 0.1  # other tokens, other logits
    cache.truncate([12])
    assert difference(theirs(ids[:, 12:], cache), wanted[:, 12:]) < SAME[dtype]
    assert list(tmp_path.iterdir()) == []
    cache.truncate([0])
    measure.forward_task(theirs, 8, 5)()  # as it is timed
