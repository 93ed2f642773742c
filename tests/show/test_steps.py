"""Steps: a run taken apart loses nothing, and each step shows how things stand at its moment.

`steps.txt` has what a reader sees of the steps of some runs. After a change that is meant,
`PYTHONPATH=.:tests:docs python tests/show/test_steps.py` writes it anew.
"""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from figures import WORDS, by_hand, tiny_recording
from tiny import GREEDY

from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.step_records import PHASES, equation
from minispec.show.stepper import Stepper, steps
from minispec.verifiers.block import verify_block
from minispec.verifiers.lossy import verify_lenient, verify_mixture, verify_typical

EXPECTED = Path(__file__).with_name("steps.txt")
PLAYS = (([5, 6, 7], 1, 8), ([2, 3], 2, 4), ([], 0, 7), ([9, 10, 7], 3, 8, 2))


def played(verifier, draft_cache=True, finish="cap"):
    """Returns a run by hand, which ends in a round that was cut inside its draft, or goes on."""
    trace = by_hand([0, 1], *PLAYS, draft_cache=draft_cache)
    *rounds, last = trace.rounds
    trace = replace(trace, config={"verifier": verifier}, rounds=(*rounds, replace(last, finish=(finish,))))
    return Recording(trace, tuple(WORDS), ((),) * len(PLAYS))


SHOWN = {
    "greedy walkthrough": lambda: Stepper(load_walkthrough("greedy"), rounds=2),
    "rejection walkthrough": lambda: Stepper(load_walkthrough("rejection"), rounds=3),
    "another rule": lambda: Stepper(played("verify_typical")),
    "coupled": lambda: Stepper(played("verify_coupled", finish=None), rounds=2),
    "no draft's cache": lambda: Stepper(played("verify_rejection", False, "eos"), rounds=4),
    "nothing": lambda: Stepper(tiny_recording(max_new_tokens=0)),
}
REPLACED = {
    r"<(style|script)>.*?</\1>": "",
    r'<p class="ms-(rail|legend)">.*?</p>': "",  # the same in all steps
    r'<span data-state="prompt".*?</span>': "(prompt)",
    r' class="ms-here">': ">@",
    r'<i class="ms-sign"[^>]*>(.)</i>(<b[^>]*>)?': r"\1",  # directly before its token
    r"</(p|summary|tr|caption|details)>": "\n",
    r"</t[dh]>": " | ",
    r"<[^>]+>": " ",
    r"[ |]*\n\s*": "\n",
    r" +": " ",
}


def text_of(name):
    """Returns what a reader sees of each step where scripts and styles are stripped; @: the position."""
    text = SHOWN[name]().html()
    for pattern, new in REPLACED.items():
        text = re.sub(pattern, new, text, flags=re.DOTALL)
    return f"## {name}\n{html.unescape(text).strip()}\n"


@pytest.mark.parametrize("name", SHOWN)
def test_steps_say_and_show_what_happens(name):
    """Titles, sentences, texts, caches, positions, charts, numbers, where scripts and styles are stripped."""
    assert text_of(name) in EXPECTED.read_text(encoding="utf-8")


def ids(tokens):
    return [token.id for token in tokens]


@pytest.mark.parametrize("how", [GREEDY, {}])
@pytest.mark.parametrize("row", [0, 1])
def test_caches_and_texts_are_those_of_the_trace(how, row):
    """After drafting, verification, rollback and catch-up; what goes at a rollback is shown as cut."""
    recording = tiny_recording([[1, 2, 3], [4]], eos=[2, 5, 7], **how)
    found = steps(recording, row)
    trace = recording.trace
    text = [*trace.prompts[row], *trace.tokens(row)]
    committed = len(trace.prompts[row])
    assert ids(found[-1].text) == text and not any(t.pending for t in found[-1].text)
    for r in (r for r in trace.rounds if r.live[row]):
        mine = {phase: [s for s in found if (s.round, s.phase) == (r.index, phase)] for phase in PHASES}
        target = r.target_cache
        draft = r.draft_cache
        # What a row reads beyond its own draft is padding, and shown by nobody.
        read = [*text[:committed], *r.draft.tokens[row, : r.drafted(row)].tolist()]
        committed += len(r.emitted[row])
        (verify,), (commit,), (rollback,) = mine["verify"], mine["commit"], mine["rollback"]
        # What was drafted after the end of the text is tested for nothing.
        assert len(mine["test"]) == min(r.tested(row), len(r.emitted[row]))
        assert len(mine["catch up"]) == (draft.verified[row] < draft.after[row])
        last = [rollback, *mine["catch up"]][-1]
        assert ids(verify.target_cache) == read[: target.verified[row]]
        assert ids(verify.draft_cache) == read[: draft.verified[row]]
        assert ids(last.target_cache) == ids(last.draft_cache) == text[: committed - 1]
        assert ids(rollback.target_cache + rollback.target_cut) == read[: target.verified[row]]
        lengths = [draft.before[row] + 1 + i for i in range(r.drafted(row))]
        assert [len(step.draft_cache) for step in mine["draft"]] == lengths
        assert ids(p.kept for p in commit.positions if p.kept) == list(r.emitted[row])
        for i, step in enumerate(mine["test"]):
            position = step.positions[i]
            assert position.p == float(r.target_probs[row, i, position.guess.id])
            assert position.q == float(r.draft.probs[row, i, position.guess.id])
            assert position.verdict == ("accepted" if i < r.accepted(row) else "rejected")
            assert step.draw == recording.accept_draw(r.index, i, row) == position.test


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.25, "p = 0.250"), (1.0, "p = 1"), (0.0, "p = 0"), (0.9999, "p > 0.999"), (1e-9, "p < 0.001")],
)
def test_numbers_do_not_round_to_certainty(value, shown):
    """0 and 1 are written only where they are exact."""
    assert equation("p", value) == shown


def test_a_prompt_whose_turn_had_not_come_is_told_from_one_without_space():
    queue = tiny_recording([[1], [2], [3] * 40], batch_size=1)
    cut = replace(queue, trace=replace(queue.trace, rounds=queue.trace.rounds[:1]), draws=queue.draws[:1])
    sentences = [steps(cut, prompt)[0].sentence for prompt in (1, 2)]
    assert sentences == ["The run ended before this prompt had a row.", "Not a single token fits."]


@pytest.mark.parametrize(
    ("rule", "tests"),
    [(verify_typical, True), (verify_lenient, True), (verify_mixture, True), (verify_block, False)],
)
def test_of_another_rule_nothing_is_claimed(rule, tests):
    """Where min(1, p/q) does not decide, it stands nowhere, and no token is drawn from p or the residual."""
    recording = tiny_recording(verifier=rule)
    found = steps(recording)
    assert any(step.phase == "test" for step in found) == tests
    sentences = " ".join(step.sentence for step in found if step.phase in ("test", "commit"))
    assert "rule" in sentences and "drawn from p" not in sentences
    assert "min(1" not in sentences and "residual" not in sentences
    assert not any(position.ratio for step in found for position in step.positions)
    assert "below min(1, p/q)" not in Stepper(recording).html()


if __name__ == "__main__":
    EXPECTED.write_text("".join(map(text_of, SHOWN)), encoding="utf-8")
