"""What is said at each step: a title of a few words, and one to three short sentences."""

from __future__ import annotations

from collections.abc import Sequence

from minispec.io.recording import Recording
from minispec.io.trace import ObservedRound
from minispec.show.step_distributions import is_one_hot

Words = tuple[str, str]
ENDS = {
    "eos": "The text is at its end",
    "cap": "The text has as many tokens as were asked for",
    "context": "The context is full",
}


def quoted(text: str) -> str:
    """Returns a token's text in quotes, blanks and line ends made visible where there is nothing else."""
    shown = readable(text)
    return f"“{shown.strip() or shown.replace(' ', '␣') or '∅'}”"


def readable(text: str) -> str:
    """Returns a token's text with line ends to be seen, and the end of a text in letters."""
    return text.replace("\n", "↵").replace("⏹", " ‹end›")


def number(value: float) -> str:
    """Returns a probability with three digits; 0 and 1 are written so only if they are."""
    if value in (0.0, 1.0):
        return f"{value:g}"
    return "<0.001" if value < 0.001 else ">0.999" if value > 0.999 else f"{value:.3f}"


def equation(name: str, value: float) -> str:
    """Returns `p = 0.250`, or where three digits would say 0 or 1, `p < 0.001` or `p > 0.999`."""
    shown = number(value)
    return f"{name} {shown[0]} {shown[1:]}" if shown[0] in "<>" else f"{name} = {shown}"


def count(n: int, noun: str) -> str:
    """Returns `1 token`, `2 tokens`, …."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def word(recording: Recording, token: int) -> str:
    """Returns a token of the vocabulary in quotes."""
    return quoted(recording.words[token])


def prefill(recording: Recording, row: int, has_cache: bool) -> Words:
    """Says what is read before the first round."""
    prompt = recording.trace.prompts[row]
    last = word(recording, prompt[-1])
    if not recording.trace.rounds:
        return "Nothing to do", "There is no room for a single token."
    who = "Both models read" if has_cache else "The target reads"
    each = ", each into a cache of its own" if has_cache else ""
    title = f"Prefill: read {count(len(prompt) - 1, 'token')}"
    return title, f"{who} the prompt but its last token{each}. The last one, {last}, is pending."


def draft(recording: Recording, r: ObservedRound, row: int, place: int, has_cache: bool) -> Words:
    """Says what is guessed, and how."""
    token, q = int(r.draft.tokens[row, place]), r.draft.probs[row, place]
    before = int(r.draft.tokens[row, place - 1]) if place else int(r.pending[row])
    title = f"Guess {place + 1} of {r.drafted(row)}: {word(recording, token)}"
    read = f"The draft model reads {word(recording, before)}" if has_cache else "The drafter looks back"
    if is_one_hot(q):
        return title, f"{read} and says what it finds most probable: {word(recording, token)}."
    drawn = recording.draft_draw(r.index, place, row)
    tail = "" if drawn is None or drawn.number is None else f" The number drawn is {drawn.number:.4f}."
    return (
        title,
        f"{read} and draws {word(recording, token)}, for which {equation('q', float(q[token]))}.{tail}",
    )


def verify(recording: Recording, r: ObservedRound, row: int) -> Words:
    """Says what the one pass reads and gives."""
    drafted, pending = r.drafted(row), word(recording, int(r.pending[row]))
    if not drafted:
        return "Verify: one pass over 1 token", f"The target reads {pending}, and says what comes next."
    title = f"Verify: one pass over {drafted + 1} tokens"
    guesses = "the guess" if drafted == 1 else f"the {drafted} guesses"
    return title, (
        f"The target reads {pending} and {guesses} in one parallel pass. It gives {drafted + 1} laws: "
        f"one for each guess, and one for what comes behind."
    )


def test(recording: Recording, r: ObservedRound, row: int, place: int) -> Words:
    """Says why a guess is accepted or rejected."""
    token, p = int(r.draft.tokens[row, place]), r.target_probs[row, place]
    guess, kept = word(recording, token), place < r.accepted(row)
    title = f"Test {place + 1} of {r.drafted(row)}: {guess} is {'accepted' if kept else 'rejected'}"
    behind = "" if kept or place + 1 == r.drafted(row) else " Nothing behind it counts any more."
    if is_one_hot(p):
        best = word(recording, int(p.argmax()))
        if kept:
            return title, f"The target would say {best} too. The guess is accepted."
        return title, f"The target would say {best}, not {guess}. The guess is rejected.{behind}"
    if recording.trace.config.get("verifier") == "verify_coupled":
        return title, f"The target's own pick here is {'the same' if kept else 'another token'}.{behind}"
    return title, ratio_test(recording, r, row, place) + behind


def ratio_test(recording: Recording, r: ObservedRound, row: int, place: int) -> str:
    """Says how p, q and the number drawn decide."""
    token = int(r.draft.tokens[row, place])
    p, q = float(r.target_probs[row, place, token]), float(r.draft.probs[row, place, token])
    laws = f"{equation('p', p)} and {equation('q', q)}"
    if p >= q:
        return f"{laws}. The target likes it at least as much as the draft: accepted, without a draw."
    drawn = recording.accept_draw(r.index, place, row)
    chance = f"{laws}. It is accepted with this chance: {equation('p/q', p / q)}."
    kept = place < r.accepted(row)
    if drawn is None or drawn.number is None:
        return f"{chance} It is {'accepted' if kept else 'rejected'}."
    return (
        f"{chance} The number drawn, {drawn.number:.4f}, is {'below' if kept else 'not below'} that: "
        f"{'accepted' if kept else 'rejected'}."
    )


def commit(recording: Recording, r: ObservedRound, row: int) -> Words:
    """Says what the round adds to the text."""
    kind, emitted = r.kind(row), r.emitted[row]
    gain = f"{count(len(emitted), 'token')} for one target call."
    if kind == "draft":
        title = f"Commit {count(len(emitted), 'token')}"
        return title, f"{ENDS[r.finish[row] or 'cap']}: what was accepted behind it is dropped. {gain}"
    last = word(recording, emitted[-1])
    how = how_drawn(recording, r, row)
    if kind == "correction":
        guess = word(recording, int(r.draft.tokens[row, r.accepted(row)]))
        return f"Correct: {last}", f"The same pass says what stands in place of {guess}. {how} {gain}"
    if not r.drafted(row):
        return f"Commit: {last}", f"There was room for one token only, and none was guessed. {gain}"
    return f"Bonus: {last}", f"Every guess was accepted, and the pass has one law more. {how} {gain}"


def how_drawn(recording: Recording, r: ObservedRound, row: int) -> str:
    """Says where a correction or a bonus comes from."""
    picked = word(recording, int(r.verdict.token[row]))
    if is_one_hot(r.target_probs[row, r.accepted(row)]):
        return f"Its most probable token is {picked}."
    residual = r.kind(row) == "correction" and recording.trace.config.get("verifier") == "verify_rejection"
    source = "what the draft's law was short of, norm(max(0, p − q))" if residual else "p"
    drawn = recording.next_draw(r.index, row)
    by = "" if drawn is None or drawn.number is None else f", by the number {drawn.number:.4f}"
    return f"{picked} is drawn from {source}{by}."


def read_in_round(r: ObservedRound, row: int) -> tuple[int, int | None]:
    """Returns how many of a row's own tokens each cache held after verification; None for no draft cache.

    Where rows of a batch have drafts of different lengths, the shorter ones are read with padding behind.
    """
    drafted, before = r.drafted(row), r.target_cache.before[row]
    draft = None if r.draft_cache is None else min(r.draft_cache.verified[row], before + max(drafted, 1))
    return min(r.target_cache.verified[row], before + 1 + drafted), draft


def rollback(recording: Recording, r: ObservedRound, row: int) -> Words:
    """Says what the caches forget."""
    after = r.target_cache.after[row]
    held, draft_held = read_in_round(r, row)
    gone, draft_gone = held - after, max(0, (draft_held or 0) - after)
    if r.finish[row] is None:
        tail = f" {word(recording, r.emitted[row][-1])} is pending now: committed, and in no cache yet."
    else:
        tail = f" {ENDS[r.finish[row] or 'cap']}."
    if not gone and not draft_gone:
        return "Roll back: nothing to forget", f"All that was read is kept.{tail}"
    parts = [f"the target's cache forgets {count(gone, 'token')}"] if gone else []
    parts += [f"the draft's cache forgets {count(draft_gone, 'token')}"] if draft_gone else []
    both = ", and ".join(parts)
    both = both[0].upper() + both[1:]
    return f"Roll back to {after} tokens", f"{both}. Nothing is computed anew.{tail}"


def catch_up(recording: Recording, r: ObservedRound, row: int) -> Words:
    """Says which token the draft's cache lacks."""
    drafted = r.drafted(row)
    token = int(r.draft.tokens[row, drafted - 1]) if drafted else int(r.pending[row])
    lacked = word(recording, token)
    why = "its last guess, was made but never read" if drafted else "was read by the target alone"
    return f"Catch up: the draft reads {lacked}", f"The draft's cache lacks one token: {lacked}, {why}."


def end(recording: Recording, row: int, shown: Sequence[ObservedRound]) -> Words:
    """Sums up."""
    tokens, calls = sum(len(r.emitted[row]) for r in shown), len(shown)
    tested = sum(r.tested(row) or 0 for r in shown)
    accepted = sum(r.accepted(row) for r in shown)
    finish = recording.trace.finish(row)
    whole = bool(shown) and shown[-1].index == len(recording.trace.rounds) - 1
    title = f"{count(tokens, 'token')} in {count(calls, 'target call')}"
    if not shown:
        return title, "Nothing was decoded."
    how = f"{ENDS[finish]}. " if whole and finish else "The run goes on from here. "
    rate = f" Of {tested} guesses tested, {accepted} were accepted." if tested else ""
    return title, f"{how}Alone, the target needs {count(tokens, 'call')}; here it needed {calls}.{rate}"
