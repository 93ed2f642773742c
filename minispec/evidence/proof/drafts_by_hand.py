"""By hand: what each drafter must draw its next token from, after a text, without a cache and a loop.

A drafter is right if its distribution is that of its own model after the committed text. If it is not, but is
what it draws from, the text is right all the same; only the drafts fit it less.
"""

from collections.abc import Iterable

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
    found: dict[Draw, list[float]] = {}
    for text, drafted in set(draws):
        if isinstance(drafter, TreeDrafter):
            q = candidate(drafter, case, text, drafted)
        elif (logits := own_logits(drafter, case, text, drafted)) is not None:
            q = warp(logits)
        else:  # a model's, below: all texts of one length at once
            continue
        found[text, drafted] = q[0].double().tolist()
    if not found:
        after = distributions_after(case.draft, warp, list({text + drafted for text, drafted in draws}))
        return {(text, drafted): after[text + drafted] for text, drafted in draws}
    return found


def own_logits(drafter: Drafter, case: Case, text: Text, drafted: Text) -> Tensor | None:
    """Returns what a drafter other than a model must say of the next token: [1, V]; None for a model."""
    read, whole = torch.tensor([text]), torch.tensor([text + drafted])
    if isinstance(drafter, LookupDrafter):
        return looked_up(2 if isinstance(drafter, NgramDrafter) else len(text), case, text, drafted)
    if isinstance(drafter, ExitDrafter):  # the exit on the stream after the first layers
        model, exit = drafter.target.model, drafter.target.exit
        x = model.layers(model.embed_tokens(whole), model.view(whole.shape[1], None), 0, exit.layers)
        return model.head(exit(x))[:, -1]
    if isinstance(drafter, MedusaDrafter):  # a head on the state before the pending token is read
        return drafter.heads(case.draft.hidden(read[:, :-1])[:, -1])[:, len(drafted)]
    if isinstance(drafter, ParallelDrafter):  # the last of so many masks, corrected by the token before
        return drafter.model.after(drafter.model.hidden(read, masks=len(drafted))[:, -1], whole[:, -1])
    if isinstance(drafter, FeatureDrafter):  # on the target's features of the text, and its own of the draft
        states = drafter.target.hidden(read)
        features = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
        for n in range(len(text), whole.shape[1] + 1):
            out = drafter.layer(whole[:, :n], features, drafter.target)
            features = torch.cat([features, out[:, -1:]], dim=1)
        return drafter.target.head(out)[:, -1]
    return None


def looked_up(longest: int, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns what stood where the longest end of the text that occurred before did so last: [1, V]."""
    for n in range(min(longest, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                copied = (text + drafted)[end + len(drafted)]
                return one_hot(torch.tensor([copied]), case.draft.vocab_size, torch.float64).log()
    return torch.zeros(1, case.draft.vocab_size)  # there is nothing, and no token is certain


def candidate(drafter: TreeDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns what the next token of a tree is chosen from, after its own ancestors: [1, V]."""
    node = parent = drafter.parents[len(drafted)]
    path: Text = ()
    while node > 0:
        path, node = (drafted[node - 1], *path), drafter.parents[node - 1]
    logits = case.draft(torch.tensor([text + path]))[:, -1]
    chosen = torch.zeros_like(logits, dtype=torch.bool)
    chosen[0, [token for token, of in zip(drafted, drafter.parents, strict=False) if of == parent]] = True
    return drafter.choice((case.draft_warp or case.warp)(logits), logits, chosen)
