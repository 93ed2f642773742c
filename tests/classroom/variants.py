"""For each exercise, a right answer that is not the shipped one: written another way, or of another form."""

import numpy as np
import torch

from minispec import Draft, SeededRng, Verdict
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.counting import LENGTH_NAMES


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


def my_sampled_loop(target, draft, prompt, k, n, rng):
    """Without prefill and catch-up: each model reads what its cache lacks, the draft its last guess too."""
    text = [*prompt]
    caches = {model: model.new_cache(1) for model in (target, draft)}

    def read(model, ids):
        unread = torch.tensor([ids[caches[model].row_lengths[0] :]])
        return model(unread, caches[model])[0].float().softmax(-1)

    while len(text) < len(prompt) + n:
        guesses = []
        q = []
        for _ in range(min(k, len(prompt) + n - len(text) - 1)):
            q.append(read(draft, text + guesses)[-1])
            guesses.append(rng.draw(q[-1]))
        read(draft, text + guesses)
        p = read(target, text + guesses)[-len(guesses) - 1 :]
        emitted = accept_one_row(guesses, q, p, rng)
        text += emitted
        for cache in caches.values():
            cache.truncate([len(text) - 1])
    return torch.tensor(text[len(prompt) :])


def my_test(verifier):
    """Pairs of tokens against the joint distribution, with asserts."""
    p = torch.tensor([[4, 3, 1], [1, 2, 5], [1, 1, 6]]).double() / 8
    q = torch.tensor([[1, 3, 4], [5, 2, 1]]).double() / 8
    rows = 40_000
    rng = SeededRng(9)
    tokens = torch.stack([rng.categorical(q[i].expand(rows, 3)) for i in range(2)], 1)
    verdict = verifier(Draft(tokens, q.expand(rows, 2, 3)), p.expand(rows, 3, 3), rng)
    first = torch.where(verdict.accepted > 0, tokens[:, 0], verdict.token)
    second = torch.where(verdict.accepted > 1, tokens[:, 1], verdict.token)
    continuation = rng.categorical(p[1].expand(rows, 3))  # where there is none yet, the target goes on
    second = torch.where(verdict.accepted > 0, second, continuation)
    joint = torch.bincount(3 * first + second, minlength=9).view(3, 3) / rows
    assert (joint - p[0, :, None] * p[1]).abs().max() < 0.015


# Slow right answers: they take batches, and ask for the draws of one row after another.


def verifier_row_after_row(draft, target_probs, rng, for_row=lambda rng: rng):
    """A loop over the rows of the batch; what each row draws from is made of `rng`."""
    verdicts = []
    for b, length in enumerate(draft.lengths.tolist()):
        row = slice(b, b + 1)
        row_draft = Draft(draft.tokens[row, :length], draft.probs[row, :length], draft.lengths[row])
        verdicts.append(my_verifier(row_draft, target_probs[row], for_row(rng)))
    accepted = torch.cat([verdict.accepted for verdict in verdicts])
    return Verdict(accepted, torch.cat([verdict.token for verdict in verdicts]))


def draft_row_after_row(model, cache, pending, k, warp, rng):
    """One forward for all rows, since they share a cache; one draw for each."""
    tokens = [pending]
    probs = []
    for _ in range(k):
        probs.append(warp(model(tokens[-1][:, None], cache)[:, -1]))
        tokens.append(torch.cat([rng.categorical(row[None]) for row in probs[-1]]))
    return Draft(torch.stack(tokens[1:], 1), torch.stack(probs, 1))


def first_and_tensor(pair):
    """Returns a pair as a list, of which the second is a tensor."""
    return [pair[0], torch.tensor(pair[1])]


def single(drafter):
    """Returns a drafter for a V that reports its distributions in float32."""

    class Single(drafter):
        def propose(self, *given):
            draft = super().propose(*given)
            return Draft(draft.tokens, draft.probs.float(), draft.lengths)

    return Single


# What the others return, in a form that will do too.
FORMS = {
    "cache-bytes": float,
    "positions-computed": torch.tensor,
    "total-variation": np.float32,
    "remember-q": lambda draft: (draft.tokens, draft.probs),
    "shift-the-mask": torch.Tensor.tolist,
    "draft-one-row": lambda pair: [torch.tensor(pair[0]), torch.stack(pair[1])],
    "verify-greedily": first_and_tensor,
    "residual": lambda p: p.float().tolist(),
    "cache-lengths": lambda lengths: dict(zip(LENGTH_NAMES, lengths, strict=True)),
    "write-the-loop": torch.tensor,
    "choose-k": np.int64,
    "longest-match": list,
    "draft-length": torch.tensor,
    "medusa-states": first_and_tensor,
    "tree-mask": lambda pair: [torch.tensor(pair[0]).long(), torch.tensor(pair[1])],
    "try-candidates": first_and_tensor,
    "slots-to-keep": torch.tensor,
    "refill-rows": lambda pair: [[[*placed] for placed in pair[0]], torch.tensor(pair[1], dtype=torch.long)],
    "block-slots": torch.tensor,
    "block-ratios": torch.tensor,
    "most-accepted": torch.tensor,
}
RIGHT = {exercise.key: exercise.right for exercise in EXERCISES}


def in_another_form(key):
    """Returns the shipped right answer with its result in another form."""
    return lambda *given: FORMS[key](RIGHT[key](*given))


VARIANTS = {
    "continue-greedily": continue_greedily,
    "accept-one-row": accept_one_row,
    "write-the-verifier": my_verifier,
    "write-the-sampled-loop": my_sampled_loop,
    "write-a-test": my_test,
    "look-up-drafter": single(RIGHT["look-up-drafter"]),
    **{key: in_another_form(key) for key in FORMS},
}
