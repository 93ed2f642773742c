"""EAGLE-3 for a target: texts that the target writes for itself, and a layer that learns from them.

Whoever trains a drafter for somebody else's model has none of its texts. But the model writes them: given the
beginning of a user's message it goes on with the message, and then it answers (Xu et al. 2024, Magpie).
The layer learns the target's own distributions along the answers, on true features and on those that it has
predicted itself, as it will draft (Li et al. 2025, EAGLE-3, section 3.2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import nan
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minispec.core.batch import Request
from minispec.core.model import GPT, Block
from minispec.core.rng import SEEDS
from minispec.drafters.eagle3 import Eagle3Layer, JoinedBlock, TappedGPT
from minispec.io.chat import mark_of, render_chats
from minispec.io.files import read_json, read_table, write_json
from minispec.io.speculators import usual_taps
from minispec.io.tokenizer import Tokenizer
from minispec.native.backend import Models
from minispec.native.eagle3 import NativeTappedGPT
from minispec.native.model import NativeGPT
from minispec.train.heads import decayed_mean, one_later, unrolled_views
from minispec.train.training import Progress, Reporter, State, autocast, descend, divergence

FIRST_WORDS = read_table(__file__, "eagle3.toml")["first_words"]
TEMPERATURE = 0.9  # of messages; answers are the most probable ones
MESSAGE = 36  # tokens of a message, at most
ANSWER = 200  # tokens of an answer, at most
ROWS = 64  # texts that are written at once
MESSAGES = 256  # of a batch of texts
LEAST = 4  # tokens of a message


class Text(NamedTuple):
    """A text that a target has written."""

    ids: list[int]  #: its tokens
    begin: int  #: how many of them come before the answer


@dataclass(frozen=True)
class Eagle3Recipe:
    """How a layer is trained for a target."""

    tokens: int = 300_000  #: of answers
    steps: int = 800  #: of the optimizer
    batch: int = 1_500  #: tokens of a step, padding counted
    vocab: int = 8_192  #: ids that are drafted
    ffn: int = 1_536  #: inner width of the layer's feed-forward network
    rate: float = 2e-3  #: the highest learning rate (AdamW)
    unrolled: int = 3  #: tokens of a draft that it learns to guess; in the first fifth of the steps only one
    dropout: float = 0.1  #: of features and embeddings
    seed: int = 0  #: of texts, initialisation and order

    def scaled(self, scale: float) -> Self:
        """Returns a longer or a shorter training."""
        return replace(
            self, tokens=max(1, round(self.tokens * scale)), steps=max(1, round(self.steps * scale))
        )


# ---- Texts


def decode(
    models: Models,
    prompts: Sequence[Sequence[int]],
    most: int,
    temperature: float,
    seed: int,
    ends: Sequence[int],
) -> list[list[int]]:
    """Lets a target go on with prompts, up to an end or so many tokens: the new ones, of each prompt."""
    backend = models.backend
    requests = [Request(prompt, most, frozenset(ends)) for prompt in prompts]
    texts: list[list[int]] = [[] for _ in prompts]
    rounds = backend.observe(
        models.target,
        None,
        requests,
        k=0,
        verifier=backend.verifier("rejection"),
        warp=backend.warp(temperature),
        rng=backend.rng(seed),
        batch_size=min(ROWS, len(prompts)),
    )
    for r in rounds:
        for prompt_id, emitted in zip(r.prompt_ids, r.emitted, strict=True):
            texts[prompt_id] += emitted
    return texts


def write_prompts(models: Models, tokenizer: Tokenizer, seed: int) -> list[list[int]]:
    """Lets a target write messages of a user, in its chat template; without one, what follows any token."""
    generator = torch.Generator().manual_seed(seed)
    if tokenizer.config.chat_template is None:
        tokens = torch.randint(tokenizer.vocab_size, (MESSAGES, 1), generator=generator).tolist()
        sampled = decode(models, tokens, MESSAGE, TEMPERATURE, seed, ())
        return [[*token, *text] for token, text in zip(tokens, sampled, strict=True)]
    mark = mark_of("message")
    before, _, after = render_chats(tokenizer, [[{"role": "user", "content": mark}]])[0].partition(mark)
    rest = tokenizer.encode_rendered(after)
    words = torch.randint(len(FIRST_WORDS), (MESSAGES,), generator=generator).tolist()
    beginnings = [tokenizer.encode_rendered(before + FIRST_WORDS[word]) for word in words]
    messages = decode(models, beginnings, MESSAGE, TEMPERATURE, seed, tokenizer.ends)
    return [
        [*beginning, *message[:-1], *rest]
        for beginning, message in zip(beginnings, messages, strict=True)
        if len(message) > LEAST and message[-1] in tokenizer.ends
    ]


def write_batch(models: Models, tokenizer: Tokenizer, seed: int) -> list[Text]:
    """Lets a target write prompts, and an answer to each."""
    prompts = write_prompts(models, tokenizer, seed)
    answers = decode(models, prompts, ANSWER, 0.0, 0, tokenizer.ends)
    return [Text([*prompt, *answer], len(prompt)) for prompt, answer in zip(prompts, answers, strict=True)]


def write_texts(
    models: Models, tokenizer: Tokenizer, recipe: Eagle3Recipe, run: Path, report: Reporter
) -> list[Text]:
    """Lets a target write texts with answers of so many tokens; fewer, if it only repeats itself.

    run: a folder that keeps each batch, so that a killed run goes on.
    """
    started = perf_counter()
    run.mkdir(parents=True, exist_ok=True)
    texts: dict[tuple[int, ...], Text] = {}
    written = 0
    for number in count():
        known = len(texts)
        path = run / f"texts-{number}.json"
        if not path.is_file():
            batch_seed = (1_000 * recipe.seed + number) % SEEDS
            write_json(path, {"texts": write_batch(models, tokenizer, batch_seed)})
        for ids, begin in read_json(path)["texts"]:
            text = Text(ids, begin)
            if texts.setdefault(tuple(ids), text) is text:
                written += len(ids) - begin
        done = min(written, recipe.tokens)
        report(Progress("texts", done, recipe.tokens, nan, perf_counter() - started))
        if written >= recipe.tokens or len(texts) == known:
            break
    return [*texts.values()]


# ---- What the layer learns from


@torch.no_grad()
def read_states(tapped: TappedGPT, texts: Sequence[Text], report: Reporter) -> list[Tensor]:
    """Reads texts: streams at the taps and the last hidden state, [n, (taps + 1) · D] each, in bfloat16."""
    started = perf_counter()
    states = []
    for text in texts:
        states.append(tapped.hidden(torch.tensor([text.ids]))[0].bfloat16())
        report(Progress("features", len(states), len(texts), nan, perf_counter() - started))
    return states


def frequent_ids(texts: Sequence[Text], vocab_size: int, most: int) -> Tensor:
    """Returns the most frequent ids of answers, ascending, and the first others if there are few: [ids]."""
    counts = torch.zeros(vocab_size)
    for text in texts:
        counts += torch.bincount(torch.tensor(text.ids[text.begin :]), minlength=vocab_size)
    return counts.sort(descending=True, stable=True).indices[:most].sort().values


def grouped(texts: Sequence[Text], recipe: Eagle3Recipe) -> list[list[int]]:
    """Returns which texts each step reads: of about one length, and a batch of tokens together."""
    generator = torch.Generator().manual_seed(recipe.seed)
    groups: list[list[int]] = []
    while len(groups) < recipe.steps:
        noise = 20 * torch.rand(len(texts), generator=generator)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i].ids) + float(noise[i]))
        epoch: list[list[int]] = [[]]
        for i in order:
            together = [*epoch[-1], i]
            if epoch[-1] and len(together) * max(len(texts[j].ids) for j in together) > recipe.batch:
                epoch.append([])
            epoch[-1].append(i)
        groups += [epoch[i] for i in torch.randperm(len(epoch), generator=generator).tolist()]
    return groups[: recipe.steps]


class Batch(NamedTuple):
    """Texts of a step, padded: tokens [B, n], each with the streams before it, and what follows."""

    tokens: Tensor  #: [B, n], from each text's second token on
    streams: Tensor  #: [B, n, taps · D], before each of them
    hidden: Tensor  #: [B, n, D], of the target after each of them
    learned: Tensor  #: [B, n] bool, after which of them the layer learns what follows


def batch_of(texts: Sequence[Text], states: Sequence[Tensor], width: int) -> Batch:
    """Pads texts, and their states [n, (taps + 1) · D]; width: D."""
    padded = pad_sequence([*states], batch_first=True)  # [B, n + 1, …]
    tokens = pad_sequence([torch.tensor(text.ids) for text in texts], batch_first=True)
    at = torch.arange(1, tokens.shape[1])
    begins, ends = (torch.tensor(x)[:, None] for x in ([t.begin for t in texts], [len(t.ids) for t in texts]))
    learned = (at >= begins - 1) & (at < ends - 1)
    return Batch(tokens[:, 1:], padded[:, :-1, :-width], padded[:, 1:, -width:], learned)


# ---- Training


def make_eagle3(target: GPT, ids: Tensor, ffn: int) -> Eagle3Layer:
    """Returns a layer that begins with the weights of the target's last one, on its last stream alone.

    ids: [ids], those of the target that it is to know.
    """
    width = target.config.width
    layer = Eagle3Layer(replace(target.config, ffn=ffn), usual_taps(target.config.layers), ids).float()
    last = cast(Block, target.layers[-1])
    block = cast(JoinedBlock, layer.layers[0])
    mine, theirs = block.self_attn, last.self_attn
    inner = min(ffn, target.config.ffn)
    with torch.no_grad():
        layer.fc.weight.normal_(0, 0.002)
        layer.fc.weight[:, -width:] += torch.eye(width)
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(mine, name).weight.normal_(0, 0.02)
            weight[:, width:] = getattr(theirs, name).weight
        mine.o_proj.weight.copy_(theirs.o_proj.weight)
        for name in ("gate_proj", "up_proj"):
            getattr(block.mlp, name).weight[:inner] = getattr(last.mlp, name).weight[:inner]
        block.mlp.down_proj.weight[:, :inner] = last.mlp.down_proj.weight[:, :inner]
        block.hidden_norm.weight.copy_(last.input_layernorm.weight)
        block.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
        layer.norm.weight.copy_(0.3 * target.norm.weight)  # at first unsure
        layer.lm_head.weight.copy_(target.lm_head.weight[ids])
    layer.lm_head.requires_grad_(False)  # the target's, and it stays so
    return layer


def guesses(
    layer: Eagle3Layer, target: GPT, batch: Batch, steps: int, dropout: float
) -> Iterator[tuple[Tensor, Tensor]]:
    """Drafts so many tokens along texts, from everywhere at once (see `train/heads.py`).

    Yields for each token of a draft its logits [m, ids], and which m positions they are for: [B, n] bool.
    """
    n = batch.tokens.shape[1]
    embedded = F.dropout(target.embed_tokens(batch.tokens), dropout)
    features = layer.fc(F.dropout(batch.streams, dropout))
    learned = batch.learned
    for view in unrolled_views(target, n, steps):
        after = layer(embedded, features, view)
        yield layer.logits(after[learned]), learned
        features = one_later(after)
        learned = batch.learned & F.pad(learned[:, :-1], (1, 0))


def tapped_for(target: GPT, models: Models) -> TappedGPT:
    """Returns a target that is read at the usual taps, natively where `models` are."""
    taps = usual_taps(target.config.layers)
    native = models.target
    return NativeTappedGPT(native, taps) if isinstance(native, NativeGPT) else TappedGPT(target, taps)


def train_eagle3(
    target: GPT, tapped: TappedGPT, texts: Sequence[Text], recipe: Eagle3Recipe, run: Path, report: Reporter
) -> Eagle3Layer:
    """Trains a layer on texts of its target, which is not changed; a killed run goes on.

    tapped: the same target, on any backend; run: where the state of the training is kept. The layer comes in
    float32, in evaluation mode.
    """
    torch.manual_seed(recipe.seed)
    ids = frequent_ids(texts, target.vocab_size, min(recipe.vocab, target.vocab_size))
    layer = make_eagle3(target, ids, recipe.ffn).train()
    states = read_states(tapped, texts, report)
    width = target.config.width
    # Some channels of the streams are a hundred times as large as others.
    answers = torch.cat([x[text.begin :, :-width] for text, x in zip(texts, states, strict=True)][:1000])
    scale = 1 / answers.float().std(0).clamp(min=1e-3)
    groups = grouped(texts, recipe)
    head = target.lm_head.weight[ids].float()
    learned = [weight for weight in layer.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.01)

    def losses(step: int) -> list[Tensor]:
        chosen = groups[step]
        batch = batch_of([texts[i] for i in chosen], [states[i] for i in chosen], width)
        batch = batch._replace(streams=batch.streams * scale)
        unrolled = 1 if step < recipe.steps / 5 else recipe.unrolled
        torch.manual_seed(
            recipe.seed + step
        )  # of dropout: a run that goes on draws as one that was not killed
        with autocast(target.device):
            wanted = F.linear(batch.hidden.float(), head)
            parts = [
                divergence(wanted[at][None], logits[None])
                for logits, at in guesses(layer, target, batch, unrolled, recipe.dropout)
            ]
        return [decayed_mean(parts)]

    state = State(run, f"{recipe}, {len(texts)} texts", layer, [(optimizer, recipe.rate)])
    descend("eagle3", layer, state.optimizers, recipe.steps, losses, report, state)
    with torch.no_grad():
        layer.fc.weight *= scale
    return layer.eval().requires_grad_(False)
