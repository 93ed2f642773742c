"""A text larger than memory: what a training needs hardly grows with it."""

import os
import sys

import numpy as np
import pytest

MEGABYTE = 10**6
LIMIT = 300  # megabytes more, for ten times the text


def write_texts(folder, megabytes, rng):
    """Writes files of 10 MB: paragraphs of words that are drawn by Zipf's law from 50,000."""
    letters = np.array(list("etaoinshrdlu"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(50_000)])
    folder.mkdir()
    for number in range(megabytes // 10):
        with (folder / f"{number}.txt").open("w", encoding="utf-8") as file:
            while file.tell() < 10 * MEGABYTE:
                drawn = words[rng.zipf(1.3, 100_000) % len(words)].reshape(-1, 100)
                file.writelines(" ".join(paragraph) + "\n\n" for paragraph in drawn)


def resident_megabytes(texts, home):
    """Trains on a folder in a process of its own, and returns the most memory that it had."""
    command = ["-m", "minispec", "train", "--text", texts, "--preset", "quick", "--scale", "0.05"]
    environment = os.environ | {"MINISPEC_HOME": str(home)}
    process = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, *map(str, command)], environment)
    _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 3)  # so few steps may be a failed training
    return usage.ru_maxrss / 1024


@pytest.mark.evidence
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count memory in other units")
@pytest.mark.parametrize("megabytes", [int(os.environ.get("MINISPEC_TEXT_MB", "300"))])
def test_memory_hardly_grows_with_the_text(megabytes, tmp_path):
    """Ten times the text takes less than 300 MB more; MINISPEC_TEXT_MB=1000 is the gigabyte."""
    rng = np.random.default_rng(0)
    for name, size in (("small", megabytes // 10), ("large", megabytes)):
        write_texts(tmp_path / name, size, rng)
    small, large = (resident_megabytes(tmp_path / name, tmp_path / "home") for name in ("small", "large"))
    print(f"{megabytes // 10} MB: {small:.0f} MB resident; {megabytes} MB: {large:.0f} MB")
    assert large - small < LIMIT
