"""Assignment 2, solved from its statement."""

import torch

PARAMETERS: dict = {}


def divergence(kind, target_logits, draft_logits):
    """KL(p ‖ q), KL(q ‖ p) or TV; the target is a constant."""
    log_p = target_logits.detach().log_softmax(-1)
    log_q = draft_logits.log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()
    if kind == "kl":
        return (p * (log_p - log_q)).sum(-1).mean()
    if kind == "reverse":
        return (q * (log_q - log_p)).sum(-1).mean()
    return (p - q).abs().sum(-1).mean() / 2


@torch.no_grad()
def write(policy, target, draft, prompts, tokens):
    """Token after token, from the model that the policy names."""
    texts = prompts
    model = target if policy == "off" else draft
    for _ in range(tokens):
        following = model(texts)[:, -1].softmax(-1).multinomial(1)
        texts = torch.cat([texts, following], 1)
    return texts


@torch.no_grad()
def acceptance(target, draft, texts, prompt):
    """Both distributions where the token after a prefix is decided."""
    p, q = (model(texts)[:, prompt - 1 : -1].softmax(-1) for model in (target, draft))
    return float(torch.minimum(p, q).sum(-1).mean())


def distil(kind, policy, target, draft, prompts, tokens, steps):
    """New texts in each step; the loss is over what was written."""
    optimizer = torch.optim.Adam(draft.parameters(), lr=0.1)
    for _ in range(steps):
        texts = write(policy, target, draft, prompts, tokens)
        with torch.no_grad():
            p = target(texts)[:, prompts.shape[1] - 1 : -1]
        loss = divergence(kind, p, draft(texts)[:, prompts.shape[1] - 1 : -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
