"""Steps: a run taken apart, one small thing at a time.

Prefill; then in each round the guesses one by one, the one pass that verifies them, the tests one by one,
what is committed, what both caches forget, and the token that the draft's cache lacks after full acceptance.
Each step says all that a page shows: the text with the state of each token, both caches, laws, numbers drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minispec.io.draws import Draw
from minispec.io.recording import Recording
from minispec.io.trace import ObservedRound
from minispec.show import step_words as say
from minispec.show.step_distributions import Bar, draft_bars, next_bars, test_bars
from minispec.show.step_records import Phase, Place, Step, Token, TokenState


def steps(recording: Recording, row: int = 0, rounds: int | None = None) -> list[Step]:
    """Takes a recording apart.

    Args:
        recording: a run.
        row: which row of the batch.
        rounds: only this many from the start; None: all.

    Returns:
        The steps in order: one for prefill, those of each round, and one for the end.

    Raises:
        ValueError: if there is no such row, or `rounds` is below 1.
    """
    trace = recording.trace
    if not 0 <= row < len(trace.prompts):
        raise ValueError(f"there is no row {row}; the recording has {len(trace.prompts)}")
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    shown = [r for r in trace.rounds[:rounds] if r.live[row]]
    has_cache = any(r.draft_cache is not None for r in shown)
    prompt = [Token(t, recording.words[t], "prompt") for t in trace.prompts[row]]
    committed = (*prompt[:-1], replace(prompt[-1], state="pending", pending=True))
    read = tuple(prompt[:-1]) if shown else ()
    title, sentence = say.prefill(recording, row, has_cache)
    found = [Step("prefill", title, sentence, committed, read, read if has_cache else None)]
    for r in shown:
        walk = RoundWalk(recording, r, row, committed)
        found.extend(walk.steps())
        committed = walk.committed
    title, sentence = say.end(recording, row, shown)
    last = found[-1]
    settled = tuple(replace(t, state="prompt" if t.state == "pending" else t.state) for t in committed)
    if trace.finish(row) is not None and len(shown) == sum(r.live[row] for r in trace.rounds):
        settled = tuple(replace(t, pending=False) for t in settled)
    return [*found, Step("end", title, sentence, settled, last.target_cache, last.draft_cache)]


class RoundWalk:
    """Walks through one round and keeps count of what stands where.

    Attributes:
        committed: the text before the round, and after `steps` has been used up, behind it.
    """

    def __init__(
        self, recording: Recording, r: ObservedRound, row: int, committed: tuple[Token, ...]
    ) -> None:
        """Starts where the last round ended."""
        self.committed = committed
        self._recording, self._r, self._row = recording, r, row
        drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
        self._guesses = [Token(t, recording.words[t], "drafted") for t in drafted]
        self._shown = 0  # how many of them have been made
        self._places = [Place() for _ in range(len(drafted) + 1)]
        # A committed prompt token is an ordinary token of the text once it has been read.
        self._block = (*(replace(t, state="prompt" if t.state == "pending" else t.state) for t in committed),)
        self._target_holds = r.target_cache.before[row]
        self._draft_holds = r.draft_cache.before[row] if r.draft_cache else None

    def steps(self) -> Iterator[Step]:
        """Yields the steps of the round."""
        for place in range(len(self._guesses)):
            yield self._draft(place)
        yield self._verify()
        for place in range(self._r.tested(self._row) or 0):
            yield self._test(place)
        yield self._commit()
        yield self._rollback()
        if self._lacks:
            yield self._catch_up()

    @property
    def _lacks(self) -> bool:
        cache = self._r.draft_cache
        return cache is not None and cache.verified[self._row] < cache.after[self._row]

    def _draft(self, place: int) -> Step:
        r, row = self._r, self._row
        guess = self._guesses[place]
        self._shown = place + 1
        if self._draft_holds is not None:
            self._draft_holds += 1  # it reads the token before, to guess this one
        q = float(r.draft.probs[row, place, guess.id])
        self._places[place] = Place(guess=guess, q=q)
        draw = self._recording.draft_draw(r.index, place, row)
        title, sentence = say.draft(self._recording, r, row, place, self._draft_holds is not None)
        bars = draft_bars(r, row, place, self._recording.words)
        return self._step(
            "draft", title, sentence, place, bars, "what the draft model thinks comes next", draw
        )

    def _verify(self) -> Step:
        r, row = self._r, self._row
        self._target_holds, self._draft_holds = say.read_in_round(r, row)
        for place in range(len(self._guesses) + 1):
            law = r.target_probs[row, place]
            guess = self._places[place].guess
            self._places[place] = replace(
                self._places[place],
                says=self._recording.words[int(law.argmax())],
                p=float(law[guess.id]) if guess else None,
            )
        title, sentence = say.verify(self._recording, r, row)
        return self._step("verify", title, sentence)

    def _test(self, place: int) -> Step:
        r, row = self._r, self._row
        kept = place < r.accepted(row)
        draw = self._recording.accept_draw(r.index, place, row)
        self._guesses[place] = replace(self._guesses[place], state="accepted" if kept else "rejected")
        self._places[place] = replace(
            self._places[place],
            guess=self._guesses[place],
            test=draw,
            verdict="accepted" if kept else "rejected",
        )
        title, sentence = say.test(self._recording, r, row, place)
        bars, bars_title = test_bars(r, row, place, self._recording)
        return self._step("test", title, sentence, place, bars, bars_title, draw)

    def _commit(self) -> Step:
        r, row = self._r, self._row
        emitted, kind = r.emitted[row], r.kind(row)
        states: list[TokenState] = ["accepted"] * len(emitted)
        if kind != "draft":
            states[-1] = kind
        going = r.finish[row] is None
        new = [
            Token(t, self._recording.words[t], state, pending=going and i == len(emitted) - 1)
            for i, (t, state) in enumerate(zip(emitted, states, strict=True))
        ]
        for place in range(len(self._places)):
            self._places[place] = self._settle(place, new, kind)
        self.committed = (*(replace(t, pending=False) for t in self._block), *new)
        self._shown = -1  # from here on the text is what is committed
        here = r.accepted(row) if kind != "draft" else len(emitted) - 1
        title, sentence = say.commit(self._recording, r, row)
        bars, bars_title = next_bars(r, row, self._recording) if kind != "draft" else ((), "")
        draw = self._recording.next_draw(r.index, row) if kind != "draft" else None
        return self._step("commit", title, sentence, here, bars, bars_title, draw)

    def _settle(self, place: int, new: list[Token], kind: str) -> Place:
        """Returns a place as it is when the round's tokens are committed."""
        found = self._places[place]
        kept = new[place] if place < len(new) else None
        verdict = found.verdict
        if kept is None or (kept.state != "accepted" and found.guess is not None):
            if found.guess is not None:  # what nobody tested goes too, and what lies behind the end
                self._guesses[place] = replace(self._guesses[place], state="rejected")
                found = replace(found, guess=self._guesses[place])
                verdict = verdict or "untested"
        elif kept.state != "accepted":
            verdict = "free"
        return replace(found, kept=kept, verdict=verdict)

    def _rollback(self) -> Step:
        r, row = self._r, self._row
        self._target_holds = r.target_cache.after[row]
        if r.draft_cache is not None:
            self._draft_holds = min(r.draft_cache.verified[row], r.draft_cache.after[row])
        title, sentence = say.rollback(self._recording, r, row)
        return self._step("rollback", title, sentence)

    def _catch_up(self) -> Step:
        assert self._r.draft_cache is not None
        self._draft_holds = self._r.draft_cache.after[self._row]
        title, sentence = say.catch_up(self._recording, self._r, self._row)
        return self._step("catch up", title, sentence)

    def _step(
        self,
        phase: Phase,
        title: str,
        sentence: str,
        here: int | None = None,
        bars: tuple[Bar, ...] = (),
        bars_title: str = "",
        draw: Draw | None = None,
    ) -> Step:
        # What was read is the text as it was drafted; after rollback it is the text as it was committed.
        rolled = phase in ("rollback", "catch up")
        read = self.committed if rolled else (*self._block, *self._guesses)
        settled = tuple(replace(t, pending=False) for t in read)
        return Step(
            phase=phase,
            title=title,
            sentence=sentence,
            text=self.committed if self._shown < 0 else (*self.committed, *self._guesses[: self._shown]),
            target_cache=settled[: self._target_holds],
            draft_cache=None if self._draft_holds is None else settled[: self._draft_holds],
            round=self._r.index,
            places=tuple(self._places),
            here=here,
            bars=bars,
            bars_title=bars_title,
            draw=draw,
        )
