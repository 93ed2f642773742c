"""Recording: the drafts that are compared, what comes with the package, and what a person may type wrong."""

import pytest

from minispec import load_pair
from minispec.evidence.measurements import KINDS, recorded
from minispec.evidence.record import drafts_of, main


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_with_the_package(kind):
    """Each has points of its kind, a machine and a date."""
    found = recorded(kind)
    assert found.points and all(type(point) is KINDS[kind] for point in found.points)
    assert found.date.startswith("20") and found.date in found.where


def test_unknown_and_missing_recordings_are_refused(tmp_path):
    """An unknown kind is told which there are; a missing file is named."""
    with pytest.raises(ValueError, match="there is latency, speed"):
        recorded("weather")
    with pytest.raises(ValueError, match=r"speed\.json"):
        recorded("speed", tmp_path)


def test_drafts_go_from_too_small_to_the_target_itself():
    """All fit the target's vocabulary and context; the last is the target."""
    pair = load_pair()
    drafts = drafts_of(pair)
    sizes = [draft.parameters_count for draft in drafts.values()]
    assert sizes == sorted(sizes) and sizes[0] < sizes[1]
    assert list(drafts.values())[-1] is pair.target
    assert {draft.vocab_size for draft in drafts.values()} == {pair.target.vocab_size}
    assert min(draft.max_length for draft in drafts.values()) >= 192  # 32 tokens and 160 more


@pytest.mark.parametrize("arguments", [["one", "two"], ["--long"]])
def test_wrong_arguments_are_told_the_usage(arguments, capsys):
    """Nothing is measured, and the exit status is 2."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")
