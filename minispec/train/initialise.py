"""Initialisation: the weights that training starts from.

To recall whose a fact is, a transformer needs two layers that work together: one marks each token with
those before it, one looks for the same mark (Olsson et al. 2022 call the two an induction head). From random
weights small models find this late or never. Three things at the start make them find it within a few hundred
steps, and cost nothing at run time:

1. All embeddings share one direction. So queries and keys can have a part that is the same for every token,
   and rotary positions turn that part into a preference for a distance.
2. The heads of the first layer use it to look one to four tokens back.
3. In later layers queries start out equal to keys, so that like looks for like.

These are starting points: training moves all of them.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from minispec.core.model import GPT, GPTConfig

DISTANCES = (1, 2, 3, 4)  # tokens back
PEAK = 6.0  # the score of a token at the distance that a head looks for
QUERY_NOISE = 0.3  # what such heads keep of their random weights
KEY_NOISE = 0.09
SLOWEST = 0.1  # radians per token: slower pairs cannot tell neighbours apart


@torch.no_grad()
def draw_weights(model: GPT) -> GPT:
    """Draws weights to start from, by torch's global generator.

    Matrices keep the size of what passes through. Those that write into the stream start at zero, so that at
    first every layer sees the tokens themselves, however deep the model is. Returns the same model.
    """
    config = model.config
    embedding_std = 1.0 if not config.tied else config.width**-0.5
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(weight)
        elif name.startswith("embed_tokens"):
            nn.init.normal_(weight, std=embedding_std)
        elif name.startswith("lm_head"):
            nn.init.normal_(weight, std=0.02)
        elif weight.dim() == 2:
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    if config.layers > 1:  # a single layer has no later one to leave marks for
        prepare_binding(dict(model.named_parameters()), embedding_std, config)
    return model


def prepare_binding(weights: Mapping[str, Tensor], embedding_std: float, config: GPTConfig) -> None:
    """Prepares the heads for binding: the three things that the module's docstring names.

    The weights, [out, in] each, are changed in place; the embeddings have the standard deviation
    `embedding_std`.
    """
    shared = torch.randn(config.width)
    weights["embed_tokens.weight"].add_(shared * embedding_std)  # [V, D]: as long as what is a token's own
    for layer in range(config.layers):
        q, k = (weights[f"layers.{layer}.self_attn.{name}.weight"] for name in ("q_proj", "k_proj"))
        if layer == 0:
            look_back(q, k, shared, config)
        else:
            heads = k.view(config.kv_heads, 1, config.head_dim, config.width)
            q.copy_(heads.expand(-1, config.heads // config.kv_heads, -1, -1).reshape(q.shape))


def look_back(q: Tensor, k: Tensor, shared: Tensor, config: GPTConfig) -> None:
    """Makes the heads of a layer look a fixed number of tokens back.

    A key holds the vector u wherever it stands. A query holds u turned back by d positions, so that after the
    rotary turn the two agree where the key stands d tokens before the query (Su et al. 2021, equation 16).
    q is [D, D], k [kv_heads · head_dim, D]; shared, [D], is the direction that all embeddings share.
    """
    exponents = torch.arange(0, config.head_dim, 2) / config.head_dim
    frequency = config.rope_theta**-exponents  # [head_dim / 2]
    u = (frequency > SLOWEST).float()
    # After the norm the shared part is 1/√2 of a stream of size √D.
    scale = (PEAK * config.head_dim**0.5 / u.sum()) ** 0.5 / (config.width / 2) ** 0.5
    direction = shared / shared.norm()
    q *= QUERY_NOISE
    k *= KEY_NOISE
    keys = torch.cat([u, torch.zeros_like(u)]) * scale
    k += torch.outer(keys.repeat(config.kv_heads), direction)
    for head in range(config.heads):
        angle = -frequency * DISTANCES[head % len(DISTANCES)]
        query = torch.cat([u * angle.cos(), u * angle.sin()]) * scale
        q[head * config.head_dim : (head + 1) * config.head_dim] += torch.outer(query, direction)
