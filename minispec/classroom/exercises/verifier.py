"""Notebook 6: the verifier for sampled text."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.buggy import rule_with
from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Finding, Wrong
from minispec.classroom.judging import equal, nested, sentence
from minispec.classroom.running import NOTHING, Malformed, OutOfTime, raised, time_limit, unwritten
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import Instance, fractions, one_token, standard_instances
from minispec.evidence.checker.report import Report
from minispec.evidence.checker.trials import TooMany, enumerate_rule, text_distribution
from minispec.evidence.proof.enumeration import NotScripted

SECONDS = 60

STUB = '''def my_verifier(draft, target_probs, rng):
    """Keeps a prefix of each row's draft and draws one more token. Out comes the target's law.

    draft.tokens [B, K], draft.probs [B, K, V] (q); draft.lengths [B]: how many of the K are
    proposals. target_probs [B, K + 1, V] (p).
    Chance: rng.bernoulli(chances [B], live=which [B]) and rng.categorical(laws [B, V]).
    To take one row after another is fine too: then B is 1.
    Returns Verdict(accepted [B], token [B]).
    """
    ...
'''

GOAL = Drawing(
    (
        line("drafted", ("sat", "draft"), ("on", "draft"), ("mat", "rejected"), ("and", "rejected"), ""),
        line("p/q", "1.3", "0.8", "0.1", "not tested", ""),
        line("drawn number", "-", "0.42", "0.57", "", ""),
        line("then", ("keep", "draft"), ("keep", "draft"), ("reject", "rejected"), "", ""),
        line("gained", ("sat", "draft"), ("on", "draft"), ("floor", "correction"), "", ""),
    ),
    "Left to right: keep with chance min(1, p/q). At the first rejection draw from the residual; if all are "
    "kept, from the last p.",
)


def top_match_else_argmax(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts the target's most probable token, else says it: the greedy rule at any temperature.

    target_probs: [B, K+1, V].
    """
    best = target_probs.argmax(-1)
    agrees = draft.tokens == best[:, : draft.k]
    agrees &= torch.arange(draft.k) < draft.lengths[:, None]
    accepted = agrees.long().cumprod(-1).sum(-1)
    return Verdict(accepted, best.gather(1, accepted[:, None])[:, 0])


WRONG = (
    Wrong(
        "correction-from-p",
        "After a rejection you draw from p. Accepted tokens have used up a part of p already: draw from the "
        "residual, norm(max(0, p − q)).",
        rule_with("correction-from-p"),
    ),
    Wrong(
        "ratio-inverted",
        "You accept with min(1, q/p). It is p/q: a token that the draft says too often is kept less often.",
        rule_with("ratio-inverted"),
    ),
    Wrong(
        "going-on-after-a-rejection",
        "You go on testing behind a rejection. What stands there was proposed for a text that is gone.",
        rule_with("going-on-after-a-rejection"),
    ),
    Wrong(
        "bonus-from-the-place-before",
        "After all K were kept you use the law of the last drafted place. The bonus stands behind it: row K.",
        rule_with("bonus-from-the-place-before"),
    ),
    Wrong(
        "residual-absolute",
        "Your residual is |p − q|. Where q is larger, nothing is missing: cut the negative part off.",
        rule_with("residual-absolute"),
    ),
    Wrong(
        "fresh-draw",
        "You accept if a fresh draw of the target agrees, and else draw from the residual. Tokens are "
        "then kept "
        "too seldom for that residual: accept with min(1, p/q).",
        rule_with("accept-if-a-fresh-draw-agrees"),
    ),
    Wrong(
        "residual-of-the-last-place",
        "You form the residual with the draft's last law. Take q where the rejection was.",
        rule_with("residual-of-the-last-place"),
    ),
    Wrong(
        "padding-tested",
        "You test padding. Row b proposes draft.lengths[b] tokens; what stands behind them is no proposal.",
        rule_with("padding-tested"),
    ),
    Wrong(
        "greedy",
        "That is the greedy rule: it always says the target's most probable token. Sampled text needs a "
        "coin: "
        "accept with chance min(1, p/q).",
        top_match_else_argmax,
    ),
)

PRAISE = "It is lossless on every branch that was walked. You have written the heart of speculative decoding."

# Where rules show who they are: zeros, several places, laws that differ by place, and padding.
TELLING = (
    one_token(fractions(3, 2, 1), fractions(1, 1, 4)),
    one_token(fractions(3, 2, 1), fractions(1, 1, 4), fractions(1, 1, 2)),
    Instance(
        ((fractions(3, 1),), (fractions(1, 2),), (fractions(2, 3),)), ((fractions(1, 1),), (fractions(3, 1),))
    ),
    Instance(
        ((fractions(3, 1),), (fractions(1, 2),), (fractions(2, 3),)),
        ((fractions(1, 1),), (fractions(3, 1),)),
        (1, 2),
    ),
)


def laws_on_telling(rule: Verifier) -> tuple[Any, ...] | None:
    """Returns what a rule says on the telling instances, exactly; None if it follows no script."""
    laws = []
    for instance in TELLING:
        drafts = instance.drafts()
        try:
            leaves = enumerate_rule(rule, drafts, 1)
        except Broken as broken:
            laws.append(str(broken))
        except (NotScripted, TooMany):
            return None
        else:
            laws.append(nested(text_distribution(leaves.values(), instance, drafts).tolist()))
    return tuple(laws)


def resembles(rule: Verifier) -> Wrong | None:
    """Returns the typical wrong rule whose laws a rule has, or None."""
    laws = laws_on_telling(rule)
    if laws is None:
        return None
    return next((wrong for wrong in WRONG if equal(laws, laws_on_telling(wrong.answer))), None)


def judge_verifier(answer: Any) -> Finding:
    """Asks `check_verifier`, and looks whether the rule is a well-known wrong one."""
    if (lack := unwritten(answer)) is not None:
        return lack
    if (fault := unready(answer)) is not None:
        return fault
    try:
        with time_limit(SECONDS):
            report = checked(answer)
            wrong = None if report.passed else resembles(answer)
    except OutOfTime:
        return Finding("wrong", f"It had not come to an end after {SECONDS} seconds.")
    if report.passed:
        return Finding("right", PRAISE, str(report))
    if wrong is None:
        return Finding("wrong", sentence(report.reason or "it failed"), str(report))
    return Finding("wrong", wrong.message, str(report), wrong.name)


def checked(rule: Verifier) -> Report:
    """Asks `check_verifier`: with one drafted token first, then with two, where nearly all bugs show."""
    standard = standard_instances()
    for few in ((0, 1), (2,)):
        report = check_verifier(rule, instances=[instance for instance in standard if instance.k in few])
        if not report.passed:
            return report
    return check_verifier(rule, instances=standard)


def unready(answer: Any) -> Finding | None:
    """Calls a rule once on one row: says what is wrong if it is blank, raises, or returns no Verdict."""
    instance = TELLING[0]
    drafts = instance.drafts()
    caught: list[BaseException] = []

    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        try:
            return rewrapped(answer(draft, target_probs, rng))
        except (Broken, NotScripted):
            raise
        except (Exception, SystemExit) as error:
            caught.append(error)
            raise ValueError("see caught") from error

    try:
        with time_limit():
            enumerate_rule(rule, drafts, 1)
    except OutOfTime:
        return Finding("wrong", "It does not come to an end.")
    except (Broken, NotScripted, TooMany):
        if not caught:
            return None  # `check_verifier` says it better
        error = caught[0]
        if isinstance(error, NotImplementedError):
            return Finding("blank", NOTHING)
        said = str(error) if isinstance(error, Malformed) else raised(error, answer)
        return Finding("wrong", sentence(said), "called with one row, K = 1, V = 3")
    return None


def rewrapped(value: Any) -> Verdict:
    """Refuses what is no Verdict."""
    if value is ...:
        raise NotImplementedError
    if value is None:
        raise Malformed("it returned None: is the `return` missing?")
    if not isinstance(value, Verdict):
        raise Malformed(f"a Verdict(accepted, token) is wanted, and it returned a {type(value).__name__}")
    return value


EXERCISE = Exercise(
    key="write-the-verifier",
    title="Write the verifier",
    notebook=6,
    difficulty=3,
    minutes=20,
    stub=STUB,
    hints=(
        "Go through the places from left to right and keep a mask of rows that have rejected nothing yet. "
        "What decides at a place is p(x)/q(x) of the drafted x.",
        "In the end row b has kept a tokens. If a < lengths[b], the law is the residual of "
        "target_probs[b, a] "
        "and draft.probs[b, a]; else it is target_probs[b, a]. Compute in float64.",
    ),
    goal=GOAL,
    judge=judge_verifier,
    wrong=WRONG,
    praise=PRAISE,
)
