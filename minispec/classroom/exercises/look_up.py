"""Notebook 11: a drafter that looks up what followed before."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.exercises.look_up_drafters import (
    EarliestPlace,
    FindsItself,
    LastTokenOnly,
    LookUpDrafter,
    NeverCommits,
    PaddingProposed,
    UniformLaw,
)
from minispec.classroom.judging import Bench, Trial, numbers
from minispec.classroom.running import Malformed
from minispec.core.loop import speculate
from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.branches import outcomes
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches
from minispec.evidence.proof.models import table_model

STUB = '''class LookUpDrafter:
    """Proposes what followed the last two tokens when they last stood in the text."""

    cache_lengths = None  # there is no cache

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def start(self, prompts):
        """Begins a run. Takes the prompts: lists of ids, one per row."""
        raise NotImplementedError

    def propose(self, pending, k, warp, rng):
        """Returns Draft(tokens [B, k], laws [B, k, V], lengths [B]).

        Row b proposes lengths[b] tokens: those that followed the latest earlier place with its
        last two tokens, at most k; perhaps none.
        """
        raise NotImplementedError

    def commit(self, round):
        """Takes what was gained: round.emitted[b] is a tuple of ids for row b."""
        raise NotImplementedError
'''

GOAL = Drawing(
    (
        line(
            "text",
            "The",
            ("cat", "committed"),
            ("sat", "committed"),
            "on",
            "a",
            "mat.",
            "Then the",
            ("cat", "committed"),
            ("sat", "committed"),
        ),
        line("followed by", "", "", "", ("on", "drafted"), ("a", "drafted"), ("mat.", "drafted")),
        line("law of 'on'", "", "", "", ("all mass", "q")),
    ),
    "K = 3. The last two tokens stood there before; what followed them is proposed, with a one-hot law each.",
)


WRONG = (
    Wrong(
        "uniform-law",
        "Your q is not what you draw from: a token that is looked up is certain, so its law is one-hot. With "
        "another q the text has the wrong law.",
        UniformLaw,
    ),
    Wrong(
        "never-commits",
        "It never learns what was gained: `commit` has to add round.emitted to the texts.",
        NeverCommits,
    ),
    Wrong("earliest-place", "You take the earliest place. The latest one is asked for.", EarliestPlace),
    Wrong(
        "finds-itself",
        "It finds the last two tokens where they stand now, at the very end, and nothing follows them. Look "
        "before that.",
        FindsItself,
    ),
    Wrong(
        "padding-proposed",
        "You count padding as proposals. Say in `lengths` how many tokens a row proposes.",
        PaddingProposed,
    ),
    Wrong("last-token-only", "You look for the last token alone. Two tokens are to match.", LastTokenOnly),
)

PRAISE = "No model, no training, and lossless: a law that is one-hot is a law."


def explored(answer: Any) -> Any:
    """Returns the function that a trial calls: it looks at proposals, or at the law of whole texts."""

    def ran(what: str, *arguments: Any) -> Any:
        return (proposals if what == "propose" else law_of_texts)(answer, *arguments)

    return ran


def proposals(answer: Any, prompts: list[list[int]], gained: list[list[int]], k: int) -> Any:
    """Returns, row by row, what is proposed after `gained` has been committed, and with which law."""
    drafter = answer(9)
    drafter.start([list(prompt) for prompt in prompts])
    if any(gained):
        drafter.commit(SimpleNamespace(emitted=tuple(map(tuple, gained)), live=(True,) * len(prompts)))
    last = [(prompt + more)[-1] for prompt, more in zip(prompts, gained, strict=True)]
    draft = drafter.propose(torch.tensor(last), k, Warp(), SeededRng(0))
    if draft is ...:
        raise NotImplementedError
    if not isinstance(draft, Draft):
        raise Malformed(f"`propose` should return a Draft, and it returned {type(draft).__name__}")
    rows = []
    laws = numbers(draft.probs, (len(prompts), draft.k, 9), "the laws: a tensor")
    for row, length in enumerate(draft.lengths.tolist()):
        tokens = draft.tokens[row, :length].tolist()
        rows.append((tuple(tokens), tuple(laws[row, i].tolist()[t] for i, t in enumerate(tokens))))
    return tuple(rows)


def law_of_texts(answer: Any, prompt: list[int], k: int, n: int) -> Any:
    """Returns the exact law of n sampled tokens, and how many target calls they take on average."""
    target = table_model(2, 4)

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[Any]:
        settings: dict[str, Any] = {"verifier": verify_rejection, "max_new_tokens": n, "warp": Warp()}
        rounds = list(speculate(target, answer(2), [list(prompt)] * len(keys), k=k, rng=rng, **settings))
        return [tokens for tokens, _ in outcomes(rounds, len(keys))]

    law: dict[tuple[int, ...], float] = {}
    for _, tokens, chance in enumerate_branches(run, [0], most_rows=1):
        law[tokens] = law.get(tokens, 0.0) + chance
    return tuple((tokens, law[tokens]) for tokens in sorted(law))


def show(value: Any) -> str:
    """Writes proposals, or a law."""
    if value and isinstance(value[0][1], float):
        return ", ".join(f"{list(tokens)}: {chance:.4g}" for tokens, chance in value)
    return "; ".join(f"{list(t)}" + (f" with q = {[round(x, 3) for x in q]}" if t else "") for t, q in value)


def proposing(prompts: list[list[int]], gained: list[list[int]], k: int) -> Trial:
    """Returns a trial of `start`, `commit` and `propose`."""
    more = f", gained {gained}" if any(gained) else ""
    return Trial(f"prompts {prompts}{more}, K = {k}: proposes", lambda: ("propose", prompts, gained, k))


def sampling(prompt: list[int], k: int, n: int) -> Trial:
    """Returns a trial of whole texts."""
    return Trial(f"the law of {n} tokens behind {prompt}, K = {k}", lambda: ("law", prompt, k, n))


TRIALS = (
    proposing([[1, 2, 3]], [[]], 2),
    proposing([[1, 2, 3, 1, 2]], [[]], 1),
    proposing([[1, 2, 3, 1, 2]], [[]], 2),
    proposing([[1, 2, 3, 1, 2]], [[]], 4),
    proposing([[1, 2, 3, 1, 2, 4, 1, 2]], [[]], 2),
    proposing([[5, 2, 3, 1, 2]], [[]], 2),
    proposing([[1]], [[2, 3, 1, 2]], 1),
    proposing([[1, 2, 3, 1], [7, 7, 7]], [[2], []], 3),
    proposing([[1, 2, 3, 1, 2], [4, 5]], [[], []], 2),
    sampling([0, 1, 0], 2, 3),
    sampling([1, 0, 1, 0], 3, 4),
)

EXERCISE = Exercise(
    key="look-up-drafter",
    title="Write a drafter without a model",
    notebook=11,
    difficulty=3,
    minutes=15,
    stub=STUB,
    hints=(
        "Keep a list of ids per row: prompts in `start`, round.emitted in `commit`. Search it backwards "
        "for its "
        "last two ids.",
        "for end in range(len(text) - 1, 1, -1): if text[end - 2:end] == text[-2:], propose text[end:end "
        "+ k]. "
        "Pad with 0 to k; torch.nn.functional.one_hot(tokens, V).double() is q.",
    ),
    goal=GOAL,
    judge=Bench(LookUpDrafter, TRIALS, WRONG, lambda value: value, show, PRAISE, explored).judge,
    wrong=WRONG,
    praise=PRAISE,
)
