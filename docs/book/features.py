"""What a drafter should read: four that differ in nothing else, trained alike on one target.

    cd docs && python -m book features [--pair PAIR]

The ablation is that of Li et al. 2024 (EAGLE, arXiv 2401.15077), where the token stands one place after the
feature. All four have the size of a feature layer, begin with the same weights, and see the same sequences in
the same order. The weights are drawn at random, for a copy of the target's would favour those that read
tokens. What one does not read is zero. What it reads is scaled to a mean square of 1, as in EAGLE-3:
features are several times as large as embeddings, and a short training would not make up for that.

The same is done for the correction of a parallel drafter: trained with it, and trained as long without.

It takes minutes, times nothing, and writes `features-PAIR.json` among the recorded measurements. Until then
what came out is kept in the cache folder, and a run that was killed goes on from there.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minispec import SeededRng, Warp, record, verify_greedy, verify_rejection
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter
from minispec.core.model import GPT, GPTConfig, LanguageModel, Tree, View
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers
from minispec.evidence.bench.machine import describe_machine
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.checkpoint import Pair, cache_folder
from minispec.io.files import make_folder_of, read_json, write_json
from minispec.io.heads import target_hash
from minispec.train.dataset import Dataset, gather, stage_key
from minispec.train.heads import RECIPES, HeadRecipe, feature_guesses, make_parallel, train_heads, unroll
from minispec.train.initialise import draw_weights
from minispec.train.recipes import Recipe
from minispec.train.teacher import OPENING, write_sequences

STEPS = 150  # of each training
ROWS = 4  # sequences a step
SEEDS = (0, 1)  # of the weights and of the order
K = 4
TEXTS = 16  # that the target writes, to look at guesses
WIDTH = 256  # tokens of such a text
PROMPTS = 16
NEW_TOKENS = 80
Tell = Callable[[str], None]

# What is read of the embeddings of a token and of the one before it, and of the feature before it: [B, n, D].
READS: dict[str, Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "token": lambda token, before, feature: (token, torch.zeros_like(feature)),
    "feature": lambda token, before, feature: (torch.zeros_like(token), feature),
    "both": lambda token, before, feature: (before, feature),
    "shifted": lambda token, before, feature: (token, feature),
}


class Kind(NamedTuple):
    """How one of the drafters is trained, and then drafts."""

    recipe: HeadRecipe
    drafter: Callable[[Any, Any], Drafter]  #: from what was trained, and the target


class WithTokens:
    """A target whose hidden states are its features, and then the embeddings of what it has read.

    Satisfies `LanguageModel`. So a drafter can be given the token that belongs to a feature. Of whole
    sequences it computes the features once: all trainings read the same ones.
    """

    def __init__(self, model: GPT) -> None:
        """Stands in a target's place; the rest is the target's own."""
        self.model = model
        self.hidden_size = 2 * model.hidden_size
        self._known: dict[bytes, Tensor] = {}  # features [n, D] by the bytes of a sequence

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the target does: [B, n] -> [B, n, 2·D]."""
        if cache is None:
            features = torch.stack([*map(self._features, tokens)])
        else:
            features = self.model.hidden(tokens, cache, tree)
        return torch.cat([features, self.model.embed_tokens(tokens)], dim=-1)

    def _features(self, sequence: Tensor) -> Tensor:
        key = sequence.numpy().tobytes()
        if key not in self._known:
            self._known[key] = self.model.hidden(sequence[None])[0]
        return self._known[key]

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [B, n, 2·D] to logits [B, n, V]."""
        return self.model.head(hidden[..., : self.model.hidden_size])


class Reader(FeatureLayer):
    """A feature layer that reads what one of `READS` makes of token and feature; for a `WithTokens`."""

    def __init__(self, config: GPTConfig, kind: str) -> None:
        """Makes one for a target of these sizes, with weights drawn as those of a model of one layer."""
        super().__init__(config)
        self.config = replace(config, layers=1)
        self.reads = READS[kind]
        draw_weights(self)

    def through(self, tokens: Tensor, features: Tensor, target: GPT, view: View) -> Tensor:
        """Reads tokens [B, n] with what was before them; returns the same of them: [B, n, 2·D] each."""
        token = target.embed_tokens(tokens)
        feature, before = features.to(target.dtype).chunk(2, dim=-1)
        read = [F.rms_norm(x, x.shape[-1:]) for x in self.reads(token, before, feature)]
        x = self.fuse(torch.cat(read, dim=-1))
        return torch.cat([self.norm(self.layers(x, view)), token], dim=-1)


class Uncorrected(ParallelLayers):
    """The layers of a parallel drafter, each of whose tokens is guessed on its own."""

    def correct(self, states: Tensor, before: Tensor) -> Tensor:
        """Changes nothing."""
        return states


def reader(kind: str) -> Kind:
    """Returns how the drafter of one of `READS` is trained."""

    def make(target: GPT, layers: int) -> nn.Module:
        return Reader(target.config, kind)

    return Kind(HeadRecipe(kind, lambda _: 1, make, feature_guesses, STEPS, ROWS), FeatureDrafter)


def masked(name: str, kind: type[ParallelLayers]) -> Kind:
    """Returns how a parallel drafter of one layer is trained; it begins as the target's first."""

    def make(target: GPT, layers: int) -> nn.Module:
        module = make_parallel(target, layers)
        module.__class__ = kind
        return module

    recipe = replace(RECIPES["parallel"], kind=name, number=lambda _: 1, make=make, steps=STEPS, rows=ROWS)
    return Kind(recipe, ParallelDrafter)


def kinds() -> list[Kind]:
    """Returns all that are compared: the four of `READS`, and masks without correction and with it."""
    masks = {"masks": Uncorrected, "masks, corrected": ParallelLayers}
    return [*map(reader, READS), *(masked(name, kind) for name, kind in masks.items())]


@torch.inference_mode()
def acceptance(layer: Reader, target: WithTokens, texts: Tensor) -> list[float]:
    """Returns how often the first guess of a draft is kept at temperature 1, the second, … the K-th.

    A guess is looked at where all before it were kept. Means over the positions of texts [B, n].
    """
    hidden = target.hidden(texts)
    p = target.head(hidden).softmax(-1)
    dists = (target.head(features).softmax(-1) for features in unroll(layer, target, texts, hidden, K))
    return [round(float(torch.minimum(p, q).sum(-1)[:, OPENING:].mean()), 4) for q in dists]


def tokens_per_call(
    target: LanguageModel, drafter: Drafter, prompts: Sequence[list[int]], temperature: float
) -> float:
    """Returns how many tokens a target call emits."""
    verifier = verify_rejection if temperature else verify_greedy
    how: dict[str, Any] = {"warp": Warp(temperature), "rng": SeededRng(0), "max_new_tokens": NEW_TOKENS}
    run = record(target, drafter, prompts, k=K, verifier=verifier, **how)
    return round(run.statistics().tokens_per_target_call, 3)


def corpus_of(pair: Pair) -> tuple[Dataset, Tensor]:
    """Returns the dataset of a pair, and what is trained on [N, W]; ValueError if the pair does not say."""
    if "recipe" not in pair.info:
        raise ValueError(f"{pair.folder}/pair.json does not say how the pair was trained")
    recipe = replace(Recipe.from_json(pair.info["recipe"]), target_stages=(), draft_stages=())
    dataset = gather(recipe, pair.tokenizer)
    return dataset, dataset.sequences[stage_key(recipe.distill_stages[-1])][: STEPS * ROWS]


def compare(pair: Pair, done: Sequence[dict[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """Trains each of `kinds` with each seed, but for those that are done, and yields what came out."""
    dataset, sequences = corpus_of(pair)
    texts = write_sequences(pair.target, dataset.held_out[0][:, :WIDTH], ((TEXTS, 1.0),), seed=0)
    target = WithTokens(pair.target)
    prompts = pair.info["prompts"][:PROMPTS]
    for kind, seed in ((kind, seed) for kind in kinds() for seed in SEEDS):
        one: dict[str, Any] = {"reads": kind.recipe.kind, "seed": seed}
        if any(one.items() <= other.items() for other in done):
            continue
        module = train_heads(kind.recipe, target, sequences, seed, lambda _: None)
        drafter = kind.drafter(module, target)
        calls = {str(t): tokens_per_call(target, drafter, prompts, t) for t in (0, 1)}
        one["tokens_per_target_call"] = calls
        one["acceptance"] = acceptance(module, target, texts) if isinstance(module, Reader) else None
        one["parameters"] = sum(weight.numel() for weight in module.parameters())
        yield one


def record_features(pair: Pair, tell: Tell = print) -> None:
    """Compares what drafters read, and writes what came out; goes on from what a killed run has left."""
    settings = {
        "format": 1,
        "kind": "features",
        "machine": describe_machine(),
        "pair": pair.name,
        "target_sha256": target_hash(pair),
        "steps": STEPS,
        "rows": ROWS,
        "k": K,
        "texts": TEXTS,
        "prompts": PROMPTS,
        "new_tokens": NEW_TOKENS,
    }
    begun = cache_folder() / "runs" / f"features-{pair.name}.json"
    make_folder_of(begun)
    left = read_json(begun) if begun.is_file() else {}
    found = left["drafters"] if left.items() >= settings.items() else []
    for one in compare(pair, found):
        tell(str(one))
        found.append(one)
        write_json(begun, settings | {"drafters": found})
    today = str(datetime.date.today())
    write_json(FOLDER / f"features-{pair.name}.json", settings | {"date": today, "drafters": found})
    begun.unlink()
