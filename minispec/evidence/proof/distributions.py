"""Branches and distributions of whole outputs: every way the loop can go in a case, exactly.

`EnumeratingRng` takes the place of the random number generator, and the loop is the shipped one: cache, warp,
end-of-sequence, cap, ragged batch and all. There are three ways to the same distribution.
`speculative_distributions` enumerates every branch of the shipped `speculate`. `target_only_distributions`
does the same with the shipped `generate`. `exact_distributions` uses neither: it multiplies the target's
conditional distributions, from forward passes without a cache. "Lossless" means that all three agree
(Leviathan et al. 2023, appendix A.1; Chen et al. 2023, theorem 1).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minispec.core.records import Finish, Round
from minispec.evidence.proof.by_hand import logits_after
from minispec.evidence.proof.cases import Case, Text
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches
from minispec.evidence.theory.acceptance import target_only_texts
from minispec.evidence.theory.statistics import RARE, Cell

Outcome = tuple[Text, Finish | None]  # the tokens of a row, and why it ended

DIFFERENT_LENGTHS = "rows of a batch draft different numbers"


@dataclass(frozen=True)
class RowRound:
    """One row's share of one round."""

    round: Round  #: the whole round
    row: int  #: which row of it
    text: Text  #: what was committed before, prompt included
    drafted: Text  #: the tokens proposed
    accepted: int  #: how many of them were kept
    token: int  #: the rule's own, a correction or a bonus; it is not emitted where the row ends before
    emitted: Text  #: what was committed
    finish: Finish | None  #: why the row ended, or None

    @property
    def tested(self) -> int | None:
        """How many drafted tokens were looked at, as the round reports it."""
        return self.round.tested(self.row)

    @property
    def kept(self) -> list[int]:
        """Which drafted tokens were kept: in a chain the first ones."""
        return self.round.verdict.kept()[self.row]

    @property
    def p(self) -> list[list[float]]:
        """The target's distributions, as the round reports them, one more than drafted."""
        return self.round.target_probs[self.row, : len(self.drafted) + 1].tolist()

    @property
    def q(self) -> list[list[float]]:
        """The draft's distributions."""
        return self.round.draft.probs[self.row, : len(self.drafted)].tolist()


Steps = tuple[RowRound, ...]


@dataclass(frozen=True)
class Branch:
    """One branch of one row, from its prompt to its end."""

    prompt: int  #: which prompt of the case
    weight: float  #: the probability of the branch
    steps: Steps  #: its rounds

    @property
    def tokens(self) -> Text:
        """All that was emitted."""
        return tuple(token for step in self.steps for token in step.emitted)

    @property
    def finish(self) -> Finish | None:
        """Why the row ended; None if nothing could be emitted from the start."""
        return self.steps[-1].finish if self.steps else None


def branches(case: Case, together: bool = False) -> Iterator[Branch]:
    """Enumerates every branch of a case as rows of batches; or together, the batch of all prompts as a whole.

    That is right even where rows influence each other, and takes the product of the rows' branches.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[list[Steps]]:
        prompts = case.prompts if together else [case.prompts[key] for key in keys]
        rows = by_row(case.rounds(prompts, rng), prompts)
        return [rows] if together else [[row] for row in rows]

    starts, most_rows = (range(1), 1) if together else (range(len(case.prompts)), case.rows)
    for start, rows, weight in enumerate_branches(run, starts, most_rows, case.rng):
        for prompt, steps in enumerate(rows, start):
            yield Branch(prompt, weight, steps)


def by_row(rounds: Iterable[Round], prompts: Sequence[Sequence[int]]) -> list[Steps]:
    """Sorts rounds by prompt; rounds in which it took no part are left out."""
    texts = [tuple(prompt) for prompt in prompts]
    steps: list[list[RowRound]] = [[] for _ in prompts]
    for r in rounds:
        drafted = r.draft.tokens.tolist()
        lengths = r.draft.lengths.tolist()
        accepted = r.verdict.accepted.tolist()
        tokens = r.verdict.token.tolist()
        for row, (emitted, finish) in enumerate(zip(r.emitted, r.finish, strict=True)):
            if r.live[row] or emitted:
                row_draft = tuple(drafted[row][: lengths[row]])
                prompt_id = r.prompt_ids[row]
                verdict = accepted[row], tokens[row]
                steps[prompt_id].append(
                    RowRound(r, row, texts[prompt_id], row_draft, *verdict, emitted, finish)
                )
                texts[prompt_id] += emitted
    return [tuple(row_steps) for row_steps in steps]


def outcomes(rounds: Sequence[Round], prompts: int) -> list[Outcome]:
    """Returns each prompt's tokens, and why it ended."""
    tokens: list[list[int]] = [[] for _ in range(prompts)]
    finishes: list[Finish | None] = [None] * prompts
    for r in rounds:
        for prompt_id, emitted, finish in zip(r.prompt_ids, r.emitted, r.finish, strict=True):
            tokens[prompt_id].extend(emitted)
            finishes[prompt_id] = finish
    return [(tuple(row_tokens), row_finish) for row_tokens, row_finish in zip(tokens, finishes, strict=True)]


Distribution = dict[Outcome, float]


@dataclass(frozen=True)
class Enumerated:
    """What all branches of a case come to."""

    distributions: list[Distribution]  #: of the outcomes, one per prompt
    branches: int  #: how many there are, all prompts together
    coverage: Mapping[str, int]  #: how often branches showed what (see `marks`)
    acceptance: float | None  #: expected accepted over expected tested tokens; None if none was tested
    tokens_per_call: float | None  #: expected tokens over expected rounds; None if there was no round


def speculative_distributions(case: Case, together: bool = False) -> Enumerated:
    """Enumerates every branch of `speculate`, and adds them up; together: see `branches`."""
    distributions: list[Distribution] = [defaultdict(float) for _ in case.prompts]
    coverage: Counter[str] = Counter()
    count = 0
    accepted = 0.0
    tested = 0.0
    emitted = 0.0
    calls = 0.0
    for branch in branches(case, together):
        count += 1
        # A text without space for a token has no round; it has ended before.
        finish = branch.finish or case.finish(case.prompts[branch.prompt], ())
        distributions[branch.prompt][branch.tokens, finish] += branch.weight
        coverage.update(mark for step in branch.steps for mark in marks(case, step))
        accepted += branch.weight * sum(step.accepted for step in branch.steps)
        tested += branch.weight * sum(step.tested or 0 for step in branch.steps)
        emitted += branch.weight * len(branch.tokens)
        calls += branch.weight * len(branch.steps)
    return Enumerated(
        distributions,
        count,
        coverage,
        accepted / tested if tested else None,
        emitted / calls if calls else None,
    )


def marks(case: Case, step: RowRound) -> Iterator[str]:
    """Yields what a row's round shows: what was drafted and accepted, how the row ends, and so on."""
    drafted = len(step.drafted)
    live = step.round.live
    if not case.drafts_all:
        name = case.drafter_name
        yield f"{name}: drafted {drafted}"
        yield f"{name}: accepted {step.accepted}"
        if any(
            n != drafted
            for n, is_live in zip(step.round.draft.lengths.tolist(), live, strict=True)
            if is_live
        ):
            yield f"{name}: {DIFFERENT_LENGTHS}"
        return
    if False in live:
        yield "rows that finish at different rounds"
    yield f"K = {case.k}: accepted {step.accepted}" if drafted == case.k else "a block shortened by the cap"
    kind = step.round.kind(step.row)
    if kind != "draft":
        yield kind
    if step.finish == "eos":
        yield "EOS in an accepted draft" if kind == "draft" else f"EOS as {kind}"
    elif step.finish is not None:
        yield f"the {step.finish} ends a row"


def target_only_distributions(case: Case) -> list[Distribution]:
    """Enumerates every branch of `generate`."""

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[Text]:
        prompts = [case.prompts[key] for key in keys]
        texts = target_only_texts(case.target, prompts, case.max_new_tokens, case.warp, rng, case.eos)
        return list(map(tuple, texts))

    distributions: list[Distribution] = [defaultdict(float) for _ in case.prompts]
    for start, tokens, weight in enumerate_branches(run, range(len(case.prompts)), make=case.rng):
        distributions[start][tokens, case.finish(case.prompts[start], tokens)] += weight
    return distributions


def exact_distributions(case: Case) -> list[Distribution]:
    """Multiplies the target's conditional distributions: no cache, no rng, none of the loop."""
    return [
        {(tokens, case.finish(prompt, tokens)): p for tokens, p in continuations(case, prompt).items()}
        for prompt in case.prompts
    ]


def continuations(case: Case, prompt: Text, least: float = 0.0) -> dict[Cell, float]:
    """Returns the exact probability of each continuation of a prompt: the chain rule, without a cache.

    Every text that is likely enough is prolonged by every token. A text whose probability falls below `least`
    goes into one cell with all others of its kind: what it would continue with is no more likely than itself.
    The probabilities, with that of the cell `RARE` if anything is in it, sum to 1. The target is used alone.
    """
    ended: dict[Cell, float] = {}
    unfinished: dict[Text, float] = {(): 1.0}
    rare = 0.0
    while unfinished:
        ended |= {tokens: p for tokens, p in unfinished.items() if case.finish(prompt, tokens)}
        texts = [tokens for tokens in unfinished if tokens not in ended]
        longer: dict[Text, float] = {}
        if texts:
            logits = logits_after(case.target, [(*prompt, *tokens) for tokens in texts])
            for tokens, distribution in zip(texts, case.warp(logits.double()).tolist(), strict=True):
                for token, probability in enumerate(distribution):
                    joint = unfinished[tokens] * probability
                    if joint > 0 and joint >= least:
                        longer[(*tokens, token)] = joint
                    else:
                        rare += joint
        unfinished = longer
    return {**ended, RARE: rare} if rare > 0 else ended


def largest_error(first: Distribution, second: Distribution) -> float:
    """Returns the largest difference of the probabilities of any outcome."""
    return max(differences(first, second), default=0.0)


def total_variation(first: Distribution, second: Distribution) -> float:
    """Returns half the sum of all differences: the largest difference in the probability of any event."""
    return sum(differences(first, second)) / 2


def differences(first: Distribution, second: Distribution) -> list[float]:
    """Returns how far the probabilities of each outcome are apart."""
    return [
        abs(first.get(outcome, 0.0) - second.get(outcome, 0.0)) for outcome in first.keys() | second.keys()
    ]
