"""A small pair, and how little is measured of it."""

import pytest
from pairs import build_pair

from minispec import load_pair
from minispec.evidence.bench.run import NAMES, run_bench
from minispec.evidence.bench.section import Plan


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=128))


@pytest.fixture(scope="session")
def tiny():
    return Plan(
        "tiny",
        choosing=1,
        reporting=2,
        repeats=1,
        new_tokens=8,
        widths=(1, 2),
        few_widths=(1, 3),
        temperatures=(0.0, 1.0),
        rows=(1, 3),
        latencies=1,
    )


@pytest.fixture(scope="session")
def report(pair, tiny):
    """All that needs no other library, no training and no large model."""
    return run_bench(pair, sections=[name for name in NAMES if name not in ("real-sizes", "real")], plan=tiny)
