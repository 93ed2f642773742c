"""The target of an engine: its distributions, and which beginnings of texts they make likely."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

import torch
from torch import Tensor

Text = tuple[int, ...]

SUM_TOLERANCE = 1e-3  # a distribution may miss a sum of 1 by this, as float16 does; it is rescaled
ROUNDING = 1e-15  # what sums of probabilities leave by rounding


class Beginning(NamedTuple):
    """The first tokens of a text, and which prompt they follow."""

    prompt: int
    text: Text

    @property
    def parent(self) -> "Beginning":
        """The beginning without the last token."""
        return Beginning(self.prompt, self.text[:-1])


class NextToken:
    """A target that is asked for the next token's distribution, and what is needed of it."""

    def __init__(self, target: Callable[[Sequence[int]], Any], prompts: Sequence[Sequence[int]]) -> None:
        """Keeps a target, (ids) -> probabilities [V]; a ValueError says if there is no prompt."""
        try:
            self.prompts = [tuple(map(int, prompt)) for prompt in prompts]
        except TypeError as error:
            raise ValueError(f"prompts must be lists of token ids, not {prompts!r}") from error
        if not self.prompts:
            raise ValueError("there are no prompts; give at least one")
        self._target = target
        self.interval = cache(self._interval)

    def distribution(self, after: Beginning) -> Tensor:
        """Returns the next token's distribution, in float64: [V].

        Raises:
            ValueError: if the target returns what is none.
        """
        ids = [*self.prompts[after.prompt], *after.text]
        returned = self._target(ids)
        try:
            probs = torch.as_tensor(returned, dtype=torch.float64).detach().cpu()
            total = float(probs.sum())
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"the target must return probabilities, not {returned!r}") from error
        if probs.dim() != 1 or not bool((probs >= 0).all()) or abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(
                f"the target must return probabilities [V] that sum to 1; after {ids} their shape is "
                f"{list(probs.shape)}, their sum {total:.4g}"
            )
        return probs / total

    def _interval(self, beginning: Beginning) -> tuple[float, float]:
        """Returns where the last token's interval begins, and its width: its probability.

        The distribution after the tokens before it is laid out by falling probability, equal ones by id.

        Raises:
            ValueError: if there is no such id.
        """
        token = beginning.text[-1]
        probs = self.distribution(beginning.parent)
        if not 0 <= token < len(probs):
            raise ValueError(f"the engine returned the id {token}; the ids are 0 to {len(probs) - 1}")
        earlier = (probs > probs[token]) | (probs == probs[token]) & (torch.arange(len(probs)) < token)
        return float(probs[earlier].sum()), float(probs[token])


@dataclass(frozen=True)
class Beginnings:
    """The likeliest beginnings of texts; each text belongs to the longest of them that it has."""

    likely: dict[Beginning, float]  #: the probability of each; with a beginning all shorter ones are here too
    exact: dict[Beginning, float]  #: the probability to have this beginning, and none of the longer ones

    def cell(self, prompt: int, text: Text) -> Beginning:
        """Returns the longest beginning that a text has."""
        beginnings = (Beginning(prompt, text[:n]) for n in range(len(text), -1, -1))
        return next(beginning for beginning in beginnings if beginning in self.likely)


def grow(target: NextToken, tokens: int, ends: frozenset[int], cells: int) -> Beginnings:
    """Finds so many of the likeliest beginnings (`cells`), each of so many `tokens` at most, likeliest first.

    Each prompt is as likely as the others; `ends` are ids that end a text.

    Raises:
        ValueError: if there are too few cells to tell anything apart.
    """
    share = 1 / len(target.prompts)
    if cells < 2 * len(target.prompts):
        raise ValueError(f"{len(target.prompts)} prompts need at least twice as many cells, not {cells}")
    queue = [(-share, Beginning(prompt, ())) for prompt in range(len(target.prompts))]
    likely: dict[Beginning, float] = {}
    exact: dict[Beginning, float] = {}
    while queue and len(likely) < cells:
        negative_probability, beginning = heappop(queue)
        likely[beginning] = exact[beginning] = -negative_probability
        if beginning.text:
            exact[beginning.parent] += negative_probability
        if len(beginning.text) < tokens and not ends.intersection(beginning.text):
            dist = target.distribution(beginning)
            probs, ids = (part.tolist() for part in dist.topk(min(cells, len(dist))))
            for probability, token in zip(probs, ids, strict=True):
                if probability > 0:
                    longer = Beginning(beginning.prompt, (*beginning.text, token))
                    heappush(queue, (negative_probability * probability, longer))
    return Beginnings(likely, {beginning: prob for beginning, prob in exact.items() if prob > ROUNDING})
