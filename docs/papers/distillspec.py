"""Zhou et al. 2024 (DistillSpec): a draft distilled by three divergences, on its texts and on the target's.

The target is that of stories (8 layers of width 128), the draft the pair's before its distillation (1 layer
of width 32). Six distillations begin with it; acceptance is measured on held-out texts of the target.
"""

from collections.abc import Callable
from copy import deepcopy
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from book.results_tables import table
from torch import Tensor

from minispec import GPT, SeededRng, Warp, generate, load_model, load_pair
from minispec.train.attention import for_training
from minispec.train.stories import draw_stories
from papers.runs import Rows

TITLE = "Zhou et al. 2024, DistillSpec: whose texts, which divergence"
CLAIM = """With texts of the draft (on-policy), and a divergence chosen by task and decoding, a distilled
draft makes decoding 10 to 45 percent faster than the draft before (abstract)."""
VERDICT = "measured, on a small pair"
DIVERGENCES = {"KL": "KL(p ‖ q)", "reverse KL": "KL(q ‖ p)", "TV": "total variation"}
POLICIES = {"off": "the target's", "on": "the draft's"}
SEEDS = (0, 1)
PROMPT = 16
NEW = 64
STEPS = 240
RENEW = 30  # steps, after which there are new texts
POOL = 120  # texts at a time: each is read four times
ROWS = 16
HELD_OUT = 128
RATE = 3e-3


class Texts(NamedTuple):
    """Texts, and what the target makes of them."""

    tokens: Tensor  #: [N, n]
    logits: Tensor  #: [N, NEW, V], of the tokens after the prompt


def prompts_of(count: int, seed: int) -> list[list[int]]:
    """Returns the beginnings of so many stories."""
    tokenizer = load_pair("stories").tokenizer
    texts = [story.text for story in draw_stories(count, seed, friends=2)]
    return [ids[:PROMPT] for ids in tokenizer.encode_batch(texts)]


def written(author: GPT, target: GPT, prompts: list[list[int]], seed: int) -> Texts:
    """Lets a model go on with prompts at temperature 1, and the target read it."""
    steps = generate(author, prompts, max_new_tokens=NEW, warp=Warp(), rng=SeededRng(seed))
    tokens = torch.cat([torch.tensor(prompts), torch.tensor(list(steps)).T], dim=1)
    with torch.no_grad():
        parts = [target(part)[:, PROMPT - 1 : -1] for part in tokens.split(ROWS)]
    return Texts(tokens, torch.cat(parts))


def distance(name: str, p: Tensor, q: Tensor) -> Tensor:
    """Returns the mean divergence of distributions, from logits [..., V]."""
    log_p, log_q = p.log_softmax(-1), q.log_softmax(-1)
    if name == "TV":
        return (log_p.exp() - log_q.exp()).abs().sum(-1).mean() / 2
    first, second = (log_p, log_q) if name == "KL" else (log_q, log_p)
    return (first.exp() * (first - second)).sum(-1).mean()


Write = Callable[[int, GPT], Texts]  # from how often there were new texts, and the draft, to the next


def train(undistilled: GPT, name: str, write: Write) -> GPT:
    """Distils a copy of a draft: Adam, with a rate that falls to 0."""
    draft = for_training(deepcopy(undistilled)).requires_grad_(True)
    optimizer = torch.optim.Adam(draft.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    for step in range(STEPS):
        if step % RENEW == 0:
            texts = write(step // RENEW, draft)
        rows = torch.arange(step * ROWS, (step + 1) * ROWS) % POOL
        loss = distance(name, texts.logits[rows], draft(texts.tokens[rows])[:, PROMPT - 1 : -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return draft.eval()


def writers(target: GPT, seed: int) -> dict[str, Write]:
    """Returns who writes: the target, once for all divergences, or the draft as it then is."""
    prompts = prompts_of(POOL * (STEPS // RENEW), seed=100 + seed)
    pools = [prompts[first : first + POOL] for first in range(0, len(prompts), POOL)]

    def by(author: GPT, number: int) -> Texts:
        return written(author, target, pools[number], seed * STEPS + number)

    off = [by(target, number) for number in range(len(pools))]
    return {"off": lambda number, draft: off[number], "on": lambda number, draft: by(draft, number)}


@torch.no_grad()
def acceptance(draft: GPT, texts: Texts) -> float:
    """Returns the mean of Σ min(p, q) over the tokens after the prompts."""
    q = draft(texts.tokens)[:, PROMPT - 1 : -1].softmax(-1)
    return float(torch.minimum(texts.logits.softmax(-1), q).sum(-1).mean())


def measure() -> Rows:
    """Distils six drafts with each seed, all from the same beginning."""
    pair = load_pair("stories")
    undistilled = load_model(pair.folder / "draft-plain")
    held_out = written(pair.target, pair.target, prompts_of(HELD_OUT, seed=99), seed=99)
    rows = [
        {"divergence": "none", "texts": "none", "seed": 0, "acceptance": acceptance(undistilled, held_out)}
    ]
    for seed in SEEDS:
        for policy, write in writers(pair.target, seed).items():
            for name in DIVERGENCES:
                alpha = acceptance(train(undistilled, name, write), held_out)
                rows.append({"divergence": name, "texts": policy, "seed": seed, "acceptance": alpha})
    return rows


def show(rows: Rows) -> str:
    """Writes the acceptance of all six, means over the seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["divergence"], row["texts"]), []).append(row["acceptance"])
    ((before,),) = (found.pop(("none", "none")),)
    spread = fmean(stdev(each) for each in found.values())
    means = {(DIVERGENCES[name], POLICIES[policy]): fmean(each) for (name, policy), each in found.items()}
    best = max(means, key=means.__getitem__)
    worse = sum(alpha < before for alpha in means.values())
    cells = [
        (word, *(f"{means[word, author]:.4f}" for author in POLICIES.values()))
        for word in DIVERGENCES.values()
    ]
    head = ("divergence", *(f"{author} texts" for author in POLICIES.values()))
    return (
        f"Acceptance at temperature 1 on {HELD_OUT} held-out texts of the target; before, {before:.4f}. The "
        f"target of stories, a draft of one layer of width 32, {STEPS} steps of {ROWS} texts, means of "
        f"{len(SEEDS)} seeds, with a standard deviation of {spread:.4f}. Best is {best[0]} on {best[1]} "
        f"texts; {worse} of {len(means)} end below the beginning.\n\n{table(head, cells, 1)}"
    )
