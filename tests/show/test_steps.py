"""Steps: a run taken apart loses nothing, and each step shows how things stand at its moment."""

from dataclasses import replace

import pytest
from tiny import gpt_pair

from minispec import ModelDrafter, Warp, verify_greedy, verify_rejection
from minispec.drafters.tree import TreeDrafter
from minispec.io.recording import LoggingRng, record_run
from minispec.io.walkthrough import load_walkthrough
from minispec.rules.block import verify_block
from minispec.rules.lossy import verify_lenient, verify_mixture, verify_typical
from minispec.rules.tree import verify_tree
from minispec.show.step_records import equation
from minispec.show.stepper import Stepper, steps
from minispec.show.text import quoted

WORDS = tuple(" abcdefghij")


def recorded(temperature=1.0, prompts=((1, 2, 3), (4,)), k=3, most=14, verifier=verify_rejection, **more):
    target, draft = gpt_pair()
    return record_run(
        target,
        ModelDrafter(draft) if k else None,
        prompts,
        WORDS,
        rng=LoggingRng(1),
        k=k,
        verifier=verify_greedy if temperature == 0 else verifier,
        max_new_tokens=most,
        warp=Warp(temperature),
        **more,
    )


CASES = {
    "sampled": (lambda: recorded(), 0),
    "second row": (lambda: recorded(), 1),
    "greedy": (lambda: recorded(0.0), 0),
    "one token": (lambda: recorded(most=1), 0),
    "no draft": (lambda: recorded(k=0), 0),
    "cut by its end": (lambda: recorded(eos=[2, 5, 7]), 0),
    "prompt of one token": (lambda: recorded(prompts=((5,),)), 0),
    "nothing": (lambda: recorded(most=0), 0),
    "greedy walkthrough": (lambda: load_walkthrough("greedy"), 0),
    "rejection walkthrough": (lambda: load_walkthrough("rejection"), 0),
}


@pytest.fixture(params=CASES)
def case(request):
    make, row = CASES[request.param]
    recording = make()
    return recording, row, steps(recording, row)


def live_rounds(recording, row):
    return [r for r in recording.trace.rounds if r.live[row]]


def of(found, r, phase):
    return [s for s in found if s.round == r.index and s.phase == phase]


def test_phases_come_in_order(case):
    """A draft step per guess, one verify, a test per tested token, commit, rollback, and catch-up if due."""
    recording, row, found = case
    expected = ["prefill"]
    for r in live_rounds(recording, row):
        expected += (
            ["draft"] * r.drafted(row) + ["verify"] + ["test"] * r.tested(row) + ["commit", "rollback"]
        )
        lacks = r.draft_cache and r.draft_cache.verified[row] < r.draft_cache.after[row]
        expected += ["catch up"] if lacks else []
    assert [s.phase for s in found] == [*expected, "end"]


def test_the_last_step_has_the_whole_text(case):
    """At the end each token of prompt and output stands there, with the kind that its round gave it."""
    recording, row, found = case
    last = found[-1].text
    prompt = recording.trace.prompts[row]
    assert [t.id for t in last] == [*prompt, *recording.trace.tokens(row)]
    kinds = ["prompt"] * len(prompt)
    for r in live_rounds(recording, row):
        kinds += ["accepted"] * (len(r.emitted[row]) - 1)
        kinds.append({"draft": "accepted"}.get(r.kind(row), r.kind(row)))
    assert [t.state for t in last] == kinds
    assert not any(t.pending for t in last)


def test_caches_hold_what_the_trace_says(case):
    """After drafting, verification, rollback and catch-up both caches have the lengths of the trace."""
    recording, row, found = case
    for r in live_rounds(recording, row):
        target, draft = r.target_cache, r.draft_cache
        # What a row reads beyond its own draft is padding, and shown by nobody.
        own = target.before[row] + 1 + r.drafted(row)
        assert len(of(found, r, "verify")[0].target_cache) == min(target.verified[row], own)
        assert len(of(found, r, "rollback")[0].target_cache) == target.after[row]
        last = [s for s in found if s.round == r.index][-1]
        assert len(last.target_cache) == target.after[row]
        for s in of(found, r, "draft"):
            assert len(s.target_cache) == target.before[row]
        if draft is None:
            assert last.draft_cache is None
            continue
        own = draft.before[row] + 1 + r.drafted(row)
        assert len(of(found, r, "verify")[0].draft_cache) == min(draft.verified[row], own)
        assert len(last.draft_cache) == draft.after[row]
        for i, s in enumerate(of(found, r, "draft")):
            assert len(s.draft_cache) == draft.before[row] + i + 1


def test_caches_hold_the_text(case):
    """A cache holds the beginning of the text that was read; after a round, all that is committed but one."""
    recording, row, found = case
    text = [*recording.trace.prompts[row], *recording.trace.tokens(row)]
    committed = len(recording.trace.prompts[row])
    for r in live_rounds(recording, row):
        block = [*text[:committed], *r.draft.tokens[row, : r.drafted(row)].tolist()]
        for s in (s for s in found if s.round == r.index):
            read = text if s.phase in ("rollback", "catch up") else block
            for held in (s.target_cache, s.draft_cache or ()):
                assert [t.id for t in held] == read[: len(held)]
        committed += len(r.emitted[row])
        last = [s for s in found if s.round == r.index][-1]
        assert [t.id for t in last.target_cache] == text[: committed - 1]


def test_one_token_is_pending(case):
    """Until the text ends, exactly its last committed token is pending."""
    recording, row, found = case
    for s in found[:-1]:
        pending = [i for i, t in enumerate(s.text) if t.pending]
        r = next((r for r in recording.trace.rounds if r.index == s.round), None)
        done = r is not None and r.finish[row] and s.phase in ("commit", "rollback", "catch up")
        assert len(pending) == (0 if done else 1)
        if pending:
            after = {t.state for t in s.text[pending[0] + 1 :]}
            assert after <= {"drafted", "accepted", "rejected", "untested"}


def test_tests_show_p_q_and_the_number(case):
    """A test's position has the trace's p and q, and the number that decided it."""
    recording, row, found = case
    for r in live_rounds(recording, row):
        for i, s in enumerate(of(found, r, "test")):
            token = int(r.draft.tokens[row, i])
            position = s.positions[i]
            assert s.here == i and position.guess.id == token
            assert position.p == float(r.target_probs[row, i, token])
            assert position.q == float(r.draft.probs[row, i, token])
            assert position.verdict == ("accepted" if i < r.accepted(row) else "rejected")
            assert s.draw == recording.accept_draw(r.index, i, row) == position.test
            rest = "" if i < r.accepted(row) else "untested"
            assert all(later.verdict == rest for later in s.positions[i + 1 : r.drafted(row)])
            assert s.positions[-1].verdict == ""
            assert ("accepted" in s.title) == (i < r.accepted(row))


def test_committed_positions_are_what_was_emitted(case):
    """After a commit the positions hold the emitted tokens; each guess has the state of its verdict."""
    recording, row, found = case
    for r in live_rounds(recording, row):
        step = of(found, r, "commit")[0]
        assert tuple(p.kept.id for p in step.positions if p.kept) == r.emitted[row]
        tested, accepted = r.tested(row), r.accepted(row)
        verdicts = ["accepted"] * accepted + ["rejected"] * (tested - accepted)
        verdicts += ["untested"] * (r.drafted(row) - tested)
        assert [p.guess.state for p in step.positions if p.guess] == verdicts
        assert [p.verdict for p in step.positions if p.guess] == verdicts
        kinds = [p.kept.state for p in step.positions if p.kept]
        assert kinds[-1] == {"draft": "accepted"}.get(r.kind(row), r.kind(row))


def test_a_rollback_shows_what_it_cuts(case):
    """What both caches held after verification and do not hold after it is rolled back there."""
    recording, row, found = case
    for before, step in zip(found, found[1:], strict=False):
        if step.phase != "rollback":
            assert step.target_cut == step.draft_cut == ()
            continue
        for held, kept, cut in (
            (before.target_cache, step.target_cache, step.target_cut),
            (before.draft_cache or (), step.draft_cache or (), step.draft_cut),
        ):
            assert [t.id for t in held] == [t.id for t in (*kept, *cut)]
            assert {t.state for t in cut} <= {"rolled back"}


def test_residuals_of_a_correction():
    """At a sampled correction the bars are p, q and norm(max(0, p − q)); the rejected guess has none."""
    recording = load_walkthrough("rejection")
    r = next(r for r in recording.trace.rounds if r.kind(0) == "correction")
    step = next(s for s in steps(recording) if s.round == r.index and s.phase == "commit")
    i = r.accepted(0)
    p, q = r.target_probs[0, i], r.draft.probs[0, i]
    short = (p - q).clamp(min=0)
    for bar in step.chart.bars:
        assert bar.values["residual"] == pytest.approx(float(short[bar.id] / short.sum()))
    marks = {bar.mark: bar for bar in step.chart.bars}
    assert marks["guess"].values["residual"] == 0 and marks["picked"].id == r.emitted[0][-1]


def test_words_name_the_tokens_in_question():
    """Titles and sentences of the greedy walkthrough name guesses, corrections, and what the draft lacks."""
    recording = load_walkthrough("greedy")
    found = steps(recording)
    for r in recording.trace.rounds:
        for i, s in enumerate(of(found, r, "draft")):
            assert quoted(recording.words[int(r.draft.tokens[0, i])]) in s.title
        said = of(found, r, "commit")[0]
        assert f"{len(r.emitted[0])} token" in said.sentence
        if r.kind(0) == "correction":
            assert said.title == f"Correct: {quoted(recording.words[r.emitted[0][-1]])}"
        for s in of(found, r, "catch up"):
            assert quoted(recording.words[int(r.draft.tokens[0, -1])]) in s.sentence
    assert found[-1].title.startswith(f"{len(recording.trace.tokens())} tokens in")


def test_fewer_rounds(case):
    """`rounds` shows the first rounds only; the last step then says that the run goes on."""
    recording, row, found = case
    if len(live_rounds(recording, row)) < 2:
        pytest.skip("too short")
    part = steps(recording, row, rounds=1)
    assert part[:-1] == found[: len(part) - 1]
    assert "goes on" in part[-1].sentence and part[-1].text[-1].pending


@pytest.mark.parametrize(
    ("arguments", "words"), [({"prompt": 7}, "no prompt 7"), ({"rounds": 0}, "at least 1")]
)
def test_wrong_arguments(arguments, words):
    """A prompt that is not there, or no rounds at all, is said in a line."""
    with pytest.raises(ValueError, match=words):
        steps(recorded(), **arguments)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.25, "p = 0.250"), (1.0, "p = 1"), (0.0, "p = 0"), (0.9999, "p > 0.999"), (1e-9, "p < 0.001")],
)
def test_numbers_do_not_round_to_certainty(value, shown):
    """0 and 1 are written only where they are exact."""
    assert equation("p", value) == shown


QUEUE = ((1, 2, 3), (4,), (5, 5), (9, 2, 6))


@pytest.mark.parametrize("at_once", [1, 2, None])
def test_a_prompt_of_a_queue_is_stepped_through_as_alone(at_once):
    """At temperature 0 each prompt's steps are those of a run of it alone, whichever row it had, and when.

    But for a catch-up: beside a row with more space the draft has read beyond this row's last guess.
    """
    together = recorded(0.0, prompts=QUEUE, eos=6, at_once=at_once)

    def steps_of(recording, prompt):
        return [step for step in steps(recording, prompt) if step.phase != "catch up"]

    for number, prompt in enumerate(QUEUE):
        alone = steps_of(recorded(0.0, prompts=(prompt,), eos=6), 0)
        found = steps_of(together, number)
        for one, other in zip(found, alone, strict=True):
            assert (one.title, one.sentence, one.text) == (other.title, other.sentence, other.text)
            assert (one.target_cache, one.positions) == (other.target_cache, other.positions)
        assert steps(together, number, rounds=1)[1].title == alone[1].title


def test_numbers_of_a_queue_are_those_of_the_prompt():
    """Each test shows the number that was compared: below min(1, p/q) where the guess was accepted."""
    queue = recorded(prompts=QUEUE, at_once=2)
    seen = 0
    for prompt in range(len(QUEUE)):
        for step in steps(queue, prompt):
            if step.phase == "test" and step.draw is not None and step.draw.number is not None:
                ratio = step.positions[step.here].p / step.positions[step.here].q
                assert (step.draw.number < ratio) == (step.positions[step.here].verdict == "accepted")
                seen += 1
    assert seen > 10


def test_what_has_no_steps():
    """A tree is refused in a line; a prompt whose turn had not come is told from one without space."""
    target, draft = gpt_pair()
    tree = record_run(
        target,
        TreeDrafter(draft, (0, 0, 1)),
        [[1]],
        WORDS,
        rng=LoggingRng(0),
        k=2,
        verifier=verify_tree,
        max_new_tokens=6,
        warp=Warp(),
    )
    with pytest.raises(ValueError, match="round 0 drafted a tree; this shows chains alone"):
        steps(tree)
    queue = recorded(prompts=((1,), (2,), (3,) * 40), at_once=1)
    cut = replace(queue, trace=replace(queue.trace, rounds=queue.trace.rounds[:1]), draws=queue.draws[:1])
    sentences = [steps(cut, prompt)[0].sentence for prompt in (1, 2)]
    assert sentences == ["The run ended before this prompt had a row.", "Not a single token fits."]


@pytest.mark.parametrize(
    ("rule", "tests"),
    [(verify_typical, True), (verify_lenient, True), (verify_mixture, True), (verify_block, False)],
)
def test_of_another_rule_nothing_is_claimed(rule, tests):
    """Where min(1, p/q) does not decide, it stands nowhere, and no token is drawn from p or the residual."""
    recording = recorded(most=30, verifier=rule)
    found = steps(recording)
    assert any(step.phase == "test" for step in found) == tests
    sentences = [step.sentence for step in found if step.phase in ("test", "commit")]
    assert any("rule" in sentence for sentence in sentences)
    for sentence in sentences:
        assert "min(1" not in sentence and "residual" not in sentence and "drawn from p" not in sentence
    assert not any(position.ratio for step in found for position in step.positions)
    assert "below min(1, p/q)" not in Stepper(recording).html()
