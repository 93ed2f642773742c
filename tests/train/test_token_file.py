"""Token files: what is read out of one is what would be in memory."""

import pytest
import torch
from pairs import tiny_recipe

from minispec.train import dataset, token_file
from minispec.train.dataset import gather
from minispec.train.recipes import CurriculumStage
from minispec.train.stories import draw_stories

STAGES = (CurriculumStage(3, 2, 16), CurriculumStage(3, 2, 48))


@pytest.fixture
def recipe(tmp_path):
    """A recipe for a folder of two files, with a passage that is longer than a sequence."""
    folder = tmp_path / "texts"
    folder.mkdir()
    stories = [story.text for story in draw_stories(60, seed=4)]
    (folder / "a.txt").write_text("\n\n".join(stories[:30]), encoding="utf-8")
    (folder / "b.txt").write_text("\n".join(stories[30:]), encoding="utf-8")
    return tiny_recipe(
        corpus=str(folder),
        target_stages=STAGES,
        draft_stages=STAGES[:1],
        distill_stages=STAGES,
        written=((3, 1.0),),
    )


@pytest.fixture
def pieces(monkeypatch):
    """Every text is too long for memory; it is tokenized, and looked through, in small pieces."""
    monkeypatch.setattr(dataset, "IN_MEMORY", 0)
    monkeypatch.setattr(token_file, "PASSAGES", 3)
    monkeypatch.setattr(token_file, "PART", 50)


def test_a_token_file_has_the_sequences_that_memory_has(recipe, pieces, tmp_path):
    """Of each width, all of them, in any order; the file is written once."""
    in_memory, stored, again = (gather(recipe, folder=folder) for folder in (None, tmp_path, tmp_path))
    files = list(tmp_path.glob("*.tokens"))
    assert len(files) == 1 and in_memory.sequences.keys() == stored.sequences.keys()
    for key, sequences in in_memory.sequences.items():
        rows = torch.randperm(len(sequences)).tolist()
        assert stored.sequences[key].shape == sequences.shape
        assert torch.equal(stored.sequences[key][rows], sequences[rows])
        assert torch.equal(again.sequences[key][rows], sequences[rows])
    rows = stored.tokenizer.encode_batch(stored.corpus.train)
    assert files[0].stat().st_size == 2 * sum(len(row) + 1 for row in rows)
