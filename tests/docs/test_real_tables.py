"""What pages show of a checkpoint that people use: losses in bold, and nothing left out."""

import pytest
from book import real_tables as tables
from book.results import page
from peers import real_models

from minispec.evidence.bench import real
from minispec.evidence.bench.real import AGAIN, ALONE


def row(kind, drafter, ms, speedup, **changes):
    found = {"kind": kind, "project": "minispec", "weights": "bfloat16", "drafter": drafter}
    found |= {"temperature": 0.0, "milliseconds_per_token": ms, "speedup": speedup, "limit": 2.5}
    found |= {"speedup_quartiles": [speedup - 0.01, speedup + 0.01], "acceptance": 0.75}
    return found | {"tokens_per_target_call": 3.0, "texts": 8, "equal": 8, "near_ties": 0} | changes


@pytest.fixture
def report():
    rows = [
        row("edit", ALONE, 10.0, 1.0, limit=None),
        row("edit", AGAIN, 10.0, 1.0),
        row("edit", "ngram", 4.0, 2.5),
        row("edit", "suffix", 5.0, 2.0, equal=6, near_ties=1),
        row("edit", "auto", 4.2, 2.4),
        row("chat", "suffix", 12.0, 0.85, limit=0.95),
    ]
    peers = [row("edit", ALONE, 11.0, 1.0, project="llama.cpp", weights="BF16")]
    found = {"real_models": rows, "beside": [rows[0], *peers], "sections": {}}
    found |= {"kind": "bench", "pair": "small", "date": "2026-01-02", "real_sizes": [], "prefill": []}
    found["machine"] = {"processor": "a processor", "cores": 2, "torch": "2.13", "gpu": None}
    plan = {"reporting": 8, "new_tokens": 128, "repeats": 5}
    found["conditions"] = {"plan": plan, "dtype": "bfloat16", "prompt_tokens": 32}
    found["sampled"] = [{"passed": True, "samples": 512, "tokens": 5, "detects": 0.31, "alarm": 1e-6}]
    return found


def test_each_kind_has_its_column(report):
    """The target alone, what it gains over itself, and gains of drafters; what was not measured is a dash."""
    assert tables.ours(report).splitlines() == [
        "| weights | T | drafter | edit | chat |",
        "|---|---|---|---:|---:|",
        "| bfloat16 | 0 | target-only | 10.00 | – |",
        "| bfloat16 | 0 | target-only again | 0.990–1.010 | – |",
        "| bfloat16 | 0 | ngram | 4.00 2.50x | – |",
        "| bfloat16 | 0 | suffix | 5.00 2.00x | 12.00 **0.85x** |",
        "| bfloat16 | 0 | auto | 4.20 2.40x | – |",
    ]
    assert "| bfloat16 | 0 | suffix | 3.00 75% 2.50x | 3.00 75% 0.95x |" in tables.why(report)
    assert "| llama.cpp | BF16 | target-only | 11.00 |" in tables.others(report)


def test_the_choice_stands_beside_the_best_single_drafter(report):
    """And beside how far the target alone is from itself."""
    line = "| edit | bfloat16 | 0 | 2.40x | 2.39–2.41 | 0.990–1.010 | ngram | 0.96x |"
    assert tables.automatic(report).splitlines()[2:] == [line]


def test_losses_and_texts_are_told(report):
    """Losses are bold, and texts that are not the target's are counted."""
    assert tables.same_texts(report).startswith("minispec 38 of 40 (1 of")
    text = page([report | {"sections": {}}], real=[report])
    assert "## A checkpoint that people use: small" in text and "auto passed on 512 texts" in " ".join(
        text.split()
    )
    assert tables.others(report) in text and "'kind'" not in text  # a report's key has the same name


def test_reports_of_several_types_are_one(report):
    """Their rows one after the other; what was not measured is told once."""
    parts = [
        {
            "conditions": {"dtype": dtype},
            "seconds": {"edit": 2.0, "chat": 1.0},
            "sections": {
                "edit": {"real_models": [row("edit", ALONE, 1.0, 1.0, weights=dtype)]},
                "chat": {"unavailable": {"transformers": "it is not installed"}},
            },
        }
        for dtype in ("bfloat16", "int8")
    ]
    merged = real_models.merged(parts)
    assert [one["weights"] for one in merged["real_models"]] == ["bfloat16", "int8"]
    assert merged["sections"] == {"real": {"unavailable": {"transformers": "it is not installed"}}}
    assert merged["seconds"] == {"bfloat16": 3.0, "int8": 3.0}
    assert set(real.LISTS) <= set(merged)


def test_calls_of_others_are_counted():
    """Three target calls for eight tokens: five were accepted."""
    peer = real_models.Peer(lambda prompt, n: ([*prompt] * n, 3), threads=1)
    run = peer.decode([[7]], 0, 8)
    assert run.texts == ((7,) * 8,) and run.statistics.accepted == 5
    assert run.statistics.tokens_per_target_call == 8 / 3
