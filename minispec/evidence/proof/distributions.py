"""The law of whole outputs: what comes out, with which probability, exactly.

Three ways to the same law. `speculative_laws` walks every branch of the shipped `speculate`, cache, warp,
end-of-sequence, cap, ragged batch and all. `target_only_laws` does the same with the shipped `generate`.
`exact_laws` uses neither: it multiplies the target's conditional laws, from forwards without a cache.
"Lossless" means that all three agree (Leviathan et al. 2023, appendix A.1; Chen et al. 2023, theorem 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.loop import generate, speculate
from minispec.core.model import LanguageModel
from minispec.core.records import Finish, Round
from minispec.core.verify import Verifier, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.enumeration import EnumeratingRng, walk
from minispec.native.drafter import NativeDrafter

Outcome = tuple[tuple[int, ...], Finish | None]  # the tokens of a row, and why it ended
Law = dict[Outcome, float]


@dataclass(frozen=True)
class Case:
    """One setting of the loop, to be walked through.

    Attributes:
        name: for people.
        target: the model whose law the output must have.
        draft: the model that guesses.
        prompts: each becomes a start; branches of all of them run together, as rows of ragged batches.
        k: K.
        max_new_tokens: the cap.
        warp: of the target, and of the draft unless it has its own.
        eos: ids that end a row.
        verifier: the rule.
        draft_warp: the draft's own warp, or None.
        drafter: makes what drafts, from the draft and its own warp.
        rows: how many branches are walked as rows of one batch; 1 where a row's drafts depend on the others.
    """

    name: str
    target: LanguageModel
    draft: LanguageModel
    prompts: tuple[tuple[int, ...], ...]
    k: int
    max_new_tokens: int
    warp: Warp = field(default_factory=Warp)
    eos: tuple[int, ...] = ()
    verifier: Verifier = verify_rejection
    draft_warp: Warp | None = None
    drafter: Callable[[LanguageModel, Warp | None], Drafter] = ModelDrafter
    rows: int = 512

    def new_drafter(self) -> Drafter:
        """Returns what drafts, for one run."""
        return self.drafter(self.draft, self.draft_warp)

    @property
    def drafts_all(self) -> bool:
        """Whether K tokens are drafted wherever there is room; else the drafter may draft fewer."""
        return self.drafter in (ModelDrafter, NativeDrafter)

    @property
    def context(self) -> int:
        """The longest text that both models hold."""
        return min(self.target.max_length, self.draft.max_length)


@dataclass(frozen=True)
class Walked:
    """What a walk through `speculate` has found.

    Attributes:
        laws: for each prompt, the law of its outcomes.
        branches: how many different ways chance took, all prompts together.
        coverage: how many branches showed what (see `marks`).
    """

    laws: list[Law]
    branches: int
    coverage: Mapping[str, int]


def speculative_laws(case: Case) -> Walked:
    """Walks every branch of `speculate`."""
    coverage: Counter[str] = Counter()

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[Outcome]:
        rounds = list(
            speculate(
                case.target,
                case.new_drafter(),
                [case.prompts[key] for key in keys],
                k=case.k,
                verifier=case.verifier,
                max_new_tokens=case.max_new_tokens,
                warp=case.warp,
                rng=rng,
                eos=case.eos,
            )
        )
        coverage.update(marks(rounds, case.k) if case.drafts_all else marks_of_lengths(rounds, case))
        return outcomes(rounds, len(keys))

    laws: list[Law] = [{} for _ in case.prompts]
    branches = 0
    for start, outcome, weight in walk(run, range(len(case.prompts)), case.rows):
        laws[start][outcome] = laws[start].get(outcome, 0.0) + weight
        branches += 1
    return Walked(laws, branches, coverage)


def outcomes(rounds: Sequence[Round], rows: int) -> list[Outcome]:
    """Returns each row's tokens, and why it ended."""
    tokens: list[list[int]] = [[] for _ in range(rows)]
    for r in rounds:
        for row, emitted in enumerate(r.emitted):
            tokens[row].extend(emitted)
    ends: Sequence[Finish | None] = rounds[-1].finish if rounds else [None] * rows
    return [(tuple(row), end) for row, end in zip(tokens, ends, strict=True)]


def marks(rounds: Iterable[Round], k: int) -> Counter[str]:
    """Counts what the rows of some rounds show: how many tokens were accepted, how rows end, and so on."""
    seen: Counter[str] = Counter()
    for r in rounds:
        accepted, drafted = r.verdict.accepted.tolist(), r.draft.lengths.tolist()
        for row, (kept, proposed) in enumerate(zip(accepted, drafted, strict=True)):
            if not r.live[row]:
                seen["rows that finish at different rounds"] += 1
                continue
            if proposed == k:
                seen[f"K = {k}: accepted {kept}"] += 1
            else:
                seen["a block shortened by the cap"] += 1
            kind = r.kind(row)
            if kind != "draft":
                seen[kind] += 1
            if r.finish[row] == "eos":
                seen["EOS in an accepted draft" if kind == "draft" else f"EOS as {kind}"] += 1
            elif r.finish[row] is not None:
                seen[f"the {r.finish[row]} ends a row"] += 1
    return seen


def marks_of_lengths(rounds: Iterable[Round], case: Case) -> Counter[str]:
    """Counts what the rounds of a drafter show that may draft fewer tokens than K."""
    seen: Counter[str] = Counter()
    name = getattr(case.drafter, "__name__", str(case.drafter))
    for r in rounds:
        lengths = [r.drafted(row) for row, live in enumerate(r.live) if live]
        seen.update(f"{name}: drafted {n}" for n in lengths)
        seen["rows of a batch stop apart"] += len(set(lengths)) > 1
    return seen


def target_only_laws(case: Case) -> list[Law]:
    """Walks every branch of `generate`."""

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[Outcome]:
        prompts = [case.prompts[key] for key in keys]
        steps = list(
            generate(
                case.target,
                prompts,
                max_new_tokens=case.max_new_tokens,
                warp=case.warp,
                rng=rng,
                eos=case.eos,
            )
        )
        rows = [tuple(t for step in steps if (t := step[row]) is not None) for row in range(len(keys))]
        return [(tokens, _end(case, len(prompts[row]), tokens)) for row, tokens in enumerate(rows)]

    laws: list[Law] = [{} for _ in case.prompts]
    for start, outcome, weight in walk(run, range(len(case.prompts))):
        laws[start][outcome] = laws[start].get(outcome, 0.0) + weight
    return laws


@torch.inference_mode()
def exact_laws(case: Case) -> list[Law]:
    """Multiplies the target's conditional distributions: no cache, no rng, none of the loop."""
    return [_exact_law(case, prompt) for prompt in case.prompts]


def _exact_law(case: Case, prompt: tuple[int, ...]) -> Law:
    law: Law = {}
    growing: dict[tuple[int, ...], float] = {(): 1.0}
    while growing:
        ended = {tokens for tokens in growing if _end(case, len(prompt), tokens) is not None}
        for tokens in ended:
            law[tokens, _end(case, len(prompt), tokens)] = growing.pop(tokens)
        if growing:
            growing = _longer(case, prompt, growing)
    return law


def _longer(
    case: Case, prompt: tuple[int, ...], texts: dict[tuple[int, ...], float]
) -> dict[tuple[int, ...], float]:
    """Adds a token to texts of one length, in every possible way."""
    block = torch.tensor([[*prompt, *tokens] for tokens in texts])
    laws = case.warp(case.target(block)[:, -1]).double().tolist()
    return {
        (*tokens, token): chance * more
        for (tokens, chance), law in zip(texts.items(), laws, strict=True)
        for token, more in enumerate(law)
        if more > 0
    }


def _end(case: Case, prompt_length: int, tokens: tuple[int, ...]) -> Finish | None:
    """Says why a text ends here, if it does: an ending token first, then the context, then the cap."""
    if tokens and tokens[-1] in case.eos:
        return "eos"
    if prompt_length + len(tokens) >= case.context:
        return "context"
    return "cap" if len(tokens) >= case.max_new_tokens else None


def largest_error(one: Law, other: Law) -> float:
    """Returns the largest difference of the probabilities of any outcome."""
    return max((abs(one.get(x, 0.0) - other.get(x, 0.0)) for x in one.keys() | other.keys()), default=0.0)


def total_variation(one: Law, other: Law) -> float:
    """Returns half the sum of all differences: the largest difference in the probability of any event."""
    return sum(abs(one.get(x, 0.0) - other.get(x, 0.0)) for x in one.keys() | other.keys()) / 2
