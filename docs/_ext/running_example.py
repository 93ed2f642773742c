"""The running example of the walk-through: words and numbers of the recorded runs.

Nothing of the run is typed into a page. A page names a run, a round and what it wants to know of it, and gets
it from the recording that comes with the package. Rounds are named by what happens in them, so that a page
stays true when the pair is trained anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from minispec.core.records import Round
from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough

Facts = Mapping[str, str | int | float | Sequence[int]]

ROUNDS: Mapping[str, Callable[[Round], bool]] = {
    "first": lambda r: r.index == 0,
    "corrected": lambda r: 0 < r.accepted(0) < r.drafted(0),
    "refused": lambda r: r.accepted(0) == 0 < r.drafted(0),
    "full": lambda r: r.kind(0) == "bonus",
    "cut": lambda r: r.kind(0) == "draft",
}


@cache
def run(name: str) -> Recording:
    """Returns a recorded run, `greedy` or `rejection`."""
    return load_walkthrough(name)


def round_of(recording: Recording, name: str) -> Round:
    """Returns the first round in which something happens; `+1` after the name: the round after it.

    Raises:
        ValueError: if the name is unknown, or there is no such round.
    """
    plain, _, later = name.partition("+")
    if plain not in ROUNDS:
        raise ValueError(f"there is no round called {plain!r}; choose one of {', '.join(ROUNDS)}")
    rounds = recording.trace.rounds
    index = next((r.index for r in rounds if ROUNDS[plain](r)), None)
    if index is None or index + int(later or 0) >= len(rounds):
        raise ValueError(f"the run has no round {name!r}")
    return rounds[index + int(later or 0)]


def tell(wanted: str) -> tuple[str, bool]:
    """Returns a fact of a run, and whether it is words of the text.

    Args:
        wanted: `greedy:corrected.drafted`: the run, the round, the fact. Without a round, of the whole.

    Raises:
        ValueError: if there is no such run, round or fact.
    """
    name, _, rest = wanted.partition(":")
    recording = run(name)
    where, _, fact = rest.rpartition(".")
    if not where:
        facts: Mapping[str, str | int | float | Sequence[int]] = facts_of_run(recording)
    else:
        where, _, place = where.partition("@")
        r = round_of(recording, where)
        facts = facts_of_place(recording, r, place) if place else facts_of_round(recording, r)
    if fact not in facts:
        raise ValueError(f"{wanted}: there is no {fact!r}; there are {', '.join(facts)}")
    value = facts[fact]
    if isinstance(value, float):
        return decimal(value), False
    if isinstance(value, Sequence) and not isinstance(value, str):
        return plain(recording.words[token] for token in value) or "(nothing)", True
    return plain([str(value)]), isinstance(value, str) and fact in ("prompt", "text")


def decimal(value: float) -> str:
    """Returns a number with two decimals, or as many as its first digit needs: 3.67, 0.0004."""
    digits = 2 if value == 0 or value >= 0.01 else -math.floor(math.log10(value))
    return f"{value:.{digits}f}"


def plain(words: Iterable[str]) -> str:
    """Returns words as they are quoted in a sentence: without blanks around, the end named."""
    return "".join(words).strip().replace("⏹", " <end>")


def facts_of_run(recording: Recording) -> Facts:
    """Returns what can be said of a whole run."""
    trace, counts = recording.trace, recording.trace.statistics()
    facts: dict[str, str | int | float | Sequence[int]] = {}
    rounds = len(trace.rounds)
    for i in range(trace.config["k"]):
        tested = sum((r.tested(0) or 0) > i for r in trace.rounds)
        accepted = sum(r.accepted(0) > i for r in trace.rounds)
        facts |= {f"tested-{i + 1}": tested, f"accepted-{i + 1}": accepted}
        facts |= {
            f"alpha-{i + 1}": accepted / (tested or 1),
            f"per-position-{i + 1}": accepted / rounds,
        }
    return facts | {
        "prompt": "".join(recording.words[token] for token in trace.prompts[0]),
        "text": recording.text().strip(),
        "prompt-tokens": len(trace.prompts[0]),
        "prefill": trace.prefill_lengths[0],
        "k": trace.config["k"],
        "tokens": counts.emitted,
        "rounds": counts.target_calls,
        "accepted": counts.accepted,
        "tested": counts.tested,
        "drafted": counts.drafted,
        "acceptance": counts.acceptance or 0.0,
        "accepted-over-drafted": counts.accepted_over_drafted or 0.0,
        "mean-acceptance-length": counts.mean_acceptance_length or 0.0,
        "tokens-per-call": counts.tokens_per_target_call or 0.0,
        "finish": trace.finish() or "",
        "vocabulary": len(recording.words),
    }


def facts_of_round(recording: Recording, r: Round) -> Facts:
    """Returns what can be said of a round; a list of ids stands for its words."""
    drafted, accepted = r.drafted(0), r.accepted(0)
    tokens = r.draft.tokens[0, :drafted].tolist()
    facts: dict[str, str | int | float | Sequence[int]] = {
        "index": r.index,
        "number": r.index + 1,
        "pending": [int(r.pending[0])],
        "k": drafted,
        "k+1": drafted + 1,
        "drafted": tokens,
        "kept": tokens[:accepted],
        "dropped": tokens[accepted:],
        "untested": tokens[accepted + 1 :],
        "wrong": tokens[accepted : accepted + 1],
        "last-drafted": tokens[-1:],
        "accepted": accepted,
        "tested": r.tested(0),
        "next": [int(r.verdict.token[0])],
        "emitted": r.emitted[0],
        "gained": len(r.emitted[0]),
        "kind": r.kind(0),
        "finish": r.finish[0] or "",
    }
    for owner, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        if lengths is not None:
            at = {"before": lengths.before[0], "verified": lengths.verified[0], "after": lengths.after[0]}
            facts |= {f"{owner}-{moment}": length for moment, length in at.items()}
            facts[f"{owner}-forgotten"] = max(at["verified"] - at["after"], 0)
    return facts


def facts_of_place(recording: Recording, r: Round, place: str) -> Facts:
    """Returns what can be said of a drafted token: `last`, the last that was tested, or a number from 1."""
    i = r.tested(0) - 1 if place == "last" else int(place) - 1
    token = int(r.draft.tokens[0, i])
    p, q = r.target_probs[0, i].double(), r.draft.probs[0, i].double()
    draw = recording.accept_draw(r.index, i)
    facts: dict[str, str | int | float | Sequence[int]] = {
        "token": [token],
        "p": float(p[token]),
        "q": float(q[token]),
        "ratio": float(p[token] / q[token]),
        "probability": min(1.0, float(p[token] / q[token])),
        "best": [int(p.argmax())],
        "p-best": float(p.max()),
        "alpha": float(p.minimum(q).sum()),
    }
    if draw is not None and draw.number is not None:
        facts["number"] = draw.number
    return facts
