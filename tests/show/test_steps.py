"""Steps: a run taken apart loses nothing, and each step shows how things stand at its moment."""

import pytest
from figures import tiny_recording
from tiny import GREEDY

from minispec.show.step_records import PHASES
from minispec.show.stepper import Stepper, steps
from minispec.verifiers.block import verify_block
from minispec.verifiers.lossy import verify_lenient, verify_mixture, verify_typical


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
