"""Notebook 4: draft tokens, and remember the law of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, nested, numbers
from minispec.classroom.limited import Limited
from minispec.classroom.running import Malformed
from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill
from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches
from minispec.evidence.proof.models import table_model

STUB = '''def draft_tokens(model, cache, pending, k, warp, rng):
    """Returns a Draft of k tokens a row, and the law that each was drawn from.

    The cache holds all of the text but the pending tokens [B].
    model(ids [B, 1], cache) reads one token a row and gives logits [B, 1, V];
    warp(logits) is a law; rng.categorical(law [B, V]) draws one id a row.
    The result is Draft(tokens [B, k], laws [B, k, V]).
    """
    ...
'''

GOAL = Drawing(
    (
        line("reads", ("The", "pending"), ("cat", "drafted"), ("sat", "drafted")),
        line("law, kept as q", ("of cat", "q"), ("of sat", "q"), ("of on", "q")),
        line("draws", ("cat", "drafted"), ("sat", "drafted"), ("on", "drafted")),
    ),
    "K = 3. Each drawn token is read next, and its law is kept: the verifier needs it.",
)


def draft_tokens(
    model: LanguageModel, cache: KVCache, pending: Tensor, k: int, warp: Warp, rng: Rng
) -> Draft:
    """Uses the shipped drafter: pending [B] in, a draft of tokens [B, k] and laws [B, k, V] out."""
    drafter = ModelDrafter(model)
    drafter._cache = cache
    return drafter.propose(pending, k, warp, rng)


def drawn(
    model: LanguageModel,
    cache: KVCache,
    pending: Tensor,
    k: int,
    rng: Rng,
    draw_by: Warp,
    report_by: Warp,
    reads_its_own: bool = True,
) -> Draft:
    """Drafts by one warp and reports by another: the loop behind most wrong answers.

    Pending [B] in, a draft of tokens [B, k] and laws [B, k, V] out.
    """
    token, tokens, laws = pending, [], []
    for _ in range(k):
        logits = model(token[:, None], cache)[:, -1]
        drawn_token = rng.categorical(draw_by(logits))
        token = drawn_token if reads_its_own else token
        tokens.append(drawn_token)
        laws.append(report_by(logits))
    return Draft(torch.stack(tokens, 1), torch.stack(laws, 1))


WRONG = (
    Wrong(
        "softmax-reported",
        "You draw from the warped law and report the softmax of the raw logits. q must be the law that the "
        "token was really drawn from: keep warp(logits).",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, warp, Warp()),
    ),
    Wrong(
        "drawn-unwarped",
        "You report the warped law, and draw from the raw softmax. Draw from warp(logits) as well.",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, Warp(), warp),
    ),
    Wrong(
        "greedy-draft-soft-q",
        "You take the most probable token, and report the softmax. A token that was certain has a "
        "one-hot law; "
        "draw it with rng.categorical(law) instead.",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, Warp(0), warp),
    ),
    Wrong(
        "greedy-draft",
        "You always take the most probable token. That is a possible drafter, but not this one: draw from "
        "warp(logits).",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, Warp(0), Warp(0)),
    ),
    Wrong(
        "pending-read-again",
        "You read the pending token each time. What is read next is the token that was just drawn.",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, warp, warp, False),
    ),
    Wrong(
        "laws-forgotten",
        "You return the tokens without their laws. Nobody can test a token without knowing how likely it "
        "was: "
        "return Draft(tokens, laws).",
        lambda model, cache, pending, k, warp, rng: drawn(model, cache, pending, k, rng, warp, warp).tokens,
    ),
)

PRAISE = (
    "Each reported law is the one that its token was drawn from, on every branch. Losslessness rests on it."
)


def drafting(answer: Any, text: Sequence[int], k: int, warp: Warp) -> tuple[Any, ...]:
    """Walks every branch of a drafter; returns (tokens, chance to draw them, laws reported), sorted."""
    model = table_model(3, 5)

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[Any, Any]]:
        limited = Limited(model, 10 * k + 10)
        cache = prefill(limited, [list(text)] * len(keys))
        draft = answer(limited, cache, torch.tensor([text[-1]] * len(keys)), k, warp, rng)
        tokens, laws = tokens_and_laws(draft, len(keys), k)
        return list(zip(tokens, laws, strict=True))

    sums: dict[Any, tuple[float, Any]] = {}
    for _, (tokens, laws), chance in enumerate_branches(run, [0]):
        sums[tokens] = (sums.get(tokens, (0.0, None))[0] + chance, laws)
    return tuple((tokens, *sums[tokens]) for tokens in sorted(sums))


def tokens_and_laws(draft: Any, rows: int, k: int) -> tuple[Any, Any]:
    """Reads a Draft, or a pair of tokens and laws."""
    if isinstance(draft, Tensor):
        raise Malformed(f"a Draft is wanted, and it returned a tensor of shape {list(draft.shape)}")
    if draft is None:
        raise Malformed("it returned None: is the `return` missing?")
    if draft is ...:
        raise NotImplementedError
    pair = (draft.tokens, draft.probs) if isinstance(draft, Draft) else draft
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise Malformed(f"Draft(tokens, laws) is wanted, and it returned a {type(draft).__name__}")
    tokens = numbers(pair[0], (rows, k), "a tensor of tokens")
    laws = numbers(pair[1], (rows, k, 3), "a tensor of laws")
    return nested(tokens.long().tolist()), nested(laws.tolist())


def show(value: Any) -> str:
    """Writes the first branch whose reported law is not what it was drawn from, else the first."""
    lines = []
    for tokens, chance, laws in value[:3]:
        q = "; ".join("(" + ", ".join(f"{x:.3g}" for x in law) + ")" for law in laws)
        lines.append(f"{list(tokens)} drawn with chance {chance:.3g}, laws {q}")
    return "\n    ".join(["", *lines])


def explored(answer: Any) -> Any:
    """Returns the function that a trial calls: it walks an answer's branches."""

    @wraps(answer, assigned=(), updated=())
    def walked(text: list[int], k: int, warp: Warp) -> Any:
        return drafting(answer, text, k, warp)

    return walked


def trial(text: list[int], k: int, warp: Warp) -> Trial:
    """Returns a call behind a text."""
    return Trial(f"a draft of k = {k} behind {text}, {warp}, every branch", lambda: (text, k, warp))


EXERCISE = Exercise(
    key="remember-q",
    title="Draft tokens, and remember their laws",
    notebook=4,
    difficulty=2,
    minutes=8,
    stub=STUB,
    hints=(
        "Three lines per token: a forward over the last token, the warp, the draw. Keep both token and law.",
        "torch.stack(list, 1) makes [B, k] of k tensors [B], and [B, k, V] of k tensors [B, V].",
    ),
    goal=GOAL,
    judge=Bench(
        draft_tokens,
        tuple(
            trial(t, k, w) for k in (1, 2) for w in (Warp(), Warp(0.5), Warp(top_k=2)) for t in ([0], [2, 1])
        ),
        WRONG,
        lambda value: value,
        show,
        PRAISE,
        explored,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
