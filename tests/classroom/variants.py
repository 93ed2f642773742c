"""For each exercise, a right answer written another way than the shipped one and the solution's."""

from itertools import product, takewhile
from math import prod

import numpy as np
import torch

from minispec import Draft, SeededRng, Verdict


def continue_greedily(model, prompt, n):
    """With a cache, one token at a time, and a tensor for its result."""
    if n == 0:
        return []
    cache = model.new_cache(1)
    logits = model(torch.tensor([prompt]), cache)
    new = [logits[0, -1].topk(1).indices]
    while len(new) < n:
        new.append(model(new[-1][None], cache)[0, -1].topk(1).indices)
    return torch.cat(new)


def cache_bytes(config, tokens, bytes_per_number):
    """Sums over layers."""
    vector = config.width // config.heads * bytes_per_number
    return sum(tokens * config.kv_heads * vector for _ in range(config.layers) for _ in ("keys", "values"))


def positions_computed(prompt, new, cached):
    """In closed form, as a tensor."""
    return torch.tensor(prompt - 1 + new if cached else new * prompt + new * (new - 1) // 2)


def total_variation(p, q):
    """One minus the overlap, in numpy and in float32."""
    return 1 - np.minimum(p.float().numpy(), q.float().numpy()).sum()


def draft_tokens(model, cache, pending, k, warp, rng):
    """Into tensors that are there beforehand; the first pass outside of the loop. Returns a pair."""
    dists = torch.zeros(len(pending), k, model.vocab_size, dtype=torch.float64)
    tokens = torch.zeros(len(pending), k, dtype=torch.long)
    for i in range(k):
        read = pending if i == 0 else tokens[:, i - 1]
        dists[:, i] = warp(model.head(model.hidden(read.view(-1, 1), cache)))[:, 0]
        tokens[:, i] = rng.categorical(dists[:, i], positions=i)
    return tokens, dists


def draft_one_row(model, cache, pending, k, warp, rng):
    """With what the core uses, in one expression a turn."""
    found, id = [], pending
    for _ in range(k):
        q = warp(model(torch.tensor([[id]]), cache)).flatten()
        id = int(rng.categorical(q[None]))
        found.append((id, q.tolist()))
    return [id for id, _ in found], torch.tensor([q for _, q in found])


def verify_greedily(drafted, best):
    """Without a loop of its own."""
    kept = list(takewhile(lambda pair: pair[0] == pair[1], zip(drafted, best, strict=False)))
    return [len(kept), torch.tensor(best)[len(kept)]]


def verification_mask(cached, k):
    """By comparing positions, as numbers to be added to scores."""
    positions = torch.arange(cached + k + 1)
    return torch.zeros(k + 1, cached + k + 1).masked_fill(positions > positions[cached:, None], float("-inf"))


def residual(p, q):
    """Token by token, in plain Python, from float32."""
    short = [max(0.0, float(a) - float(b)) for a, b in zip(p.float(), q.float(), strict=True)]
    return [x / sum(short) for x in short] if sum(short) else p.tolist()


def accept_one_row(tokens, dists, target_dists, rng):
    """The test turned round, in plain numbers, by recursion."""
    p, *rest = [dist.tolist() for dist in target_dists]
    if not tokens:
        return [rng.draw(p)]
    x, q = tokens[0], dists[0].tolist()
    if min(1, p[x] / q[x]) > rng.uniform():
        return [x, *accept_one_row(tokens[1:], dists[1:], torch.tensor(rest).double(), rng)]
    short = [max(0, a - b) for a, b in zip(p, q, strict=True)]
    return [rng.draw([a / sum(short) for a in short])]


def my_verifier(draft, target_probs, rng):
    """Row by row."""
    if len(draft.tokens) > 1:
        raise ValueError("one row at a time, please")
    p, q = target_probs[0].double(), draft.probs[0].double()
    for i, x in enumerate(draft.tokens[0, : int(draft.lengths[0])].tolist()):
        if not rng.bernoulli((p[i, x] / q[i, x]).clamp(max=1).reshape(1)):
            short = torch.relu(p[i] - q[i])
            dist = short if short.sum() > 0 else p[i]
            return Verdict(torch.tensor([i]), rng.categorical(dist[None] / dist.sum()))
    n = draft.lengths
    return Verdict(n, rng.categorical(p[n]))


def cache_lengths(cached, k, accepted):
    """By name, out of sets of positions."""
    block = range(cached, cached + k + 1)
    target, draft = [*range(cached), *block], [*range(cached), *block[:-1]]
    kept = target[: cached + 1 + accepted]
    return {
        "target_verified": len(target),
        "draft_drafted": len(draft),
        "after": len(kept),
        "catch_up": len(set(kept) - set(draft)),
    }


def my_loop(parts, prompt, k, n):
    """Token by token out of a generator."""

    def tokens():
        parts.prefill(prompt)
        length, pending = len(prompt), prompt[-1]
        while True:
            draft = parts.draft(pending, k)
            accepted, pending_next = parts.verify(draft, parts.score(pending, draft))
            length += accepted + 1
            parts.rollback(length - 1)
            pending = pending_next
            yield from (*draft.tokens[0][:accepted], pending)

    source = tokens()
    return torch.tensor([int(next(source)) for _ in range(n)], dtype=torch.long)


def my_sampled_loop(target, draft, prompt, k, n, rng):
    """Without prefill and catch-up: each model reads what its cache lacks, the draft its last guess too."""
    text, caches = [*prompt], {model: model.new_cache(1) for model in (target, draft)}

    def read(model, ids):
        lacking = torch.tensor([ids[caches[model].row_lengths[0] :]])
        return model.head(model.hidden(lacking, caches[model]))[0].float().softmax(-1)

    while len(text) < len(prompt) + n:
        guesses, q = [], []
        for _ in range(k):
            q.append(read(draft, text + guesses)[-1])
            guesses.append(rng.draw(q[-1]))
        read(draft, text + guesses)
        p = read(target, text + guesses)[-k - 1 :]
        emitted = accept_one_row(guesses, q, p, rng)
        text += emitted
        for cache in caches.values():
            cache.truncate([len(text) - 1])
    return torch.tensor(text[len(prompt) :][:n])


def my_test(verifier):
    """Pairs of tokens against the joint distribution, with asserts."""
    p = torch.tensor([[4, 3, 1], [1, 2, 5], [1, 1, 6]]).double() / 8
    q = torch.tensor([[1, 3, 4], [5, 2, 1]]).double() / 8
    rows, rng = 40_000, SeededRng(9)
    tokens = torch.stack([rng.categorical(q[i].expand(rows, 3)) for i in range(2)], 1)
    verdict = verifier(Draft(tokens, q.expand(rows, 2, 3)), p.expand(rows, 3, 3), rng)
    first = torch.where(verdict.accepted > 0, tokens[:, 0], verdict.token)
    second = torch.where(verdict.accepted > 1, tokens[:, 1], verdict.token)
    own = rng.categorical(p[1].expand(rows, 3))  # where there is none yet, the target goes on
    second = torch.where(verdict.accepted > 0, second, own)
    joint = torch.bincount(3 * first + second, minlength=9).view(3, 3) / rows
    assert (joint - p[0, :, None] * p[1]).abs().max() < 0.015


def best_k(alpha, c, most):
    """Goes up while a further guess pays: the gain has one peak."""
    k, tokens, time = 0, 1.0, 1.0
    while k < most and (tokens + alpha ** (k + 1)) / (time + c) > tokens / time:
        k, tokens, time = k + 1, tokens + alpha ** (k + 1), time + c
    return np.int64(k)


class LookUpDrafter:
    """Keeps a table from pairs to positions, filled as tokens come."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    @property
    def cache_lengths(self):
        return None

    def start(self, prompts):
        self.texts, self.seen = [[] for _ in prompts], [{} for _ in prompts]
        for row, prompt in enumerate(prompts):
            self.add(row, prompt)

    def add(self, row, tokens):
        text, seen = self.texts[row], self.seen[row]
        for token in tokens:
            if len(text) >= 2:  # only now does anything follow the pair before
                seen[text[-2], text[-1]] = len(text)
            text.append(token)

    def propose(self, pending, k, warp, rng):
        tokens = torch.zeros(len(self.texts), k, dtype=torch.long)
        lengths = torch.zeros(len(self.texts), dtype=torch.long)
        for row, (text, seen) in enumerate(zip(self.texts, self.seen, strict=True)):
            found = text[seen[tuple(text[-2:])] :][:k] if tuple(text[-2:]) in seen else []
            lengths[row] = len(found)
            tokens[row, : len(found)] = torch.tensor(found, dtype=torch.long)
        return Draft(tokens, torch.eye(self.vocab_size)[tokens], lengths)

    def commit(self, round):
        for row, tokens in enumerate(round.emitted):
            self.add(row, tokens)


def longest_match(text, most):
    """Counts, for each earlier place, how far back the text agrees with its end."""
    best = (0, 0)
    for end in range(1, len(text)):
        n = 0
        while n < min(most, end) and text[end - 1 - n] == text[-1 - n]:
            n += 1
        best = max(best, (n, end * (n > 0)))  # of equal sizes the later place
    return list(best)


def draft_length(match, per_match, k, room):
    """Counts up while the match allows one more, as a tensor."""
    n = 0
    while n < per_match * match and n < k and n + 1 < room:
        n += 1
    return torch.tensor(n)


def medusa_states(k, accepted):
    """By what each state has read."""
    rejected = [any(i > accepted for i in range(state + 1)) for state in range(k + 1)]
    return [rejected.count(False) - 1, torch.tensor(rejected).nonzero().flatten()]


def tree_mask(parents):
    """Walks from each token up to the pending one; a tensor of numbers."""
    mask, depths = torch.eye(len(parents) + 1, dtype=torch.long), []
    for i in range(len(parents) + 1):
        at, depth = i, 0
        while at:
            at, depth = parents[at - 1], depth + 1
            mask[i, at] = 1
        depths.append(depth)
    return mask, torch.tensor(depths)


def try_candidates(tokens, dists, p, rng):
    """With unscaled masses: what is left to say, and what is left in all."""
    left, whole, n = p.clone(), 1.0, 0
    while n < len(tokens) and whole > 0:
        q = whole * dists[n]
        if rng.uniform() < left[tokens[n]] / q[tokens[n]]:
            return [n, tokens[n]]
        left = torch.maximum(left - q, torch.zeros_like(q))
        whole, n = float(left.sum()), n + 1
    return n, rng.draw(left / left.sum())


def slots_to_keep(cached, parents, last):
    """By which tokens the last one sees."""
    mask, _ = tree_mask(parents)
    return [*range(cached), *(cached + torch.nonzero(mask[last]).flatten()).tolist()]


def refill_rows(done, waiting, space):
    """Row by row, from a queue."""
    queue, placed = [*waiting][::-1], []
    for row in range(len(done)):
        while done[row] and queue and not space[queue[-1]]:
            queue.pop()
        if done[row] and queue:
            placed.append([row, queue.pop()])
    return placed, torch.tensor([name for name in queue[::-1] if space[name]], dtype=torch.long)


def block_slots(live, lengths):
    """Slot by slot."""
    kinds = [
        "idle" if not decodes else "useful" if place <= drafted else "padding"
        for decodes, drafted in zip(live, lengths, strict=True)
        for place in range(max(lengths) + 1)
    ]
    return [kinds.count(kind) for kind in ("useful", "padding", "idle")]


def block_ratios(tokens, dists, target_dists):
    """By the smallest product of an end of the beginning; the empty one counts, and is 1."""
    own = [float(target_dists[i][x]) / float(dists[i][x]) for i, x in enumerate(tokens)]
    return torch.tensor([min(prod(own[j:i]) for j in range(i + 1)) for i in range(1, len(own) + 1)])


def most_accepted(p, drawn):
    """Set by set, each by its bits."""
    spare = []
    for bits in product((False, True), repeat=len(p)):
        loose = sum(share for tokens, share in drawn if all(bits[x] for x in tokens))
        spare.append(sum(share for share, bit in zip(p, bits, strict=True) if bit) - loose)
    return torch.tensor(spare, dtype=torch.float64).min() + 1


# Slow right answers: they take batches, and ask for the draws of one row after another.


def verifier_row_after_row(draft, target_probs, rng):
    """A loop over the rows of the batch."""
    verdicts = []
    for b, length in enumerate(draft.lengths.tolist()):
        one = slice(b, b + 1)
        row = Draft(draft.tokens[one, :length], draft.probs[one, :length], draft.lengths[one])
        verdicts.append(my_verifier(row, target_probs[one], rng))
    accepted = torch.cat([verdict.accepted for verdict in verdicts])
    return Verdict(accepted, torch.cat([verdict.token for verdict in verdicts]))


def draft_row_after_row(model, cache, pending, k, warp, rng):
    """One forward for all rows, since they share a cache; one draw for each."""
    tokens, probs = [pending], []
    for _ in range(k):
        probs.append(warp(model(tokens[-1][:, None], cache)[:, -1]))
        tokens.append(torch.cat([rng.categorical(row[None]) for row in probs[-1]]))
    return Draft(torch.stack(tokens[1:], 1), torch.stack(probs, 1))


VARIANTS = {
    "continue-greedily": continue_greedily,
    "cache-bytes": cache_bytes,
    "positions-computed": positions_computed,
    "total-variation": total_variation,
    "draft-one-row": draft_one_row,
    "remember-q": draft_tokens,
    "verify-greedily": verify_greedily,
    "shift-the-mask": verification_mask,
    "residual": residual,
    "accept-one-row": accept_one_row,
    "write-the-verifier": my_verifier,
    "cache-lengths": cache_lengths,
    "write-the-loop": my_loop,
    "write-the-sampled-loop": my_sampled_loop,
    "write-a-test": my_test,
    "choose-k": best_k,
    "look-up-drafter": LookUpDrafter,
    "longest-match": longest_match,
    "draft-length": draft_length,
    "medusa-states": medusa_states,
    "tree-mask": tree_mask,
    "try-candidates": try_candidates,
    "slots-to-keep": slots_to_keep,
    "refill-rows": refill_rows,
    "block-slots": block_slots,
    "block-ratios": block_ratios,
    "most-accepted": most_accepted,
}
