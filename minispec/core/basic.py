"""Speculative decoding on one screen: one row, no ends, no records. `loop.py` is the same for batches.

A text is a list of token ids. n new tokens after t cached ones give logits [n, V]; p and q are distributions
[V]. A cache holds all of the text but its last token, which is pending. Leviathan et al. 2023, algorithm 1.
"""

import torch


def read(model, cache, tokens):
    """Reads tokens after what the cache holds; returns logits [n, V] and extends the cache by n."""
    return model(torch.tensor([tokens]), cache)[0]


def draft(model, cache, pending, k, warp, rng):
    """Draws k tokens one by one; returns them and the distribution that each was drawn from."""
    tokens, dists = [pending], []
    for _ in range(k):
        dists.append(warp(read(model, cache, tokens[-1:]))[0])
        tokens.append(int(rng.categorical(dists[-1][None])))
    return tokens[1:], dists


def accept_greedy(tokens, dists, target_dists, rng):
    """Keeps tokens while they are the target's most probable ones; adds the target's next."""
    best = target_dists.argmax(-1).tolist()  # [K+1]
    agreed = 0
    while agreed < len(tokens) and tokens[agreed] == best[agreed]:
        agreed += 1
    return tokens[:agreed] + [best[agreed]]  # a correction, or a bonus after full agreement


def accept_rejection(tokens, dists, target_dists, rng):
    """Keeps x ~ q with probability min(1, p(x)/q(x)); adds a correction or a bonus."""
    for i, (x, q, p) in enumerate(zip(tokens, dists, target_dists.double(), strict=False)):
        q = q.double()
        if not rng.bernoulli((p[x] / q[x]).clamp(max=1).nan_to_num(0)[None]):
            lacking = (p - q).clamp(min=0)  # the mass that q lacks; none only where rounding made p = q
            residual = lacking / lacking.sum() if lacking.sum() > 0 else p
            return tokens[:i] + [int(rng.categorical(residual[None]))]
    return tokens + [int(rng.categorical(target_dists[-1:]))]


def catch_up(model, cache, text):
    """Makes the cache hold all of the text but its last token: reads what it lacks, forgets what is wrong."""
    held = int(cache.lengths)
    if held < len(text) - 1:
        read(model, cache, text[held:-1])
    cache.truncate([len(text) - 1])


def generate_basic(target, prompt, *, max_new_tokens, warp, rng):
    """The target alone: one forward a token."""
    text, cache = list(prompt), target.new_cache(1)
    for _ in range(max_new_tokens):
        catch_up(target, cache, text)
        text.append(int(rng.categorical(warp(read(target, cache, text[-1:])))))
    return text[len(prompt) :]


def speculate_basic(target, drafter, prompt, *, k, accept, max_new_tokens, warp, rng):
    """The same distribution in fewer target calls: draft, verify, commit, roll back."""
    text, end, models = list(prompt), len(prompt) + max_new_tokens, (target, drafter)
    caches = [model.new_cache(1) for model in models]
    while len(text) < end:
        for model, cache in zip(models, caches, strict=True):  # prefill, then rollback and catch-up
            catch_up(model, cache, text)
        tokens, dists = draft(drafter, caches[1], text[-1], min(k, end - len(text) - 1), warp, rng)
        target_dists = warp(read(target, caches[0], [text[-1], *tokens]))  # [K+1, V] in one forward
        text += accept(tokens, dists, target_dists, rng)
    return text[len(prompt) :]
