"""Damaged recordings: one clear line, or a recording that can be shown."""

import json
import random
from copy import deepcopy

import pytest
from junk import damage
from refusals import refused
from tiny import gpt_pair, table_pair

from minispec import ModelDrafter, Warp, verify_greedy, verify_rejection
from minispec.drafters.tree import TreeDrafter
from minispec.io.files import read_json
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording
from minispec.show.plots.caches import cache_slots
from minispec.show.plots.coloured import marked_tokens
from minispec.show.plots.timeline import WorkTimes, speculative_spans
from minispec.show.plots.verification import positions_of
from minispec.show.stepper import Stepper
from minispec.verifiers.tree import verify_tree

DAMAGES = 300


def document(path, verifier=verify_rejection, prompts=((1, 2), (3,), (0, 4, 1)), models=None, **settings):
    """Records a run and returns the JSON of its file."""
    target, draft = models or table_pair()
    tree = verifier is verify_tree
    recording = record_run(
        target,
        TreeDrafter(draft, (0, 0, 1)) if tree else ModelDrafter(draft),
        prompts,
        [chr(97 + token) for token in range(target.vocab_size)],
        rng=LoggingRng(3),
        k=2,
        verifier=verifier,
        max_new_tokens=4,
        warp=Warp(0 if verifier is verify_greedy else 1),
        **settings,
    )
    save_recording(recording, path)
    return read_json(path)


def show(recording, folder):
    """Lets everything read a recording; returns what is refused."""
    save_recording(recording, folder / "again.json")
    trace = recording.trace
    words = recording.words
    refused = []
    trace.statistics()
    for prompt in range(len(trace.prompts)):
        recording.text(prompt)
        readers = [
            lambda: Stepper(recording, prompt=prompt).page().encode(),  # noqa: B023
            lambda: positions_of(trace, words, prompt),  # noqa: B023
            lambda: speculative_spans(trace, WorkTimes(), prompt=prompt),  # noqa: B023
            lambda: [cache_slots(trace, r.index, "rolled back", row) for r, row in live],  # noqa: B023
            lambda: marked_tokens(trace, words, prompt),  # noqa: B023
        ]
        live = [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]
        for read in readers:
            try:
                read()
            except ValueError as error:
                refused.append(str(error))
    return refused


def outcome(path, folder):
    """Returns the line that refuses a file, or None if it is read and all of it can be shown."""
    try:
        recording = load_recording(path)
    except ValueError as error:
        assert "\n" not in str(error) and str(path) in str(error)
        assert len(str(error)) < 400
        return str(error)
    assert not any("tree" not in line and "looks past" not in line for line in show(recording, folder))
    return None


@pytest.mark.parametrize("kind", ["queue", "tree"])
def test_a_damaged_field_is_one_line(kind, tmp_path):
    """Junk in any place of the file: refused in a line that names it, or a recording that can be shown."""
    path = tmp_path / "run.json"
    choose = random.Random(5)
    settings = {"queue": {"batch_size": 2}, "tree": {"verifier": verify_tree, "models": gpt_pair()}}[kind]
    whole = document(path, **settings)
    assert outcome(path, tmp_path) is None
    lines = []
    for _ in range(DAMAGES // 2):
        data = deepcopy(whole)
        damage(data, choose)
        path.write_text(json.dumps(data), encoding="utf-8")
        lines.append(outcome(path, tmp_path))
    refused = [line for line in lines if line is not None]
    assert len(refused) > len(lines) / 2
    of_python = ("object of", "' object", "NoneType", "argument")
    assert not [line for line in refused if any(words in line for words in of_python)]


def test_a_damaged_byte_is_one_line(tmp_path):
    """Bytes that are changed, inserted or lost anywhere, and files that end early."""
    path = tmp_path / "run.json"
    choose = random.Random(6)
    document(path, batch_size=2)
    whole = path.read_bytes()
    for number in range(DAMAGES // 2):
        start = choose.randrange(len(whole))
        end = choose.choice([start, start + 1, start + 40, len(whole)])
        path.write_bytes(whole[:start] + choose.randbytes(number % 3) + whole[end:])
        outcome(path, tmp_path)


# Where a value is put, or taken out (...), which one, and what the line tells.
MISFITS = [
    ("format", "minispec pair", "no recording"),
    ("version", 1, "was recorded by another version of minispec; record it again"),
    ("version", 3, "another version"),
    ("version", ..., "another version"),
    ("words", ["a"], "damaged"),
    ("words 0", "\ud800", "surrogates not allowed"),
    ("prompts", 7, "damaged"),
    ("prompts 0", [], "there is no prompt, or an empty one"),
    ("config temperature", None, "None in temperature"),
    ("rounds 0 q", ..., "q is missing"),
    ("rounds 0 pending 0", 5, "out of range"),
    ("rounds 0 drafted 0 0", -1, "out of range"),
    ("rounds 0 draft_lengths 0", 3, "3 in draft_lengths"),
    ("rounds 0 accepted 0", 3, "3 in accepted"),
    ("rounds 0 emitted 0 0", "x", "out of range"),
    ("rounds 0 p 0 0 1 0", 3.0, "sums to"),
    ("rounds 0 p 0", [], "distributions"),
    ("rounds 0 finish 0", "boredom", "boredom"),
    ("rounds 0 draws 0", [1, 2], "draws should be"),
    ("rounds 0 target_cache", [[1], [2], [3]], "target_cache should be"),
    ("rounds 1 index", 5, "counted"),
    ("rounds 1 names 0", 1, "a prompt in two rows"),
    ("rounds 0 names 0", 2, "pending token is not the last"),
    ("rounds 0 emitted 0", [], "emits nothing, or goes on after the end"),
    ("rounds 0 emitted 0", [0, 0, 0], "not what was accepted"),
    ("rounds 0 finish 0", "eos", "does not fit how the text had ended|takes a row|after the end"),
    ("rounds 2 finish 1", "eos", "does not fit how the text had ended"),
    ("rounds 1 finish 0", None, "takes a row from a text that goes on"),
    ("rounds 0 lengths 0", 0, "its length is not that of the text"),
    ("rounds 0 target_cache 2 0", 1, "its caches do not hold what its length says"),
    ("rounds 0 draft_cache 0 0", 99, "its caches do not hold what its length says"),
    ("rounds 0 live 0", 1, "1 in live is of the wrong kind"),
    ("rounds 0 seconds", {"draft": "x"}, "seconds"),
    ("rounds 0 draws 0 2", "guess", "'guess' in a draw's kind"),
]


@pytest.mark.parametrize(("keys", "value", "words"), MISFITS)
def test_what_does_not_fit_is_told(keys, value, words, tmp_path):
    """The file's name and the reason stand in one line."""
    path = tmp_path / "run.json"
    holder = data = document(path, batch_size=2)
    *way, last = [int(key) if key.isdigit() else key for key in keys.split()]
    for key in way:
        holder = holder[key]
    holder[last] = value
    if value is ...:
        del holder[last]
    path.write_text(json.dumps(data), encoding="utf-8")
    with refused(words, path):
        load_recording(path)
