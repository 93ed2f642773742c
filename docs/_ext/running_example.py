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

# A list of ids stands for its words, and a text is quoted; numbers are numbers.
Facts = dict[str, str | int | float | Sequence[int]]

ROUNDS: Mapping[str, Callable[[Round], bool]] = {
    "first": lambda r: r.index == 0,
    "corrected": lambda r: 0 < r.accepted(0) < r.drafted(0),
    "full": lambda r: r.kind(0) == "bonus",
    "cut": lambda r: r.kind(0) == "draft",
}


@cache
def run(name: str) -> Recording:
    """Returns a recorded run, `greedy` or `rejection`."""
    return load_walkthrough(name)


def round_of(recording: Recording, name: str) -> Round:
    """Returns the first round in which something happens.

    Raises:
        ValueError: if the name is unknown, or there is no such round.
    """
    if name not in ROUNDS:
        raise ValueError(f"there is no round called {name!r}; choose one of {', '.join(ROUNDS)}")
    found = next((r for r in recording.trace.rounds if ROUNDS[name](r)), None)
    if found is None:
        raise ValueError(f"the run has no round {name!r}")
    return found


def tell(wanted: str) -> str:
    """Returns a fact of a run in Markdown: words of the text as code, numbers as they are.

    Args:
        wanted: `greedy:tokens`, of the whole run; `greedy:corrected.drafted`, of a round;
            `greedy:corrected@last.p`, of the last of its drafted tokens that was tested.

    Raises:
        ValueError: if there is no such run, round or fact.
    """
    name, _, rest = wanted.partition(":")
    recording = run(name)
    where, _, fact = rest.rpartition(".")
    if not where:
        facts = facts_of_run(recording)
    elif where.endswith("@last"):
        facts = facts_of_last(recording, round_of(recording, where.removesuffix("@last")))
    else:
        facts = facts_of_round(round_of(recording, where))
    if fact not in facts:
        raise ValueError(f"{wanted}: there is no {fact!r}; there are {', '.join(facts)}")
    value = facts[fact]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return decimal(value)
    words = value if isinstance(value, str) else plain(recording.words[token] for token in value)
    return f"`{words or '(nothing)'}`"


def decimal(value: float) -> str:
    """Returns a number with two decimals, or as many as its first digit needs: 3.67, 0.0004."""
    digits = 2 if value == 0 or value >= 0.01 else -math.floor(math.log10(value))
    return f"{value:.{digits}f}"


def plain(words: Iterable[str]) -> str:
    """Returns words as they are quoted in a sentence: without blanks around, the end named."""
    return "".join(words).strip().replace("⏹", " <end>")


def facts_of_run(recording: Recording) -> Facts:
    """Returns what can be told of a whole run."""
    trace = recording.trace
    counts = trace.statistics()
    facts: Facts = {
        "prompt": plain(recording.words[token] for token in trace.prompts[0]),
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
        "vocabulary": len(recording.words),
    }
    for i in range(trace.config["k"]):
        tested = sum((r.tested(0) or 0) > i for r in trace.rounds)
        accepted = sum(r.accepted(0) > i for r in trace.rounds)
        facts[f"tested-{i + 1}"] = tested
        facts[f"accepted-{i + 1}"] = accepted
        facts[f"alpha-{i + 1}"] = accepted / (tested or 1)
        facts[f"per-position-{i + 1}"] = accepted / len(trace.rounds)
    return facts


def facts_of_round(r: Round) -> Facts:
    """Returns what can be told of a round."""
    drafted = r.drafted(0)
    accepted = r.accepted(0)
    tokens = r.draft.tokens[0, :drafted].tolist()
    facts: Facts = {
        "index": r.index,
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
        "tested": r.tested(0) or 0,
        "next": [int(r.verdict.token[0])],
        "emitted": r.emitted[0],
        "gained": len(r.emitted[0]),
    }
    for model, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        if lengths is not None:
            facts[f"{model}-before"] = lengths.before[0]
            facts[f"{model}-verified"] = lengths.verified[0]
            facts[f"{model}-after"] = lengths.after[0]
    return facts


def facts_of_last(recording: Recording, r: Round) -> Facts:
    """Returns what can be told of the last drafted token that was tested."""
    i = (r.tested(0) or 0) - 1
    token = int(r.draft.tokens[0, i])
    p, q = r.target_probs[0, i].double(), r.draft.probs[0, i].double()
    facts: Facts = {
        "token": [token],
        "p": float(p[token]),
        "q": float(q[token]),
        "probability": min(1.0, float(p[token] / q[token])),
        "alpha": float(p.minimum(q).sum()),
    }
    draw = recording.accept_draw(r.index, i)
    if draw is not None and draw.number is not None:
        facts["number"] = draw.number
    return facts
