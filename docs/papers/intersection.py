"""Timor et al. 2025: a draft model with another vocabulary, by token-level intersection (TLI).

The target knows the tokens a, b, ab, the draft a, b, ba. The draft reads the text in its own tokens, and what
it proposes is drawn from its distribution over the tokens that both know. Every branch of the shipped loop is
taken.
"""

from collections import defaultdict
from collections.abc import Sequence

import torch
from book.results_tables import table
from torch import Tensor

from minispec import Draft, EnumeratingRng, Round, RoundRng, Warp, speculate, verify_rejection
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.evidence.proof.models import TableModel, table_model
from papers.runs import Row, Rows

TITLE = "Timor et al. 2025: different vocabularies"
CLAIM = """With q restricted to the common tokens and
normalised again, the text keeps the target's distribution."""
VERDICT = "exact"
SPELLED = ((0,), (1,), (0, 1))  # the target's tokens a, b, ab in those of the draft: a is 0, b is 1, ba is 2
COMMON = (0, 1)  # a and b have the same ids in both
Text = tuple[int, ...]
PROMPT = (2, 1)
LENGTH = 4
K = 2
SEEDS = (0, 1, 2)


class IntersectionDrafter:
    """A draft model that proposes tokens which the target knows too; without a cache."""

    cache_lengths = None

    def __init__(self, model: TableModel, vocab_size: int) -> None:
        """Takes the draft model, and V of the target."""
        self.model = model
        self.vocab_size = vocab_size
        self.max_length = model.max_length
        self._texts: list[list[int]] = []

    def start(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> None:
        """Reads prompts, in the target's tokens."""
        self._texts = [[*prompt] for prompt in prompts]

    def admit(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], hidden: Tensor) -> None:
        """Reads other prompts in these rows."""
        for row, prompt in zip(rows, prompts, strict=True):
            self._texts[row] = [*prompt]

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Draws k tokens a row, each from the draft's distribution over the common tokens."""
        texts = [[*text] for text in self._texts]
        dists = []
        for i in range(k):
            q = torch.stack([restricted(self.model, text, self.vocab_size) for text in texts])
            dists.append(q / q.sum(-1, keepdim=True))
            for text, token in zip(texts, rng.categorical(dists[-1], i).tolist(), strict=True):
                text.append(token)
        return Draft(torch.tensor([text[-k:] for text in texts]), torch.stack(dists, 1))

    def commit(self, round: Round) -> None:
        """Appends what was emitted."""
        for text, emitted in zip(self._texts, round.emitted, strict=True):
            text += emitted


def restricted(model: TableModel, text: Sequence[int], vocab_size: int) -> Tensor:
    """Returns the draft's probabilities of the common tokens after a text, not normalised: [V]."""
    own = torch.tensor([[id for token in text for id in SPELLED[token]]])
    probs = model(own)[0, -1].softmax(-1)
    q = torch.zeros(vocab_size, dtype=torch.float64)
    q[[*COMMON]] = probs[[*COMMON]]
    return q


def chain_rule(target: TableModel) -> dict[Text, float]:
    """Returns the target's probability of every text of up to `LENGTH` tokens after the prompt."""
    found: dict[Text, float] = {(): 1.0}
    newest = found
    for _ in range(LENGTH):
        newest = {
            (*text, token): weight * p
            for text, weight in newest.items()
            for token, p in enumerate(after(target, text).tolist())
        }
        found = found | newest
    return found


def after(target: TableModel, text: Sequence[int]) -> Tensor:
    """Returns the target's distribution after the prompt and a text: [V]."""
    return target(torch.tensor([[*PROMPT, *text]]))[0, -1].softmax(-1)


def enumerated(target: TableModel, drafter: IntersectionDrafter) -> tuple[dict[Text, float], float]:
    """Takes every branch of the loop: the probability of each text, and the expected number of rounds."""

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[Text, int]]:
        how = {"k": K, "verifier": verify_rejection, "warp": Warp(), "rng": rng, "max_new_tokens": LENGTH}
        rounds = [*speculate(target, drafter, [PROMPT] * len(keys), **how)]
        texts = [sum((r.emitted[row] for r in rounds), ()) for row in range(len(keys))]
        return [(text, sum(r.live[row] for r in rounds)) for row, text in enumerate(texts)]

    probabilities: dict[Text, float] = defaultdict(float)
    calls = 0.0
    for _, (text, rounds), weight in enumerate_branches(run, [0]):
        probabilities[text] += weight
        calls += weight * rounds
    return probabilities, calls


def of(seed: int) -> Row:
    """Returns what comes out of one pair of tables."""
    target, draft = table_model(3, seed), table_model(3, seed + 100)
    exactly = chain_rule(target)
    found, calls = enumerated(target, IntersectionDrafter(draft, 3))
    whole = [text for text in exactly if len(text) == LENGTH]
    accepted = {"union": 0.0, "intersection": 0.0}
    for text, weight in exactly.items():
        if len(text) < LENGTH:
            p = after(target, text)
            q = restricted(draft, [*PROMPT, *text], 3)
            for name, dist in (("union", q), ("intersection", q / q.sum())):
                accepted[name] += weight * float(torch.minimum(p, dist).sum()) / LENGTH
    distance = sum(abs(found[text] - exactly[text]) for text in whole) / 2
    row = {"pair": seed, "texts": len(whole), "total_variation": distance, "tokens": LENGTH / calls}
    return row | accepted


def exact() -> Rows:
    """Returns all pairs."""
    return [of(seed) for seed in SEEDS]


measure = exact


def show(rows: Rows) -> str:
    """Writes acceptance with both q, and the distance of what comes out from the target."""
    cells = [
        (f"{row['pair']}", f"{row['union']:.3f}", f"{row['intersection']:.3f}", f"{row['tokens']:.2f}")
        for row in rows
    ]
    most = max(row["total_variation"] for row in rows)
    head = ("pair", "accepted, union", "accepted, intersection", "tokens a call")
    return (
        "Three pairs of table models, where the target has the tokens a, b, ab and the draft a, b, ba. All "
        f"{rows[0]['texts']} texts of {LENGTH} tokens come out with the target's probability, up to "
        f"{most:.0e} in total variation. Over the *union* of both vocabularies q is smaller on the common "
        "tokens, and fewer are accepted. minispec has no such drafter; this one has 40 lines.\n\n"
        f"{table(head, cells, 1)}"
    )
