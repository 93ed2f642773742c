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
from minispec.io.trace import CacheLengths, ObservedRound
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
        self._recording = recording
        self._r = r
        self._row = row
        self._prompt = prompt
        self._p = r.target_probs[row]
        self._q = r.draft.probs[row]
        self._emitted = r.emitted[row]
        self._accepted = r.accepted(row)
        drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
        self._guesses = [Token(t, recording.words[t], "drafted") for t in drafted]
        after = "untested" if r.stops_at_first_rejection else "rejected"
        self._verdicts = ["accepted"] * self._accepted + ["rejected"] + [after] * len(drafted)
        self._made = 0  # how many guesses
        self._verified = False
        self._tests: list[Draw | None] = []
        self._new: list[Token] = []  # what is committed
        self._block = settled(committed)
        self._holds = {"target": r.target_cache.before[row]}  # how many tokens each cache holds
        if r.draft_cache is not None:
            self._holds["draft"] = r.draft_cache.before[row]
        self._rule = recording.trace.config.get("verifier")
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
        guess = self._guesses[i]
        word = quoted(guess.text)
        q = self._q[i]
        self._made = i + 1
        who = "The drafter looks back"
        if "draft" in self._holds:
            self._holds["draft"] += 1  # it reads the token before, to guess this one
            who = f"The draft model reads {quoted(self._guesses[i - 1].text) if i else self._pending}"
        draw = self._recording.draft_draw(self._r.index, i, self._prompt)
        sentence = f"{who} and says what it finds most probable: {word}."
        shown = NO_CHART
        if not is_one_hot(q):
            drawn = _drawn(draw, " The number drawn is {:.4f}.")
            sentence = f"{who} and draws {word}, for which {equation('q', float(q[guess.id]))}.{drawn}"
            shown = self._chart("what the draft model thinks comes next", {guess.id: "guess"}, "q", q=q)
        return self._step("draft", f"Guess {i + 1} of {len(self._guesses)}: {word}", sentence, i, shown, draw)

    def _verify(self) -> Step:
        drafted = len(self._guesses)
        self._verified = True
        for name, lengths in self._caches().items():
            # Where rows of a batch have drafts of different lengths, the shorter ones are read with padding.
            self._holds[name] = min(lengths.verified[self._row], len(self._block) + drafted)
        sentence = f"The target reads {self._pending}, and says what comes next."
        if drafted:
            guesses = "the guess" if drafted == 1 else f"the {drafted} guesses"
            sentence = (
                f"The target reads {self._pending} and {guesses} in one parallel pass. It gives "
                f"{drafted + 1} distributions: one for each guess, and one for what comes after."
            )
        return self._step("verify", f"Verify: one pass over {count(drafted + 1, 'token')}", sentence)

    def _caches(self) -> dict[str, CacheLengths]:
        """Returns the lengths of both caches, or of the target's alone."""
        draft = self._r.draft_cache
        return {"target": self._r.target_cache} | ({"draft": draft} if draft else {})

    def _test(self, i: int) -> Step:
        token = self._guesses[i].id
        p = self._p[i]
        q = self._q[i]
        verdict = self._verdicts[i]
        draw = self._recording.accept_draw(self._r.index, i, self._prompt)
        self._tests.append(draw)
        self._judge(i + 1 if verdict == "accepted" else len(self._guesses))
        guess = self._word(token)
        if is_one_hot(p):
            best = self._word(int(p.argmax()))
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
        if self._rule in OWN_PICKS:
            return (
                f"The target's own pick here is {'the same' if verdict == 'accepted' else 'another token'}."
            )
        both = f"{equation('p', p)} and {equation('q', q)}"
        if self._rule not in REJECTION:
            return f"{both}. By this rule the guess is {verdict}."
        if p >= q:
            return f"{both}, so min(1, p/q) = 1: accepted, and no number is drawn."
        than = "below" if verdict == "accepted" else "not below"
        drawn = _drawn(draw, " The number drawn, u = {:.4f}, is " + f"{than} that: {verdict}.")
        return f"{both}, so {equation('min(1, p/q)', p / q)}.{drawn or f' It is {verdict}.'}"

    def _commit(self) -> Step:
        kind = self._r.kind(self._row)
        for token, state in zip(self._emitted, kinds(self._r, self._row), strict=True):
            self._new.append(Token(token, self._recording.words[token], state))
        self._new[-1] = replace(self._new[-1], pending=self._r.finish[self._row] is None)
        self._judge(len(self._guesses))  # a rule that tests no token by itself has shown no test
        self.committed = (*(replace(t, pending=False) for t in self._block), *self._new)
        tokens = count(len(self._new), "token")
        gain = f"{tokens} for one target call."
        if kind == "draft":
            cut = self._accepted > len(self._new)
            dropped = "what was accepted" if cut else "the target's own token"
            sentence = f"{self._end}: {dropped} after it is dropped. {gain}"
            return self._step("commit", f"Commit {tokens}", sentence, len(self._new) - 1)
        last = self._word(self._emitted[-1])
        draw = self._recording.next_draw(self._r.index, self._prompt)
        how, shown = self._source(draw)
        title = f"Commit: {last}"
        sentence = "Only one more token fits, and none was guessed."
        if kind == "correction":
            title = f"Correct: {last}"
            guess = quoted(self._guesses[self._accepted].text)
            sentence = f"The same pass says what comes instead of {guess}. {how}"
        elif self._guesses:
            title = f"Bonus: {last}"
            sentence = f"Every guess was accepted, and the pass has one more distribution. {how}"
        return self._step("commit", title, f"{sentence} {gain}", self._accepted, shown, draw)

    def _source(self, draw: Draw | None) -> tuple[str, Chart]:
        """Says what a correction or a bonus is taken from, and shows it."""
        i = self._accepted
        p = self._p[i]
        picked = int(self._r.verdict.token[self._row])
        rejected = i < len(self._guesses)
        marks = {picked: "picked"} | ({self._guesses[i].id: "guess"} if rejected else {})
        if is_one_hot(p):
            return f"Its most probable token is {self._word(picked)}.", self._plain_chart(i, marks)
        if rejected and self._rule in REJECTION:
            source = "the residual, norm(max(0, p − q))"
            q = self._q[i]
            short = residual(p.double(), q.double())
            title = "the residual: p − q where it is positive, scaled to 1"
            shown = self._chart(title, marks, "residual", "q", p=p, q=q, residual=short)
        elif self._guesses and self._rule not in REJECTION + OWN_PICKS:
            source = "what this rule makes of p and q"
            shown = self._chart("the target's distribution p", marks, "p", p=p)
        else:
            source = "p"
            shown = self._chart("the target's distribution p, from which the token is drawn", marks, "p", p=p)
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
        read = [replace(t, state="rolled back", pending=False) for t in (*self._block, *self._guesses)]
        cut: dict[str, tuple[Token, ...]] = {"target": (), "draft": ()}
        parts = []
        for name, lengths in self._caches().items():
            kept = min(lengths.verified[self._row], lengths.after[self._row])
            cut[name] = tuple(read[kept : self._holds[name]])
            self._holds[name] = kept
            if cut[name]:
                parts.append(f"the {name}'s cache forgets {count(len(cut[name]), 'token')}")
        tail = f"{self._end}."
        if self._r.finish[self._row] is None:
            tail = f"{self._word(self._emitted[-1])} is pending now: committed, and in no cache yet."
        title = f"Roll back to {self._holds['target']} tokens"
        sentence = f"{', and '.join(parts).replace('the', 'The', 1)}. Nothing is computed anew. {tail}"
        if not parts:
            title = "Roll back: nothing to forget"
            sentence = f"All that was read is kept. {tail}"
        step = self._step("rollback", title, sentence)
        return replace(step, target_cut=cut["target"], draft_cut=cut["draft"])

    def _catch_up(self) -> Step:
        self._holds["draft"] = self._holds["target"]
        lacked = self._pending
        why = "was read by the target alone"
        if self._guesses:
            lacked = quoted(self._guesses[-1].text)
            why = "its last guess, was made but never read"
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
        return Step(
            phase,
            title,
            sentence,
            text=self.committed if self._new else (*self.committed, *self._guesses[: self._made]),
            target_cache=held[: self._holds["target"]],
            draft_cache=held[: self._holds["draft"]] if "draft" in self._holds else None,
            round=self._r.index,
            before=len(self._block) - 1,
            positions=tuple(map(self._position, range(len(self._guesses) + 1))),
            here=here,
            chart=shown,
            draw=draw,
        )

    def _position(self, i: int) -> RoundPosition:
        """Returns what is known about a position by now."""
        guess = self._guesses[i] if i < self._made else None
        q = float(self._q[i, guess.id]) if guess else None
        p = float(self._p[i, guess.id]) if guess and self._verified else None
        decided = guess and guess.state in ("accepted", "rejected") and self._rule in REJECTION
        return RoundPosition(
            guess,
            q,
            says=self._recording.words[int(self._p[i].argmax())] if self._verified else None,
            p=p,
            ratio=min(1.0, p / q) if decided and q and p is not None else None,
            test=self._tests[i] if i < len(self._tests) else None,
            kept=self._new[i] if i < len(self._new) else None,
        )


def _drawn(draw: Draw | None, said: str) -> str:
    """Fills the number drawn into some words; without a number there are none."""
    return "" if draw is None or draw.number is None else said.format(draw.number)


def is_one_hot(distribution: Tensor) -> bool:
    """Whether a distribution is certain of one token: [V]."""
    return bool(distribution.max() == distribution.sum())
