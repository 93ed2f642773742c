"""Draws: nothing is changed by taking notes, and the notes are true."""

import numpy as np
import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tiny import gpt_pair, place, table_pair

from minispec import ModelDrafter, SeededRng, Warp, record, verify_rejection
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording

PROMPTS = [[1, 2, 3], [4], [3, 3]]
SETTINGS = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 12, "warp": Warp(1.0)}


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_the_text_is_the_same_with_and_without_notes(seed):
    """With one seed a generator that takes notes and a plain one give the same tokens, and go on alike."""
    plain = SeededRng(seed)
    noted = LoggingRng(seed)
    target, draft = table_pair()
    left, right = (
        record(target, ModelDrafter(draft), PROMPTS, rng=rng, **SETTINGS).rounds for rng in (plain, noted)
    )
    assert [r.emitted for r in left] == [r.emitted for r in right]
    dist = torch.full((1, 7), 1 / 7)
    assert plain.categorical(dist).tolist() == noted.categorical(dist).tolist()


def test_each_number_explains_its_outcome():
    """A number lies in the interval of its outcome; what was certain has none."""
    rng = LoggingRng(3)
    probs = torch.tensor([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0], [0.1, 0.0, 0.9]])
    wanted = [("pick", 0, 5), ("pick", 1, 6), ("pick", 2, 7), ("accept", 0, None), ("accept", 1, None)]
    for _ in range(200):
        picked = rng.categorical(probs, place(range(3), [5, 6, 7]))
        yes = rng.bernoulli(
            torch.tensor([0.3, 1.0, 0.0]), place(range(3), live=torch.tensor([True, True, False]))
        )
        draws = rng.take()
        assert [d.outcome for d in draws] == [*picked.tolist(), *yes.int().tolist()[:2]]
        assert [(d.kind, d.prompt, d.position) for d in draws] == wanted
        assert [d.number is None for d in draws] == [False, True, False, False, True]
        for d in draws:
            assert d.number is None or d.low <= d.number < d.high
        for row, d in enumerate(draws[:3]):
            assert abs(d.high - d.low - float(probs[row, d.outcome])) < 1e-6


@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_a_recording_finds_the_draws_of_each_token(batch_size):
    """Draft picks, tests and the next token's pick of every prompt are found, and agree with the round."""
    target, draft = gpt_pair()
    recording = record_run(
        target,
        ModelDrafter(draft),
        PROMPTS,
        tuple(map(str, range(11))),
        rng=LoggingRng(5),
        batch_size=batch_size,
        **SETTINGS,
    )
    seen = 0
    for r, draws in zip(recording.trace.rounds, recording.draws, strict=True):
        found = []
        for row, prompt in enumerate(r.prompt_ids):
            if not r.live[row]:
                continue
            for i in range(r.drafted(row)):
                found.append(recording.draft_draw(r.index, i, prompt))
                assert found[-1].outcome == int(r.draft.tokens[row, i])
            for i in range(r.tested(row) or 0):
                found.append(recording.accept_draw(r.index, i, prompt))
                assert found[-1].outcome == (i < r.accepted(row))
            assert recording.accept_draw(r.index, r.tested(row), prompt) is None
            found.append(recording.next_draw(r.index, prompt))
            assert found[-1].outcome == int(r.verdict.token[row])
        for waiting in set(range(3)) - set(r.prompt_ids):
            assert recording.next_draw(r.index, waiting) is None
            assert recording.draft_draw(r.index, 0, waiting) is None
        seen += len(found)
        assert sorted(map(id, found)) == sorted(map(id, draws))
    assert seen > 50


@pytest.mark.parametrize("kind", [torch.tensor, np.array, iter])
def test_prompts_of_any_kind_are_kept_as_ids(kind, tmp_path):
    """Also where they can be read once only; and so is K."""
    target, draft = table_pair()
    words = [chr(97 + token) for token in range(target.vocab_size)]
    run_with = SETTINGS | {"rng": SeededRng(0), "k": np.int64(2)}
    trace = record(target, ModelDrafter(draft), [kind(prompt) for prompt in PROMPTS], **run_with)
    assert trace.prompts == tuple(map(tuple, PROMPTS))
    prompts = [kind(prompt) for prompt in PROMPTS]
    recording = record_run(target, ModelDrafter(draft), prompts, words, **run_with)
    save_recording(recording, tmp_path / "run.json")
    assert load_recording(tmp_path / "run.json").trace.prompts == trace.prompts
