"""The running example of the walk-through: words and numbers of the recorded runs.

Nothing of the run is typed into a page. A page names a run, a round and what it wants to know of it, and gets
it from the recording that comes with the package. Rounds are named by what happens in them, so that a page
stays true when the pair is trained anew.
"""

import math
from functools import cache

from minispec.io.walkthrough import load_walkthrough

ROUNDS = {
    "first": lambda r: r.index == 0,
    "corrected": lambda r: 0 < r.accepted(0) < r.drafted(0),
    "full": lambda r: r.kind(0) == "bonus",
    "cut": lambda r: r.kind(0) == "draft",
}
run = cache(load_walkthrough)  # `greedy` or `rejection`


def round_of(recording, name):
    """Returns the first round in which something happens.

    Raises:
        ValueError: if the name is unknown, or there is no such round.
    """
    rounds = recording.trace.rounds
    found = next(filter(ROUNDS[name], rounds), None) if name in ROUNDS else None
    if found is None:
        raise ValueError(f"the run has no round {name!r}; it may have one of {', '.join(ROUNDS)}")
    return found


def at(kind, name):
    """Returns a run, and its first round of a kind."""
    recording = run(kind)
    return recording, round_of(recording, name)


def drafted_of(r):
    """Returns the ids that a round drafted."""
    return r.draft.tokens[0, : r.drafted(0)].tolist()


def tell(wanted):
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
        digits = 2 if value == 0 or value >= 0.01 else -math.floor(math.log10(value))
        return f"{value:.{digits}f}"
    words = value if isinstance(value, str) else plain(recording.words[token] for token in value)
    return f"`{words or '(nothing)'}`"


def plain(words):
    """Returns words as they are quoted in a sentence: without blanks around, the end named."""
    return "".join(words).strip().replace("⏹", " <end>")


# A list of ids stands for its words, and a text is quoted; numbers are numbers.


def facts_of_run(recording):
    """Returns what can be told of a whole run."""
    trace = recording.trace
    counts = trace.statistics()
    facts = {
        "prompt": trace.prompts[0],
        "text": recording.text().strip(),
        "prompt-tokens": len(trace.prompts[0]),
        "prefill": trace.prefill_lengths[0],
        "k": trace.config["k"],
        "tokens": counts.emitted,
        "rounds": counts.target_calls,
        "accepted": counts.accepted,
        "tested": counts.tested,
        "drafted": counts.drafted,
        "acceptance": counts.acceptance,
        "accepted-over-drafted": counts.accepted_over_drafted,
        "mean-acceptance-length": counts.mean_acceptance_length,
        "tokens-per-call": counts.tokens_per_target_call,
        "vocabulary": len(recording.words),
    }
    for i in range(1, trace.config["k"] + 1):
        tested = sum(r.tested(0) >= i for r in trace.rounds)
        accepted = sum(r.accepted(0) >= i for r in trace.rounds)
        facts |= {f"tested-{i}": tested, f"accepted-{i}": accepted, f"alpha-{i}": accepted / tested}
        facts[f"per-position-{i}"] = accepted / len(trace.rounds)
    return facts


def facts_of_round(r):
    """Returns what can be told of a round."""
    accepted = r.accepted(0)
    drafted = drafted_of(r)
    facts = {
        "index": r.index,
        "pending": [int(r.pending[0])],
        "k": len(drafted),
        "k+1": len(drafted) + 1,
        "drafted": drafted,
        "kept": drafted[:accepted],
        "dropped": drafted[accepted:],
        "untested": drafted[accepted + 1 :],
        "wrong": drafted[accepted : accepted + 1],
        "last-drafted": drafted[-1:],
        "accepted": accepted,
        "tested": r.tested(0),
        "next": [int(r.verdict.token[0])],
        "emitted": r.emitted[0],
        "came": len(r.emitted[0]),
    }
    for model, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        for moment in ("before", "verified", "after"):
            facts[f"{model}-{moment}"] = getattr(lengths, moment)[0]
    return facts


def facts_of_last(recording, r):
    """Returns what can be told of the last drafted token that was tested."""
    i = r.tested(0) - 1
    token = int(r.draft.tokens[0, i])
    p = r.target_probs[0, i].double()
    q = r.draft.probs[0, i].double()
    facts = {
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
