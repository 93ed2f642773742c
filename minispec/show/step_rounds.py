"""A round taken apart, one small thing at a time.

The guesses one by one, the one pass that verifies them, the tests one by one, what is committed, what both
caches forget, and the token that the draft's cache lacks after full acceptance. Each step says all that a
page shows: the text with the state of each token, both caches, distributions, numbers drawn, and in words
what happens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from minispec.core.verify import residual
from minispec.io.recording import Draw, Recording
from minispec.io.trace import ObservedRound
from minispec.show.step_records import NO_CHART, Chart, Phase, RoundPosition, Step, Token, chart, equation
from minispec.show.text import count, kinds, needs_catch_up, quoted

ENDS = {
    "eos": "The text is at its end",
    "cap": "The text has as many tokens as requested",
    "context": "The context is full",
}

# These accept with probability min(1, p/q), and correct from the residual.
REJECTION = ("verify_rejection", "native_rejection")
OWN_PICKS = ("verify_coupled", "verify_compare")  # compare the guess with a token drawn from p


def settled(text: Sequence[Token]) -> tuple[Token, ...]:
    """A pending token of the prompt is an ordinary token of the text once it has been read."""
    return tuple(replace(t, state="prompt" if t.state == "pending" else t.state) for t in text)


class RoundSteps:
    """Goes through one round and keeps count of what stands where.

    Attributes:
        committed: the text before the round, and once `steps` has been used up, after it.
    """

    def __init__(
        self, recording: Recording, r: ObservedRound, row: int, prompt: int, committed: tuple[Token, ...]
    ) -> None:
        """Starts where the last round ended, in the row that holds a prompt."""
        self.committed = committed
        self._recording, self._r, self._row, self._prompt = recording, r, row, prompt
        self._p, self._q = r.target_probs[row], r.draft.probs[row]
        self._accepted, self._emitted = r.accepted(row), r.emitted[row]
        drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
        self._guesses = [Token(t, recording.words[t], "drafted") for t in drafted]
        after = "untested" if r.stops_at_first_rejection else "rejected"
        self._verdicts = ["accepted"] * self._accepted + ["rejected"] + [after] * len(drafted)
        self._made = 0  # how many guesses
        self._verified = False
        self._tests: list[Draw | None] = []
        self._new: list[Token] = []  # what is committed
        self._block = settled(committed)
        self._target_holds = r.target_cache.before[row]
        self._draft_holds = r.draft_cache.before[row] if r.draft_cache else None
        self._verifier = recording.trace.config.get("verifier")
        self._pending = self._word(int(r.pending[row]))

    def steps(self) -> Iterator[Step]:
        """Yields the steps of the round."""
        for i in range(len(self._guesses)):
            yield self._draft(i)
        yield self._verify()
        for i in range(self._r.tested(self._row) or 0):
            yield self._test(i)
        yield self._commit()
        yield self._rollback()
        if needs_catch_up(self._r, self._row):
            yield self._catch_up()

    def _word(self, token: int) -> str:
        return quoted(self._recording.words[token])

    def _draft(self, i: int) -> Step:
        guess, q, self._made = self._guesses[i], self._q[i], i + 1
        who = "The drafter looks back"
        if self._draft_holds is not None:
            self._draft_holds += 1  # it reads the token before, to guess this one
            who = f"The draft model reads {quoted(self._guesses[i - 1].text) if i else self._pending}"
        draw = self._recording.draft_draw(self._r.index, i, self._prompt)
        sentence = f"{who} and says what it finds most probable: {quoted(guess.text)}."
        shown = NO_CHART
        if not is_one_hot(q):
            sentence = f"{who} and draws {quoted(guess.text)}, for which {equation('q', float(q[guess.id]))}."
            sentence += _drawn(draw, " The number drawn is {:.4f}.")
            shown = self._chart("what the draft model thinks comes next", {guess.id: "guess"}, "q", q=q)
        title = f"Guess {i + 1} of {len(self._guesses)}: {quoted(guess.text)}"
        return self._step("draft", title, sentence, i, shown, draw)

    def _verify(self) -> Step:
        r, row, drafted = self._r, self._row, len(self._guesses)
        self._verified = True
        # Where rows of a batch have drafts of different lengths, the shorter ones are read with padding.
        own = r.target_cache.before[row] + 1 + drafted
        self._target_holds = min(r.target_cache.verified[row], own)
        if r.draft_cache is not None:
            self._draft_holds = min(r.draft_cache.verified[row], own)
        title = f"Verify: one pass over {count(drafted + 1, 'token')}"
        if not drafted:
            return self._step("verify", title, f"The target reads {self._pending}, and says what comes next.")
        guesses = "the guess" if drafted == 1 else f"the {drafted} guesses"
        sentence = (
            f"The target reads {self._pending} and {guesses} in one parallel pass. It gives {drafted + 1} "
            f"distributions: one for each guess, and one for what comes after."
        )
        return self._step("verify", title, sentence)

    def _test(self, i: int) -> Step:
        token, p, q, verdict = self._guesses[i].id, self._p[i], self._q[i], self._verdicts[i]
        draw = self._recording.accept_draw(self._r.index, i, self._prompt)
        self._tests.append(draw)
        self._judge(i + 1 if verdict == "accepted" else len(self._guesses))
        guess, best = self._word(token), self._word(int(p.argmax()))
        if is_one_hot(p):
            says = f"{best} too" if verdict == "accepted" else f"{best}, not {guess}"
            sentence = f"The target would say {says}. The guess is {verdict}."
            shown = self._plain_chart(i, {token: "guess"})
        else:
            sentence = self._ratio(float(p[token]), float(q[token]), verdict, draw)
            title = "the target's distribution p beside the draft's q"
            shown = self._chart(title, {token: "guess"}, "p", "q", p=p, q=q)
        if verdict == "rejected" and i + 1 < len(self._guesses):
            sentence += " What was drafted after it is not tested."
        title = f"Test {i + 1} of {len(self._guesses)}: {guess} is {verdict}"
        return self._step("test", title, sentence, i, shown, draw)

    def _judge(self, end: int) -> None:
        """Gives the first guesses the states that the verdict makes of them."""
        for i in range(end):
            self._guesses[i] = replace(self._guesses[i], state=self._verdicts[i])

    def _ratio(self, p: float, q: float, verdict: str, draw: Draw | None) -> str:
        """Tells how p, q and the number drawn decide, as far as the rule is known."""
        if self._verifier in OWN_PICKS:
            pick = "the same" if verdict == "accepted" else "another token"
            return f"The target's own pick here is {pick}."
        both = f"{equation('p', p)} and {equation('q', q)}"
        if self._verifier not in REJECTION:
            return f"{both}. By this rule the guess is {verdict}."
        if p >= q:
            return f"{both}, so min(1, p/q) = 1: accepted, and no number is drawn."
        sentence = f"{both}, so {equation('min(1, p/q)', p / q)}."
        than = "below" if verdict == "accepted" else "not below"
        drawn = _drawn(draw, " The number drawn, u = {:.4f}, is " + f"{than} that: {verdict}.")
        return sentence + (drawn or f" It is {verdict}.")

    def _commit(self) -> Step:
        r, row, emitted = self._r, self._row, self._emitted
        kind, accepted, each = r.kind(row), self._accepted, zip(emitted, kinds(r, row), strict=True)
        self._new = [Token(token, self._recording.words[token], state) for token, state in each]
        self._new[-1] = replace(self._new[-1], pending=r.finish[row] is None)
        self._judge(len(self._guesses))  # a rule that tests no token by itself has shown no test
        self.committed = (*(replace(t, pending=False) for t in self._block), *self._new)
        gain = f"{count(len(emitted), 'token')} for one target call."
        if kind == "draft":
            dropped = "what was accepted" if accepted > len(emitted) else "the target's own token"
            sentence = f"{self._end}: {dropped} after it is dropped. {gain}"
            return self._step("commit", f"Commit {count(len(emitted), 'token')}", sentence, len(emitted) - 1)
        last = self._word(emitted[-1])
        draw = self._recording.next_draw(r.index, self._prompt)
        how, shown = self._source(draw)
        if kind == "correction":
            guess = quoted(self._guesses[accepted].text)
            title, sentence = f"Correct: {last}", f"The same pass says what comes instead of {guess}. {how}"
        elif self._guesses:
            title = f"Bonus: {last}"
            sentence = f"Every guess was accepted, and the pass has one more distribution. {how}"
        else:
            title, sentence = f"Commit: {last}", "Only one more token fits, and none was guessed."
        return self._step("commit", title, f"{sentence} {gain}", accepted, shown, draw)

    def _source(self, draw: Draw | None) -> tuple[str, Chart]:
        """Says what a correction or a bonus is taken from, and shows it."""
        i, picked = self._accepted, int(self._r.verdict.token[self._row])
        p, rejected = self._p[i], i < len(self._guesses)
        marks = {picked: "picked"} | ({self._guesses[i].id: "guess"} if rejected else {})
        if is_one_hot(p):
            return f"Its most probable token is {self._word(picked)}.", self._plain_chart(i, marks)
        source = "p"
        if self._verifier not in REJECTION + OWN_PICKS:
            source = "what this rule makes of p and q" if self._guesses else "p"
        if rejected and self._verifier in REJECTION:
            q, source = self._q[i], "the residual, norm(max(0, p − q))"
            title = "the residual: p − q where it is positive, scaled to 1"
            short = residual(p.double(), q.double())
            shown = self._chart(title, marks, "residual", "q", p=p, q=q, residual=short)
        else:
            title = "the target's distribution p"
            title += ", from which the token is drawn" if source == "p" else ""
            shown = self._chart(title, marks, "p", p=p)
        by = _drawn(draw, ", by the number {:.4f}")
        return f"{self._word(picked)} is drawn from {source}{by}.", shown

    def _plain_chart(self, i: int, marks: dict[int, str]) -> Chart:
        """Shows the target's distribution as it is before temperature 0 puts all of it on one token."""
        p = torch.softmax(self._r.target_logits[self._row, i].double(), -1)
        marks = {int(self._p[i].argmax()): ""} | marks
        return self._chart("what the target thinks; at temperature 0 the largest is taken", marks, "p", p=p)

    def _chart(self, title: str, marks: dict[int, str], *lead: str, **of: Tensor) -> Chart:
        return chart(title, self._recording.words, marks, lead, **of)

    def _rollback(self) -> Step:
        r, row, after = self._r, self._row, self._r.target_cache.after[self._row]
        held = {"target": self._target_holds, "draft": self._draft_holds or 0}
        read = [replace(t, state="rolled back", pending=False) for t in (*self._block, *self._guesses)]
        cut = {name: tuple(read[after:length]) for name, length in held.items()}
        self._target_holds = after
        if r.draft_cache is not None:
            self._draft_holds = min(r.draft_cache.verified[row], r.draft_cache.after[row])
        tail = f"{self._end}."
        if r.finish[row] is None:
            tail = f"{self._word(self._emitted[-1])} is pending now: committed, and in no cache yet."
        parts = [
            f"the {name}'s cache forgets {count(len(gone), 'token')}" for name, gone in cut.items() if gone
        ]
        if not parts:
            title, sentence = "Roll back: nothing to forget", f"All that was read is kept. {tail}"
            return self._step("rollback", title, sentence)
        both = ", and ".join(parts).replace("the", "The", 1)
        sentence = f"{both}. Nothing is computed anew. {tail}"
        step = self._step("rollback", f"Roll back to {after} tokens", sentence)
        return replace(step, target_cut=cut["target"], draft_cut=cut["draft"])

    def _catch_up(self) -> Step:
        self._draft_holds = self._target_holds
        lacked, why = self._pending, "was read by the target alone"
        if self._guesses:
            lacked, why = quoted(self._guesses[-1].text), "its last guess, was made but never read"
        sentence = f"The draft's cache lacks one token: {lacked}, {why}."
        return self._step("catch up", f"Catch up: the draft reads {lacked}", sentence)

    @property
    def _end(self) -> str:
        return ENDS[self._r.finish[self._row] or "cap"]

    def _step(
        self,
        phase: Phase,
        title: str,
        sentence: str,
        here: int | None = None,
        shown: Chart = NO_CHART,
        draw: Draw | None = None,
    ) -> Step:
        # What was read is the text as it was drafted; after rollback it is the text as it was committed.
        read = self.committed if phase in ("rollback", "catch up") else (*self._block, *self._guesses)
        held = tuple(replace(t, pending=False) for t in read)
        text = self.committed if self._new else (*self.committed, *self._guesses[: self._made])
        target = held[: self._target_holds]
        draft = None if self._draft_holds is None else held[: self._draft_holds]
        index, before = self._r.index, len(self._block) - 1
        positions = tuple(map(self._position, range(len(self._guesses) + 1)))
        return Step(phase, title, sentence, text, target, draft, index, before, positions, here, shown, draw)

    def _position(self, i: int) -> RoundPosition:
        """Returns what is known about a position by now."""
        found = RoundPosition()
        if i < self._made:
            guess = self._guesses[i]
            found = RoundPosition(guess, float(self._q[i, guess.id]))
        if self._verified:
            p, says = self._p[i], self._recording.words[int(self._p[i].argmax())]
            found = replace(found, says=says, p=float(p[found.guess.id]) if found.guess else None)
        tested = found.verdict in ("accepted", "rejected") and self._verifier in REJECTION
        if tested and found.q and found.p is not None:
            found = replace(found, ratio=min(1.0, found.p / found.q))
        test = self._tests[i] if i < len(self._tests) else None
        return replace(found, test=test, kept=self._new[i] if i < len(self._new) else None)


def _drawn(draw: Draw | None, said: str) -> str:
    """Fills the number drawn into some words; without a number there are none."""
    return "" if draw is None or draw.number is None else said.format(draw.number)


def is_one_hot(distribution: Tensor) -> bool:
    """Whether a distribution is certain of one token: [V]."""
    return bool(distribution.max() == distribution.sum())
