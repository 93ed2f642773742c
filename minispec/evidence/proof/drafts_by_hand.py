"""By hand: what each drafter must draw its next token from, after a text, without a cache and a loop.

A drafter is right if its distribution is that of its own model after the committed text. If it is not, but is
what it draws from, the text is right all the same; only the drafts fit it less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from minispec.core.draft import Drafter
from minispec.core.warp import one_hot
from minispec.drafters.eagle import FeatureDrafter
from minispec.drafters.exit import ExitDrafter
from minispec.drafters.lookup import LookupDrafter
from minispec.drafters.medusa import MedusaDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter
from minispec.drafters.tree import TreeDrafter
from minispec.evidence.proof.by_hand import distributions_after
from minispec.evidence.proof.cases import Case, Text

Draw = tuple[Text, Text]  # a text, and what was drafted after it so far


@torch.inference_mode()
def drafts_by_hand(case: Case, draws: Iterable[Draw]) -> dict[Draw, list[float]]:
    """Returns the distribution that each token is drawn from, after a text and the draft so far."""
    drafter, warp = case.drafter(case.draft, case.draft_warp), case.draft_warp or case.warp
    if isinstance(drafter, TreeDrafter):
        return {draw: candidate(drafter, case, *draw) for draw in set(draws)}
    for kind, logits_of in LOGITS.items():
        if isinstance(drafter, kind):
            return {draw: warp(logits_of(drafter, case, *draw)).double()[0].tolist() for draw in set(draws)}
    found = distributions_after(case.draft, warp, list({text + drafted for text, drafted in draws}))
    return {(text, drafted): found[text + drafted] for text, drafted in draws}


def looked_up(drafter: LookupDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """What stood after the longest end of the text that occurred before, where it did so last: [1, V]."""
    longest = 2 if isinstance(drafter, NgramDrafter) else len(text)
    for n in range(min(longest, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                copied = (text + drafted)[end + len(drafted)]
                return one_hot(torch.tensor([copied]), case.draft.vocab_size, torch.float64).log()
    return torch.zeros(1, case.draft.vocab_size)  # there is nothing, and no token is certain


def left_early(drafter: ExitDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """The exit on the stream after the first layers: [1, V]."""
    model, exit = drafter.target.model, drafter.target.exit
    tokens = torch.tensor([text + drafted])
    x = model.layers(model.embed_tokens(tokens), model.view(tokens.shape[1], None), 0, exit.layers)
    return model.head(exit(x))[:, -1]


def by_heads(drafter: MedusaDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """A head on the state in which the target has read all but the pending token: [1, V]."""
    return drafter.heads(case.draft.hidden(torch.tensor([text[:-1]]))[:, -1])[:, len(drafted)]


def by_features(drafter: FeatureDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """The layer on the target's features of the text, and on its own of the draft: [1, V]."""
    target = drafter.target
    states = target.hidden(torch.tensor([text]))
    features = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
    for n in range(len(text), len(text + drafted) + 1):
        out = drafter.layer(torch.tensor([(text + drafted)[:n]]), features, target)
        features = torch.cat([features, out[:, -1:]], dim=1)
    return target.head(out)[:, -1]


def by_masks(drafter: ParallelDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """The last of so many masks, corrected by the token before: [1, V]."""
    states = drafter.model.hidden(torch.tensor([text]), masks=len(drafted))
    return drafter.model.after(states[:, -1], torch.tensor((text + drafted)[-1:]))


def candidate(drafter: TreeDrafter, case: Case, text: Text, drafted: Text) -> list[float]:
    """What is chosen from for the next token of a tree: the draft's distribution after its own ancestors."""
    node = parent = drafter.parents[len(drafted)]
    path: Text = ()
    while node > 0:
        path, node = (drafted[node - 1], *path), drafter.parents[node - 1]
    logits = case.draft(torch.tensor([text + path]))[:, -1]
    chosen = torch.zeros_like(logits, dtype=torch.bool)
    chosen[0, [token for token, of in zip(drafted, drafter.parents, strict=False) if of == parent]] = True
    warp = case.draft_warp or case.warp
    return drafter.choice(warp(logits), logits, chosen).double()[0].tolist()


LOGITS: dict[type[Drafter], Callable[..., Tensor]] = {
    LookupDrafter: looked_up,
    ExitDrafter: left_early,
    MedusaDrafter: by_heads,
    FeatureDrafter: by_features,
    ParallelDrafter: by_masks,
}
