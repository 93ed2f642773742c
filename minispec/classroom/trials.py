"""Runs: how an answer is called with a case."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.parts import LimitedModel, Parts, RowRng
from minispec.classroom.running import (
    Malformed,
    as_tuples,
    call_answer,
    describe_value,
    read_ids,
    read_tensor,
    require_value,
)
from minispec.classroom.watched import Forward, WatchedModel, loop_faults, rounds_of
from minispec.core.loop import speculate
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill
from minispec.core.records import Draft
from minispec.core.rng import RoundPlan, RoundRng, SeededRng
from minispec.core.verify import verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.distributions import outcomes
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches
from minispec.evidence.proof.models import table_model, table_pair, tiny_gpt_pair

PAIRS: dict[str, tuple[LanguageModel, LanguageModel]] = {
    "a table model": table_pair(4, 1),
    "a tiny GPT": tiny_gpt_pair(2, 5),
    "two tokens": table_pair(2, 1),
    "three tokens": table_pair(3, 1),
}


def run_continuation(answer: Any, prompt: list[int], n: int) -> Any:
    """Calls an answer with a table model, whose next token depends on the last two."""
    return call_answer(answer, LimitedModel(table_model(4, 3), 10 * n + 10), prompt, n)


def run_loop(answer: Any, models: str, prompt: list[int], k: int, n: int) -> Any:
    """Hands an answer fresh parts; returns its tokens and the number of target calls."""
    target, draft = PAIRS[models]
    parts = Parts(LimitedModel(target, 4 * n + 12), draft)
    return require_value(call_answer(answer, parts, prompt, k, n)), parts.target_calls


def enumerate_drafts(answer: Any, text: list[int], k: int, warp: Warp, batched: bool = True) -> Any:
    """Enumerates a drafter's branches: (tokens, probability to draw them, distributions reported), sorted.

    They go one by one, for it may draw for one row after another; one that is `batched` then gets two rows.
    """
    model = table_model(3, 5)

    def run(rng: EnumeratingRng, rows: int) -> list[tuple[Any, Any]]:
        draft = LimitedModel(model, 10 * k + 10)
        cache, _ = prefill(draft, [text] * rows)
        pending = torch.tensor([text[-1]] * rows)
        round_rng = RoundRng(rng, RoundPlan.unlimited(rows, pending.device))
        tokens, probs = tokens_and_probs(
            require_value(answer(draft, cache, pending, k, warp, round_rng)), rows, k
        )
        return list(zip(tokens, probs, strict=True))

    branches = enumerate_values(lambda rng: run(rng, 1)[0])
    if batched:
        check_two_rows(run)
    return tuple((tokens, probability, probs) for (tokens, probs), probability in branches)


def check_two_rows(run: Callable[[EnumeratingRng, int], list[tuple[Any, Any]]]) -> None:
    """Enumerates a batch of two rows as a whole.

    Raises:
        Malformed: if what both draw is not as probable as what each draws alone, multiplied.
    """
    single = dict(enumerate_values(lambda rng: tuple(tokens for tokens, _ in run(rng, 1))))
    joint = dict(enumerate_values(lambda rng: tuple(tokens for tokens, _ in run(rng, 2))))
    if first_dependence(single, single, joint) is not None:
        raise Malformed("rows of a batch must be drawn independently, each from its own distribution")


def first_dependence(
    first: Mapping[Any, float], second: Mapping[Any, float], joint: Mapping[Any, float]
) -> tuple[Any, float, float] | None:
    """Looks whether two rows are independent: the outcomes of each are tuples, those of both are joined.

    Returns:
        An outcome of both, its probability if they were, and the one that it has; or None.
    """
    products = {(*a, *b): p * q for a, p in first.items() for b, q in second.items()}
    for outcome in {*products, *joint}:
        expected = products.get(outcome, 0.0)
        actual = joint.get(outcome, 0.0)
        if abs(expected - actual) > 1e-9:
            return outcome, expected, actual
    return None


def tokens_and_probs(draft: Any, rows: int, k: int) -> tuple[Any, Any]:
    """Reads a Draft, or a pair of tokens and distributions."""
    pair = (draft.tokens, draft.probs) if isinstance(draft, Draft) else draft
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise Malformed(f"Draft(tokens, probs) is wanted, and it returned {describe_value(draft)}")
    tokens = read_tensor(pair[0], (rows, k), "a tensor of tokens")
    probs = read_tensor(pair[1], (rows, k, 3), "a tensor of distributions")
    return as_tuples(tokens.long().tolist()), as_tuples(probs.tolist())


def enumerate_row_drafts(answer: Any, text: list[int], k: int, warp: Warp) -> Any:
    """Enumerates a drafter of one row, as `enumerate_drafts` does a batch's."""

    def as_batch(model: Any, cache: Any, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Any:
        pair = require_value(answer(model, cache, int(pending), k, warp, RowRng(rng.source)))
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], Sequence | Tensor):
            raise Malformed("a pair (tokens, dists) is wanted, each with an entry for every drafted token")
        tokens = read_ids(pair[0], f"a list of {k} ids", count=k)
        dists = [read_tensor(dist, (3,), "a distribution: a tensor") for dist in pair[1]]
        if len(dists) != k:
            raise Malformed(f"{k} distributions are wanted, one for each token, and it returned {len(dists)}")
        return torch.tensor([tokens]), torch.stack(dists)[None]

    return enumerate_drafts(as_batch, text, k, warp, batched=False)


def enumerate_emitted(answer: Any, *arguments: Any) -> Any:
    """Enumerates a rule for one row, with an rng after its arguments: (the ids it returns, probability)."""
    return enumerate_row(lambda rng: read_ids(require_value(call_answer(answer, *arguments, rng))))


def enumerate_row(run: Callable[[RowRng], Any]) -> tuple[tuple[Any, float], ...]:
    """Returns all that can come of a run that draws for one row, sorted, each with its probability."""
    return enumerate_values(lambda rng: run(RowRng(rng)))


def enumerate_values(run: Callable[[EnumeratingRng], Any]) -> tuple[tuple[Any, float], ...]:
    """Returns all that can come of a run, sorted, each with its probability."""
    return sum_probabilities(enumerate_branches(lambda rng, keys: [run(rng)], [0], most_rows=1))


def sum_probabilities(branches: Iterable[tuple[Any, Any, float]]) -> tuple[tuple[Any, float], ...]:
    """Adds up the probabilities of branches of which the same has come."""
    sums: dict[Any, float] = {}
    for _, value, probability in branches:
        sums[value] = sums.get(value, 0.0) + probability
    return tuple((value, sums[value]) for value in sorted(sums))


def run_proposals(answer: Any, prompts: list[list[int]], k: int, emitted: list[list[int]]) -> Any:
    """Returns what each row proposes after `emitted` has been committed: tokens, and the q of each."""
    drafter = answer(9)
    drafter.start(prompts, torch.zeros(len(prompts), 0, 0))
    if any(emitted):
        drafter.commit(SimpleNamespace(emitted=tuple(map(tuple, emitted)), live=(True,) * len(prompts)))
    pending = torch.tensor([(prompt + tokens)[-1] for prompt, tokens in zip(prompts, emitted, strict=True)])
    rng = RoundRng(SeededRng(0), RoundPlan.unlimited(len(prompts), pending.device))
    draft = require_value(drafter.propose(pending, k, Warp(), rng))
    if not isinstance(draft, Draft):
        raise Malformed(f"`propose` should return a Draft, and it returned {type(draft).__name__}")
    q = read_tensor(draft.probs, (len(prompts), draft.k, 9), "the distributions: a tensor")
    rows = []
    for row, length in enumerate(draft.lengths.tolist()):
        tokens = draft.tokens[row, :length].tolist()
        rows.append((tuple(tokens), tuple(q[row, i].tolist()[t] for i, t in enumerate(tokens))))
    return tuple(rows)


def enumerate_texts(answer: Any, prompt: list[int], k: int, emitted: list[int]) -> Any:
    """Returns the exact distribution of K + 1 tokens that are sampled with an answer for a drafter."""
    target = table_model(2, 4)
    settings: dict[str, Any] = {"verifier": verify_rejection, "max_new_tokens": k + 1, "warp": Warp()}

    def run(rng: EnumeratingRng) -> Any:
        rounds = list(speculate(target, answer(2), [prompt + emitted], k=k, rng=rng, **settings))
        return outcomes(rounds, 1)[0][0]

    return enumerate_values(run)


def enumerate_loop(answer: Any, pair: str, prompt: list[int], k: int, n: int) -> Any:
    """Enumerates a sampled loop that keeps both caches itself.

    Returns the distribution of the n tokens, the target calls that they take on average, and what was wrong
    in the caches and drafts (see `loop_faults`).
    """
    target, draft = PAIRS[pair]

    def run(rng: RowRng) -> Any:
        log: list[Forward] = []
        models = (
            WatchedModel("target", target, log, len(prompt) + n + 1),
            WatchedModel("draft model", draft, log, len(prompt) + (n + 1) * (k + 2)),
        )
        tokens = read_ids(require_value(call_answer(answer, *models, prompt, k, n, rng)))
        return tokens, len(rounds_of(log, prompt)), tuple(sorted(loop_faults(log, prompt, tokens, k, n)))

    branches = enumerate_row(run)
    calls = sum(probability * calls for (_, calls, _), probability in branches)
    faults = sorted({fault for (_, _, faults), _ in branches for fault in faults})
    texts = sum_probabilities((None, tokens, probability) for (tokens, _, _), probability in branches)
    return texts, calls, tuple(faults)
