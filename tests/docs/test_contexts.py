"""Times of batches with contexts: the forward that is timed is the one that its row names."""

import torch
from book import contexts
from book.contexts import K, copied, forward_task, run_batches, time_forwards

from minispec.evidence.bench.measure import bench_prompts
from minispec.io.checkpoint import load_pair
from minispec.native.backend import on_backend


def test_each_row_reads_on_after_the_whole_context():
    """Copies give what the row gives that they copy; a timed forward leaves the caches as they were."""
    pair = load_pair("stories")
    model = on_backend(pair, "native").target
    text = torch.tensor(bench_prompts(pair)[:1])
    cache = model.new_cache(1)
    model.hidden(text[:, :20], cache)
    three = copied(model, cache, 3)
    task = forward_task(model, three, K + 1)
    task()
    assert three.row_lengths == (20, 20, 20)
    found = model.hidden(text[:, 20:25].expand(3, -1).contiguous(), three)
    torch.testing.assert_close(found, model.hidden(text[:, 20:25], cache).expand_as(found))


def test_what_is_recorded_of_batches(monkeypatch):
    """Each number of rows and context has its times; shares are shares, for every position."""
    for repeated in ("REPEATS", "RUNS"):
        monkeypatch.setattr(contexts, repeated, 1)
    pair = load_pair("stories")
    models = on_backend(pair, "native")
    times = time_forwards(models.target, models.draft, [8, 16], [1, 2])
    assert {(row["rows"], row["context"]) for row in times} == {(1, 8), (1, 16), (2, 8), (2, 16)}
    assert all(min(row["draft"], *row["target"].values()) > 0 for row in times)
    for row in run_batches(pair, [1, 3], new_tokens=24):
        assert row["low"] <= row["gain"] <= row["high"]
        assert len(row["alphas"]) == K and all(0 < alpha <= 1 for alpha in row["alphas"])
        assert 0 < row["draft"] < row["alone"] < row["verify"]
        assert row["live"] == 1 if row["rows"] == 1 else 1 / 3 < row["live"] <= 1
