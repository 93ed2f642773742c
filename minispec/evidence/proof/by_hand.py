"""By hand: the same things as the package computes, written in another way and as plainly as possible.

Checks compare the shipped code with these. Nothing here uses a cache, a loop of the package or its warp, but
for `distributions_after`, which warps.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import exp, fsum

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.core.warp import ROUNDING, Warp, one_hot
from minispec.drafters.eagle import FeatureDrafter, FeatureGPT
from minispec.drafters.eagle3 import Eagle3GPT
from minispec.drafters.exit import ExitDrafter
from minispec.drafters.lookup import LookupDrafter
from minispec.drafters.medusa import MedusaDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter
from minispec.drafters.tree import TreeDrafter
from minispec.evidence.proof.cases import Case, Text
from minispec.evidence.theory.formulas import acceptance
from minispec.verifiers.coupled import verify_coupled

Draw = tuple[Text, Text]  # a text, and what was drafted after it so far


def reachable(case: Case) -> Iterator[list[Text]]:
    """Yields the texts after which the case may need a distribution, those of one length together."""
    for prompt in case.prompts:
        for length in range(min(case.max_new_tokens, case.context - len(prompt))):
            yield [(*prompt, *tail) for tail in product(range(case.target.vocab_size), repeat=length)]


@torch.inference_mode()
def logits_after(model: LanguageModel, texts: Sequence[Text]) -> Tensor:
    """Returns the logits after texts of one length, without a cache: [B, V]."""
    return model.head(model.hidden(torch.tensor(texts)))[:, -1]


def distributions_after(model: LanguageModel, warp: Warp, texts: Iterable[Text]) -> dict[Text, list[float]]:
    """Returns the warped distribution after each text, without a cache."""
    return {text: warp(logits_after(model, [text]))[0].double().tolist() for text in texts}


def greedy_by_hand(case: Case, prompt: Text) -> Text:
    """Decodes at temperature 0: the first of the largest logits, a forward without a cache for each token."""
    tokens: Text = ()
    while case.finish(prompt, tokens) is None:
        (logits,) = logits_after(case.target, [(*prompt, *tokens)]).tolist()
        tokens += (logits.index(max(logits)),)
    return tokens


def warp_by_hand(logits: Sequence[float], warp: Warp) -> list[float]:
    """Warps with sorted lists: temperature, then top-k, then top-p, then to a sum of 1."""
    if warp.temperature == 0:
        return [float(token == logits.index(max(logits))) for token in range(len(logits))]
    weights = [exp((logit - max(logits)) / warp.temperature) for logit in logits]
    ranked = sorted(range(len(weights)), key=lambda token: (-weights[token], token))[: warp.top_k]
    if warp.top_p is not None:
        total = fsum(weights[token] for token in ranked)
        nucleus = []
        for token in ranked:
            nucleus.append(token)
            if fsum(weights[member] for member in nucleus) / total >= warp.top_p - ROUNDING:
                break
        ranked = nucleus
    total = fsum(weights[token] for token in ranked)
    return [weights[token] / total if token in ranked else 0.0 for token in range(len(weights))]


def overlap(case: Case, p: Sequence[float], q: Sequence[float]) -> float:
    """Returns the probability that a token of q is accepted: Σ min(p, q); for the coupled rule Σ p·q.

    Leviathan et al. 2023, theorem 3.5.
    """
    if case.verifier is verify_coupled:
        return fsum(a * b for a, b in zip(p, q, strict=True))
    return acceptance(p, q)


def rounded(probabilities: Sequence[float]) -> list[float]:
    """Returns numbers that people can read."""
    return [round(probability, 4) for probability in probabilities]


@torch.inference_mode()
def drafts_by_hand(case: Case, draws: Iterable[Draw]) -> dict[Draw, list[float]]:
    """Returns what each token must be drawn from: the drafter's own distribution after the committed text.

    Where a drafter draws from another, and says so, the text is right all the same; the drafts fit it less.
    """
    drafter = case.drafter(case.draft, case.draft_warp)
    warp = case.draft_warp or case.warp
    distributions: dict[Draw, list[float]] = {}
    for text, drafted in set(draws):
        if isinstance(drafter, TreeDrafter):
            q = candidate_distribution(drafter, case, text, drafted)
        else:
            q = warp(expected_logits(drafter, case, text, drafted))
        distributions[text, drafted] = q[0].double().tolist()
    return distributions


def expected_logits(drafter: Drafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns the logits that a drafter must have for the next token: [1, V]."""
    committed = torch.tensor([text])
    tokens = torch.tensor([text + drafted])
    if isinstance(drafter, LookupDrafter):
        return lookup_logits(2 if isinstance(drafter, NgramDrafter) else len(text), case, text, drafted)
    if isinstance(drafter, ExitDrafter):  # the exit on the stream after the first layers
        model = drafter.target.model
        exit = drafter.target.exit
        x = model.layers[: exit.layers](model.embed_tokens(tokens), model.view(tokens.shape[1], None))
        return model.head(exit(x))[:, -1]
    if isinstance(drafter, MedusaDrafter):  # a head on the state before the pending token is read
        return drafter.heads(case.draft.hidden(committed[:, :-1])[:, -1])[:, len(drafted)]
    if isinstance(drafter, ParallelDrafter):  # the last of so many masks, corrected by the token before
        return drafter.model.after(
            drafter.model.with_masks(committed, None, len(drafted))[:, -1], tokens[:, -1]
        )
    features_of = drafter.model if isinstance(drafter, FeatureDrafter) else None
    if isinstance(features_of, FeatureGPT):  # on the target's features of the text, and its own of the draft
        target_states = features_of.target.hidden(committed)
        features = torch.cat([torch.zeros_like(target_states[:, :1]), target_states[:, :-1]], dim=1)
        for n in range(len(text), tokens.shape[1] + 1):
            features_after = features_of.layer(tokens[:, :n], features, features_of.target)
            features = torch.cat([features, features_after[:, -1:]], dim=1)
        return features_of.target.head(features_after)[:, -1]
    if isinstance(features_of, Eagle3GPT):
        return eagle3_logits(features_of, case, text, drafted)
    return logits_after(case.draft, [text + drafted])  # a feature_model's


def eagle3_logits(model: Eagle3GPT, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns a head's logits, from the target's streams of the text and its own features after: [1, V]."""
    target = model.target
    layer = model.layer
    embedded = target.embed_tokens(torch.tensor([text + drafted]))
    view = target.view(len(text), None)
    streams = [target.layers[:tap](embedded[:, : len(text)], view) for tap in layer.taps]
    features = F.pad(layer.fc(torch.cat(streams, dim=-1)), (0, 0, 1, -1))  # none before the first token
    first = (text[0],) not in case.prompts  # the first token is read only if it was pending
    for n in range(len(text), len(text + drafted) + 1):
        after = layer(embedded[:, first:n], features[:, first:], target.view(n - first, None))
        features = torch.cat([features, after[:, -1:]], dim=1)
    logits = torch.full((1, target.vocab_size), -torch.inf, dtype=model.dtype)
    logits[:, layer.ids] = layer.logits(after)[:, -1]
    return logits


def lookup_logits(longest: int, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns what stood where the longest end of the text that occurred before did so last: [1, V]."""
    for n in range(min(longest, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                copied = (text + drafted)[end + len(drafted)]
                return one_hot(torch.tensor([copied]), case.draft.vocab_size, torch.float64).log()
    return torch.zeros(1, case.draft.vocab_size)  # there is nothing, and no token is certain


def candidate_distribution(drafter: TreeDrafter, case: Case, text: Text, drafted: Text) -> Tensor:
    """Returns what the next token of a tree is chosen from, after its own ancestors: [1, V]."""
    node = parent = drafter.parents[len(drafted)]
    path: Text = ()
    while node > 0:
        path = (drafted[node - 1], *path)
        node = drafter.parents[node - 1]
    logits = logits_after(case.draft, [text + path])
    siblings = torch.zeros_like(logits, dtype=torch.bool)
    siblings[
        0, [token for token, parent_id in zip(drafted, drafter.parents, strict=False) if parent_id == parent]
    ] = True
    return drafter.choice((case.draft_warp or case.warp)(logits), logits, siblings)
