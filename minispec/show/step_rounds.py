"""A round taken apart, one small thing at a time.

The guesses one by one, the one forward that verifies them, the tests one by one, what is committed, what both
caches forget, and the token that the draft's cache lacks after full acceptance. Each step has all that a
page shows: the text with the state of each token, both caches, distributions, numbers drawn, and in words
what happens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import starmap, zip_longest

import torch
from torch import Tensor

from minispec.core.verify import residual
from minispec.io.recording import Draw, Recording
from minispec.io.trace import CacheLengths, ObservedRound
from minispec.show.step_records import NO_CHART, Chart, Phase, RoundPosition, Step, Token, TokenBars, equation
from minispec.show.text import count, decided, kinds, needs_catch_up, quoted, verdicts

ENDS = {
    "eos": "The text is at its end",
    "cap": "The text has as many tokens as requested",
    "context": "The context is full",
}

# These accept with probability min(1, p/q), and correct from the residual.
REJECTION = ("rejection", "native_rejection")
COMPARES_SAMPLES = ("coupled", "compare")  # compare the guess with a token drawn from p
TOP = 4  # tokens of each distribution in a chart


def settled(text: Sequence[Token]) -> tuple[Token, ...]:
    """A pending token of the prompt is an ordinary token of the text once it has been read."""
    return tuple(replace(t, state="prompt" if t.state == "pending" else t.state) for t in text)


class RoundSteps:
    """Goes through one round.

    Attributes:
        committed: the text after the round.
    """

    def __init__(
        self, recording: Recording, r: ObservedRound, row: int, prompt: int, text: tuple[Token, ...]
    ) -> None:
        """Starts with the text that the last round ended with, in the row that holds a prompt."""
        self._recording = recording
        self._r = r
        self._row = row
        self._prompt = prompt
        self._text = text
        self._block = settled(text)
        self._p = r.target_probs[row]
        self._q = r.draft.probs[row]
        self._accepted = r.accepted(row)
        self._rule = str(recording.trace.config.get("verifier")).removeprefix("verify_")
        self._pending = self._word(int(r.pending[row]))
        drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
        self._guesses = [Token(t, recording.words[t], "drafted") for t in drafted]
        states = zip(self._guesses, verdicts(r, row), strict=True)
        self._judged = [replace(guess, state=state) for guess, state in states]
        self._tests = [recording.accept_draw(r.index, i, prompt) for i in range(decided(r, row))]
        kinds_of = zip(r.emitted[row], kinds(r, row), strict=True)
        self._new = [Token(t, recording.words[t], kind) for t, kind in kinds_of]
        self._new[-1] = replace(self._new[-1], pending=r.finish[row] is None)
        self.committed = (*(replace(t, pending=False) for t in self._block), *self._new)

    def steps(self) -> Iterator[Step]:
        """Yields the steps of the round."""
        for i in range(len(self._guesses)):
            yield self._draft(i)
        yield self._verify()
        for i in range(len(self._tests)):
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
        subject = "The drafter looks back"
        if self._r.draft_cache:
            subject = f"The draft model reads {quoted(self._guesses[i - 1].text) if i else self._pending}"
        draw = self._recording.draft_draw(self._r.index, i, self._prompt)
        sentence = f"{subject}. Its most probable token is {word}."
        chart = NO_CHART
        if not is_one_hot(q):
            drawn_text = _drawn(draw, " The number drawn is {:.4f}.")
            sentence = (
                f"{subject} and draws {word}, for which {equation('q', float(q[guess.id]))}.{drawn_text}"
            )
            chart = self._chart("what the draft model thinks comes next", {guess.id: "guess"}, "q", q=q)
        return self._step("draft", f"Guess {i + 1} of {len(self._guesses)}: {word}", sentence, i, chart, draw)

    def _verify(self) -> Step:
        drafted = len(self._guesses)
        sentence = f"The target reads {self._pending}, and gives the next distribution."
        if drafted:
            guesses = "the guess" if drafted == 1 else f"the {drafted} guesses"
            sentence = (
                f"The target reads {self._pending} and {guesses} in one parallel forward pass. It gives "
                f"{drafted + 1} distributions: one for each guess, and one for what comes after."
            )
        return self._step("verify", f"Verify: one forward pass over {count(drafted + 1, 'token')}", sentence)

    def _test(self, i: int) -> Step:
        token = self._guesses[i].id
        p = self._p[i]
        q = self._q[i]
        verdict = self._judged[i].state
        draw = self._tests[i]
        guess = self._word(token)
        if is_one_hot(p):
            best = self._word(int(p.argmax()))
            target_token = f"{best} too" if verdict == "accepted" else f"{best}, not {guess}"
            sentence = f"The target would emit {target_token}. The guess is {verdict}."
            chart = self._plain_chart(i, {token: "guess"})
        else:
            sentence = self._ratio(float(p[token]), float(q[token]), verdict, draw)
            title = "the target's distribution p beside the draft's q"
            chart = self._chart(title, {token: "guess"}, "p", "q", p=p, q=q)
        if verdict == "rejected" and i + 1 < len(self._guesses):
            sentence += " What was drafted after it is not tested."
        title = f"Test {i + 1} of {len(self._guesses)}: {guess} is {verdict}"
        return self._step("test", title, sentence, i, chart, draw)

    def _ratio(self, p: float, q: float, verdict: str, draw: Draw | None) -> str:
        """Tells how p, q and the number drawn decide, as far as the rule is known."""
        if self._rule in COMPARES_SAMPLES:
            return (
                f"The target's own pick here is {'the same' if verdict == 'accepted' else 'another token'}."
            )
        probabilities = f"{equation('p', p)} and {equation('q', q)}"
        if self._rule not in REJECTION:
            return f"{probabilities}. By this rule the guess is {verdict}."
        if p >= q:
            return f"{probabilities}, so min(1, p/q) = 1: accepted, and no number is drawn."
        than = "below" if verdict == "accepted" else "not below"
        drawn_text = _drawn(draw, " The number drawn, u = {:.4f}, is " + f"{than} that: {verdict}.")
        return f"{probabilities}, so {equation('min(1, p/q)', p / q)}.{drawn_text or f' It is {verdict}.'}"

    def _commit(self) -> Step:
        kind = self._r.kind(self._row)
        tokens = count(len(self._new), "token")
        gain = f"{tokens} for one target call."
        if kind == "draft":
            is_cut = len(self._guesses) > len(self._new)
            dropped = "what was drafted" if is_cut else "the target's own token"
            sentence = f"{self._end}: {dropped} after it is dropped. {gain}"
            return self._step("commit", f"Commit {tokens}", sentence, len(self._new) - 1)
        last = quoted(self._new[-1].text)
        draw = self._recording.next_draw(self._r.index, self._prompt)
        reason, chart = self._source(draw)
        title = f"Commit: {last}"
        sentence = "Only one more token fits, and none was guessed."
        if kind == "correction":
            title = f"Correction: {last}"
            guess = quoted(self._guesses[self._accepted].text)
            sentence = f"The same forward pass already contains the token that replaces {guess}. {reason}"
        elif self._guesses:
            title = f"Bonus: {last}"
            sentence = f"Every guess was accepted, and the forward pass gives one more distribution. {reason}"
        return self._step("commit", title, f"{sentence} {gain}", self._accepted, chart, draw)

    def _source(self, draw: Draw | None) -> tuple[str, Chart]:
        """Says what a correction or a bonus is taken from, and shows it."""
        i = self._accepted
        p = self._p[i]
        token = int(self._r.verdict.token[self._row])
        rejected = i < len(self._guesses)
        marks = {token: "taken"} | ({self._guesses[i].id: "guess"} if rejected else {})
        if is_one_hot(p):
            return f"Its most probable token is {self._word(token)}.", self._plain_chart(i, marks)
        source = "p"
        title = "the target's distribution p, from which the token is drawn"
        lead = ["p"]
        distributions = {"p": p}
        if rejected and self._rule in REJECTION:
            source = "the residual, norm(max(0, p − q))"
            title = "the residual: p − q where it is positive, scaled to 1"
            lead = ["residual", "q"]
            distributions |= {"q": self._q[i], "residual": residual(p.double(), self._q[i].double())}
        elif self._guesses and self._rule not in REJECTION + COMPARES_SAMPLES:
            source = "what this rule makes of p and q"
            title = "the target's distribution p"
        drawn_text = _drawn(draw, ", by the number {:.4f}")
        return f"{self._word(token)} is drawn from {source}{drawn_text}.", self._chart(
            title, marks, *lead, **distributions
        )

    def _plain_chart(self, i: int, marks: dict[int, str]) -> Chart:
        """Shows the target's distribution as it is before temperature 0 puts all of it on one token."""
        p = torch.softmax(self._r.target_logits[self._row, i].double(), -1)
        marks = {int(self._p[i].argmax()): ""} | marks
        return self._chart("what the target thinks; at temperature 0 the largest is taken", marks, "p", p=p)

    def _chart(self, title: str, marks: dict[int, str], *lead: str, **distributions: Tensor) -> Chart:
        """Returns the tokens that lead one of some distributions and those with a mark, by token id.

        `of` are `p`, `q` and `residual`, [V] each, or some of them. Of those that `lead` names the most
        probable tokens are shown, and the first gives the order.
        """
        leading = torch.stack([distributions[name].double() for name in lead])
        candidates = set(leading.topk(min(TOP, leading.shape[1])).indices.flatten().tolist())
        highest = leading.amax(0)
        token_ids = [i for i in candidates | set(marks) if i in marks or highest[i] >= 5e-4]
        token_ids.sort(key=lambda i: (-float(leading[0, i]), i))
        words = self._recording.words
        bars = [
            TokenBars(
                words[i],
                marks.get(i, ""),
                {name: float(distribution[i]) for name, distribution in distributions.items()},
            )
            for i in token_ids
        ]
        return Chart(title, tuple(bars))

    def _rollback(self) -> Step:
        read = [replace(t, state="rolled back", pending=False) for t in (*self._block, *self._guesses)]
        cut = {
            name: tuple(read[self._held(lengths, "rollback") : self._held(lengths, "verify")])
            if lengths
            else ()
            for name, lengths in (("target", self._r.target_cache), ("draft", self._r.draft_cache))
        }
        parts = [f"the {name}'s cache forgets {count(len(cut[name]), 'token')}" for name in cut if cut[name]]
        tail = f"{self._end}."
        if self._new[-1].pending:
            tail = f"{quoted(self._new[-1].text)} is pending now: committed, and in no cache yet."
        title = f"Roll back to {self._held(self._r.target_cache, 'rollback')} tokens"
        sentence = f"{', and '.join(parts).replace('the', 'The', 1)}. Nothing is computed anew. {tail}"
        if not parts:
            title = "Roll back: nothing to forget"
            sentence = f"All that was read is kept. {tail}"
        step = self._step("rollback", title, sentence)
        return replace(step, target_cut=cut["target"], draft_cut=cut["draft"])

    def _catch_up(self) -> Step:
        lacked = self._pending
        reason = "was read by the target alone"
        if self._guesses:
            lacked = quoted(self._guesses[-1].text)
            reason = "its last guess, was made but never read"
        sentence = f"The draft's cache lacks one token: {lacked}, {reason}."
        return self._step("catch up", f"Catch up: the draft reads {lacked}", sentence)

    @property
    def _end(self) -> str:
        return ENDS[self._r.finish[self._row] or "cap"]

    def _held(self, lengths: CacheLengths, phase: Phase, guesses: int = 0) -> int:
        """Returns how many tokens a cache holds after a phase, or after so many guesses that it made."""
        verified = lengths.verified[self._row]
        after = lengths.after[self._row]
        if phase == "draft":
            return lengths.before[self._row] + guesses  # it reads the token before, to guess the next one
        if phase in ("rollback", "catch up"):
            return after if phase == "catch up" else min(verified, after)
        # Where rows of a batch have drafts of different lengths, the shorter ones are read with padding.
        return min(verified, len(self._block) + len(self._guesses))

    def _step(
        self,
        phase: Phase,
        title: str,
        sentence: str,
        here: int | None = None,
        shown: Chart = NO_CHART,
        draw: Draw | None = None,
    ) -> Step:
        drafted = len(self._guesses)
        done = (here or 0) + 1
        committed = phase not in ("draft", "verify", "test")
        drafted_now = done if phase == "draft" else drafted
        tested = done if phase == "test" else drafted * committed
        judged = tested if tested <= self._accepted else drafted  # after a rejection nothing is tested
        guesses = (*self._judged[:judged], *self._guesses[judged:drafted_now])
        # What was read is the text as it was drafted; after rollback it is the text as it was committed.
        read = self.committed if phase in ("rollback", "catch up") else (*self._block, *guesses)
        held = tuple(replace(t, pending=False) for t in read)
        target_choices = [] if phase == "draft" else self._p.argmax(-1).tolist()
        new = self._new if committed else []
        known = zip_longest(
            range(drafted + 1), guesses, self._tests[:tested], new, target_choices[: drafted + 1]
        )
        r = self._r
        return Step(
            phase,
            title,
            sentence,
            text=self.committed if committed else (*self._text, *guesses),
            target_cache=held[: self._held(r.target_cache, phase)],
            draft_cache=held[: self._held(r.draft_cache, phase, drafted_now)] if r.draft_cache else None,
            round=r.index,
            before=len(self._block) - 1,
            positions=tuple(starmap(self._position, known)),
            here=here,
            chart=shown,
            draw=draw,
        )

    def _position(
        self, i: int, guess: Token | None, test: Draw | None, kept: Token | None, best: int | None
    ) -> RoundPosition:
        """Returns what is known about a position by now; `best`: the target's most probable token there."""
        q = float(self._q[i, guess.id]) if guess else None
        p = float(self._p[i, guess.id]) if guess and best is not None else None
        decided = guess and guess.state in ("accepted", "rejected") and self._rule in REJECTION
        ratio = min(1.0, p / q) if decided and q and p is not None else None
        target_choice = None if best is None else self._recording.words[best]
        return RoundPosition(guess, q, target_choice, p, ratio, test, kept)


def _drawn(draw: Draw | None, template: str) -> str:
    """Fills the number drawn into some words; without a number there are none."""
    return "" if draw is None or draw.number is None else template.format(draw.number)


def is_one_hot(distribution: Tensor) -> bool:
    """Whether a distribution is certain of one token: [V]."""
    return bool(distribution.max() == distribution.sum())
