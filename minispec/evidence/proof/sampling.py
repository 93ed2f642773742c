"""Samples through the whole shipped loop, against the exact law of what should come out.

Thousands of rows are decoded as one batch, in which every row accepts as many tokens as chance has it. What
they emit is counted and compared with the target's own law, which is computed without the loop: by forwards
without a cache, along every continuation that is likely enough to be counted.

This works for models that cannot be walked through completely, such as the shipped pair. It also sees what a
walk-through cannot: whether the numbers that `SeededRng` and `KeyedRng` give are as random as they should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from minispec.core.draft import Drafter
from minispec.core.loop import speculate
from minispec.core.model import GPT, LanguageModel
from minispec.core.prefill import device_of
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.distributions import Case
from minispec.evidence.proof.models import table_pair, tiny_gpt_pair
from minispec.evidence.theory.statistics import (
    MISS,
    RARE,
    Cell,
    Sampled,
    check_sample,
    check_uniform,
    pearson_p_value,
)
from minispec.io.checkpoint import load_pair
from minispec.rules.coupled import KeyedRng, verify_coupled

FAMILY_FALSE_ALARM = 1e-6  # of all sampled tests of one run together
PEARSON_ERROR = 0.02  # how far from uniform the right p-values may be, by Kolmogorov's distance
MOMENT = " sat on the"  # of a story: short, many ways to go on, and draft and target do not agree
LEAST = 2e-4  # of the shipped pair's continuations, those as likely as this are counted one by one

Tokens = tuple[int, ...]


def sample_outcomes(
    target: LanguageModel,
    drafter: Drafter | None,
    prompt: Sequence[int],
    *,
    k: int,
    max_new_tokens: int,
    warp: Warp,
    samples: int,
    seed: int,
    rows: int = 4096,
    eos: Sequence[int] = (),
    verifier: Verifier = verify_rejection,
    chance: Callable[[int], Rng] = SeededRng,
) -> Counter[Tokens]:
    """Draws continuations of one prompt with `speculate`, and counts them.

    Args:
        target: as in `speculate`.
        drafter: as in `speculate`.
        prompt: token ids, the same for all rows.
        k: K.
        max_new_tokens: the cap.
        warp: as in `speculate`.
        samples: how many continuations.
        seed: of the one source of chance that all batches share.
        rows: the most that are decoded as one batch.
        eos: ids that end a row.
        verifier: the rule.
        chance: makes the source of chance from the seed. Keyed noise repeats from batch to batch: with it,
            `rows` must be at least `samples`.

    Returns:
        How often each continuation came.
    """
    rng = chance(seed)
    counts: Counter[Tokens] = Counter()
    for first in range(0, samples, rows):
        texts: list[Tokens] = [()] * min(rows, samples - first)
        for r in speculate(
            target,
            drafter,
            [prompt] * len(texts),
            k=k,
            verifier=verifier,
            max_new_tokens=max_new_tokens,
            warp=warp,
            rng=rng,
            eos=eos,
        ):
            texts = [text + emitted for text, emitted in zip(texts, r.emitted, strict=True)]
        counts.update(texts)
    return counts


@torch.inference_mode()
def continuation_law(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    warp: Warp,
    least: float = 0.0,
    eos: Sequence[int] = (),
    rows: int = 256,
) -> dict[Cell, float]:
    """Returns the exact law of continuations: the chain rule, by forwards without a cache.

    Every text that is likely enough is prolonged by every token. A text whose probability falls below `least`
    goes into one cell with all others of its kind: what it would continue with is no more likely than itself.

    Args:
        target: the model.
        prompt: token ids.
        length: how many new tokens.
        warp: from logits to the law of one token.
        least: what is less likely is not counted one by one; 0: all is.
        eos: ids that end a text before its length.
        rows: how many texts go through the model at once.

    Returns:
        The probability of each continuation, and of the cell `RARE` if anything is in it. They sum to 1.
    """
    law: dict[Tokens, float] = {(): 1.0}
    rare = 0.0
    for _ in range(length):
        longer = {text: p for text, p in law.items() if text and text[-1] in eos}
        growing = [text for text in law if text not in longer]
        for first in range(0, len(growing), rows):
            texts = growing[first : first + rows]
            block = torch.tensor([[*prompt, *text] for text in texts], device=device_of(target))
            following = warp(target(block)[:, -1]).double().cpu()  # [texts, V]
            weights = torch.tensor([[law[text]] for text in texts], dtype=torch.float64)
            joint = weights * following / following.sum(-1, keepdim=True)
            counted = (joint >= least) & (joint > 0)
            rare += float(joint[~counted].sum())
            places = counted.nonzero().tolist()
            for (row, token), p in zip(places, joint[counted].tolist(), strict=True):
                longer[(*texts[row], token)] = p
        law = longer
    return {**law, RARE: rare} if rare > 0 else {**law}


@dataclass(frozen=True)
class Experiment:
    """A case of the loop, to be sampled.

    Attributes:
        case: with a single prompt.
        samples: N.
        rows: the most that are decoded as one batch.
        least: continuations less likely than this are pooled.
        chance: makes the source of chance.
    """

    case: Case
    samples: int
    rows: int = 4096
    least: float = 0.0
    chance: Callable[[int], Rng] = SeededRng

    def draw(self, seed: int) -> Counter[Tokens]:
        """Samples continuations through the whole loop."""
        case = self.case
        return sample_outcomes(
            case.target,
            case.new_drafter(),
            case.prompts[0],
            k=case.k,
            max_new_tokens=case.max_new_tokens,
            warp=case.warp,
            samples=self.samples,
            seed=seed,
            rows=self.rows,
            eos=case.eos,
            verifier=case.verifier,
            chance=self.chance,
        )

    def law(self) -> dict[Cell, float]:
        """Computes what the continuations' law should be."""
        case = self.case
        return continuation_law(
            case.target, case.prompts[0], case.max_new_tokens, case.warp, self.least, case.eos
        )

    def check(self, seed: int, false_alarm: float, miss: float = MISS) -> Sampled:
        """Draws, and compares. Both error rates are those of `check_sample`, whose result says all figures.

        Forwards with and without a cache differ in the last bits. In float32 that moves a law by about 1e-6,
        some ten thousand times less than what the test can see.
        """
        return check_sample(self.case.name, self.draw(seed), self.law(), false_alarm, miss)


Adapt = Callable[[Sequence[Experiment]], Sequence[Experiment]]


def sampled_tests(seed: int = 0, adapt: Adapt | None = None) -> list[Sampled]:
    """Runs all sampled tests, those of the trained pair among them.

    Right code fails one or more of them with chance 1e-6 at most: each gets an equal share. What each detects
    with 99.9999% certainty is in its result.

    Args:
        seed: of all chance.
        adapt: changes the experiments, such as to move them to another backend.
    """
    found = [*tiny_experiments(200_000), *trained_experiments(20_000)]
    return family(adapt(found) if adapt else found, 200, 2_000, seed)


def few_sampled_tests(seed: int = 0, adapt: Adapt | None = None) -> list[Sampled]:
    """Runs a smaller family on tiny models, with fewer samples; its false-alarm rate is the same, 1e-6.

    Args:
        seed: of all chance.
        adapt: changes the experiments, such as to move them to another backend.
    """
    found = tiny_experiments(20_000)
    return family(adapt(found) if adapt else found, 100, 500, seed)


def family(experiments: Sequence[Experiment], seeds: int, samples: int, seed: int) -> list[Sampled]:
    """Runs experiments and a calibration, whose false alarms together have a chance of 1e-6 at most.

    Args:
        experiments: the former.
        seeds: of the latter, how many.
        samples: of the latter, for each seed.
        seed: of all chance. The shares add up whether or not the tests' chances depend on each other.
    """
    share = FAMILY_FALSE_ALARM / (len(experiments) + 1)
    results = [experiment.check(seed, share) for experiment in experiments]
    return [*results, check_calibration(calibration(seeds, samples, seed), samples, share)]


def tiny_experiments(samples: int) -> list[Experiment]:
    """Returns experiments on models for which every continuation is counted, none pooled.

    In all of them a round ends inside the text, so the joint law spans the border between rounds.
    """
    table, guess = table_pair(vocab_size=3, seed=0)
    gpt, small = tiny_gpt_pair(seed=0, vocab_size=3, dtype=torch.float32)
    start = ((0, 1),)
    cases = [
        Case("table, 3 tokens, K = 2", table, guess, start, 2, 3),
        Case("table, 4 tokens, K = 1, warped, EOS", table, guess, start, 1, 4, Warp(1.4, top_p=0.95), (2,)),
        Case("GPT, 3 tokens, K = 2, hotter draft", gpt, small, start, 2, 3, draft_warp=Warp(1.5)),
    ]
    coupled = Case("table, 4 tokens, K = 2, coupled", table, guess, start, 2, 4, verifier=verify_coupled)
    return [
        *(Experiment(case, samples) for case in cases),
        Experiment(coupled, samples, rows=samples, chance=KeyedRng),
    ]


def trained_experiments(samples: int) -> list[Experiment]:
    """Returns experiments on the shipped pair: from the middle of a story, as it is and warped."""
    pair = load_pair("stories")
    prompt = tuple(pair.tokenizer.encode(MOMENT))
    room = len(prompt) + 3 + 2
    target, draft = shortened(pair.target, room), shortened(pair.draft, room)
    plain = Case("stories, 3 tokens, K = 2", target, draft, (prompt,), 2, 3)
    warped = replace(
        plain,
        name="stories, 3 tokens, K = 2, warped, hotter draft",
        warp=Warp(0.8, top_k=20),
        draft_warp=Warp(1.5),
    )
    return [Experiment(case, samples, rows=512, least=LEAST) for case in (plain, warped)]


def shortened(model: GPT, max_length: int) -> GPT:
    """Returns the same model, weights shared, with a shorter context: its caches are that much smaller."""
    with torch.device("meta"):
        short = GPT(replace(model.config, max_length=max_length))
    short.load_state_dict(model.state_dict(), assign=True)
    if model.config.tied:
        short.lm_head.weight = short.embed_tokens.weight
    return short.requires_grad_(False).eval()


def calibration(seeds: int = 200, samples: int = 2_000, seed: int = 0) -> list[float]:
    """Returns Pearson's p-values of the shipped loop on a tiny model, one for each of many seeds.

    For right code they are uniform. If rows, rounds or positions shared their chance, each sample might have
    the right law, and the counts would still scatter too much or too little.

    Args:
        seeds: how many.
        samples: for each.
        seed: which seeds: `seeds · seed` and those that follow.
    """
    target, draft = table_pair(vocab_size=3, seed=0)
    case = Case("calibration", target, draft, ((0, 1),), 2, 3)
    experiment = Experiment(case, samples, rows=samples)
    law = experiment.law()
    first = seeds * seed
    return [pearson_p_value(experiment.draw(each), law) for each in range(first, first + seeds)]


def check_calibration(p_values: Sequence[float], samples: int, false_alarm: float) -> Sampled:
    """Checks that p-values are uniform; both error rates are those of `check_uniform`.

    Counts are whole numbers and Pearson's law is a limit, so right p-values may be up to `PEARSON_ERROR` from
    uniform; the false-alarm rate allows for that.
    """
    name = f"p-values of {len(p_values)} seeds, {samples} samples each"
    return check_uniform(name, p_values, false_alarm, slack=PEARSON_ERROR)
