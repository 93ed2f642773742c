"""Exercises on drafters: one with a model, which remembers its q, and one without."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.trials import Trial
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.records import Draft, Round
from minispec.core.rng import Rng
from minispec.core.warp import Warp, one_hot


def drafter(
    draw_by: Callable[[Warp], Warp] = lambda warp: warp,
    report_by: Callable[[Warp], Warp] = lambda warp: warp,
    read_on: bool = True,
) -> Callable[..., Draft]:
    """Returns an answer: a wrong one draws or reports by another warp, or reads the pending token only."""

    def draft_tokens(
        model: LanguageModel, cache: KVCache, pending: Tensor, k: int, warp: Warp, rng: Rng
    ) -> Draft:
        """Pending [B] in, a draft of tokens [B, k] and distributions [B, k, V] out."""
        token, tokens, probs = pending, [], []
        for _ in range(k):
            logits = model((token if read_on else pending)[:, None], cache)[:, -1]
            token = rng.categorical(draw_by(warp)(logits))
            tokens.append(token)
            probs.append(report_by(warp)(logits))
        return Draft(torch.stack(tokens, 1), torch.stack(probs, 1))

    return draft_tokens


def show_branches(value: Any) -> str:
    """Writes the first branches: what is drawn, how probable it is, and which q is reported."""
    lines = [""]
    for tokens, probability, probs in value[:6]:
        q = "; ".join("(" + ", ".join(f"{x:.3g}" for x in row) + ")" for row in probs)
        lines.append(f"{list(tokens)} drawn with probability {probability:.3g}, q {q}")
    return "\n    ".join(lines)


REMEMBER_Q = exercise(
    "remember-q",
    wrong={
        "softmax-reported": drafter(report_by=lambda warp: Warp()),
        "drawn-unwarped": drafter(draw_by=lambda warp: Warp()),
        "greedy-draft-soft-q": drafter(draw_by=lambda warp: Warp(0)),
        "pending-read-again": drafter(read_on=False),
        "distributions-forgotten": lambda *arguments: drafter()(*arguments).tokens,
    },
    right=drafter(),
    trials=tuple(
        Trial(f"a draft of k = {k} after {text}, {warp}, every branch", "drafted", (text, k, warp))
        for k in (1, 2)
        for warp in (Warp(), Warp(0.5), Warp(top_k=2))
        for text in ([0], [2, 1])
    ),
    show=show_branches,
)


def for_one_row(draft_tokens: Callable[..., Draft]) -> Callable[..., Any]:
    """Returns the answer for one row that an answer for B rows makes: ids, and distributions."""

    def draft_one_row(model: LanguageModel, cache: KVCache, pending: int, *others: Any) -> Any:
        draft = draft_tokens(model, cache, torch.tensor([pending]), *others)
        return draft.tokens[0].tolist(), list(draft.probs[0])

    return draft_one_row


ONE_ROW = exercise(
    "draft-one-row",
    wrong={
        name: for_one_row(answer)
        for name, (_, answer) in REMEMBER_Q.wrong.items()
        if name != "distributions-forgotten"
    },
    right=for_one_row(drafter()),
    trials=tuple(replace(trial, run="drafted_row") for trial in REMEMBER_Q.trials),
    show=show_branches,
)


class LookUpDrafter:
    """Proposes what followed the last two tokens. Wrong answers replace one of its methods."""

    cache_lengths = None

    def __init__(self, vocab_size: int) -> None:
        """Takes V."""
        self.vocab_size = vocab_size
        self.texts: list[list[int]] = []

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Takes the prompts."""
        self.texts = [list(prompt) for prompt in prompts]

    def ends(self, text: list[int]) -> range:
        """Returns where earlier pairs end, the latest first."""
        return range(len(text) - 1, 1, -1)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Looks up what followed before: pending [B] in, a draft of tokens [B, k] and q [B, k, V] out."""
        found = []
        for text in self.texts:
            matches = (end for end in self.ends(text) if text[end - 2 : end] == text[-2:])
            end = next(matches, len(text))
            found.append(text[end : end + k])
        tokens = torch.tensor([tokens + [0] * (k - len(tokens)) for tokens in found]).long().reshape(-1, k)
        lengths = torch.tensor([len(tokens) for tokens in found])
        return Draft(tokens, one_hot(tokens, self.vocab_size, torch.float64), lengths)

    def commit(self, round: Round) -> None:
        """Takes what was gained."""
        for text, emitted in zip(self.texts, round.emitted, strict=True):
            text.extend(emitted)


def but(**methods: Any) -> type[LookUpDrafter]:
    """Returns the drafter with other methods: a wrong answer."""
    return type("LookUpDrafter", (LookUpDrafter,), methods)


def drafting(change: Callable[[Draft], Draft]) -> type[LookUpDrafter]:
    """Returns the drafter with its drafts changed."""
    return but(propose=lambda self, *given: change(LookUpDrafter.propose(self, *given)))


def show_proposals(value: Any) -> str:
    """Writes proposals, or a distribution of texts."""
    if value and isinstance(value[0][1], float):
        return ", ".join(f"{list(tokens)}: {probability:.4g}" for tokens, probability in value)
    return "; ".join(f"{list(t)}" + (f" with q = {[round(x, 3) for x in q]}" if t else "") for t, q in value)


def proposing(prompts: list[list[int]], k: int, gained: list[list[int]] | None = None) -> Trial:
    """Returns a trial of `start`, `commit` and `propose`."""
    more = f", gained {gained}" if gained else ""
    arguments = (prompts, gained or [[] for _ in prompts], k)
    return Trial(f"prompts {prompts}{more}, K = {k}: proposes", "proposed", arguments)


def sampling(prompt: list[int], k: int, n: int) -> Trial:
    """Returns a trial of whole texts."""
    return Trial(f"the distribution of {n} tokens after {prompt}, K = {k}", "sampled", (prompt, k, n))


LOOK_UP = exercise(
    "look-up-drafter",
    wrong={
        "uniform-q": drafting(lambda draft: replace(draft, probs=(0 * draft.probs).softmax(-1))),
        "never-commits": but(commit=lambda self, round: None),
        "earliest-pair": but(ends=lambda self, text: range(2, len(text))),
        "padding-proposed": drafting(lambda draft: Draft(draft.tokens, draft.probs)),
    },
    right=LookUpDrafter,
    trials=(
        proposing([[1, 2, 3]], 2),
        proposing([[1, 2, 3, 1, 2]], 1),
        proposing([[1, 2, 3, 1, 2]], 2),
        proposing([[1, 2, 3, 1, 2]], 4),
        proposing([[1, 2, 3, 1, 2, 4, 1, 2]], 2),
        proposing([[5, 2, 3, 1, 2]], 2),
        proposing([[1]], 1, gained=[[2, 3, 1, 2]]),
        proposing([[1, 2, 3, 1], [7, 7, 7]], 3, gained=[[2], []]),
        proposing([[1, 2, 3, 1, 2], [4, 5]], 2),
        sampling([0, 1, 0], 2, 3),
        sampling([1, 0, 1, 0], 3, 4),
    ),
    show=show_proposals,
)
