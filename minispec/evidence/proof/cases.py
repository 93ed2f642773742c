"""Settings of the loop whose every branch can be enumerated, and the drafters that they can have."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import torch

from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.loop import speculate
from minispec.core.model import GPT, LanguageModel
from minispec.core.records import Finish, Round
from minispec.core.rng import Rng
from minispec.core.verify import Verifier, verify_rejection
from minispec.core.warp import Warp
from minispec.drafters.adaptive import AdaptiveDrafter, RunningAcceptance
from minispec.drafters.choice import ChoosingDrafter, MatchAcceptance
from minispec.drafters.costs import Costs
from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.eagle3 import EAGLE3_CHOICE, Eagle3Layer
from minispec.drafters.entry import Parts
from minispec.drafters.exit import EarlyExitGPT, ExitDrafter
from minispec.drafters.medusa import Medusa, MedusaTreeDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelLayers
from minispec.drafters.registry import DRAFTERS
from minispec.drafters.stopping import StoppingDrafter
from minispec.drafters.suffix import SuffixDrafter
from minispec.drafters.tree import (
    Choice,
    TreeDrafter,
    greedy_drafting,
    most_probable,
    with_replacement,
    without_replacement,
)
from minispec.evidence.proof.enumeration import EnumeratingRng, NativeEnumeratingRng
from minispec.evidence.proof.models import with_normals
from minispec.native.backend import NATIVE, TORCH, Backend
from minispec.native.drafter import NativeDrafter, NativeTreeDrafter
from minispec.native.drafters import target_for
from minispec.native.exit import NativeExitGPT
from minispec.native.heads import NativeMedusa, NativeMedusaTreeDrafter
from minispec.native.model import NativeGPT

Text = tuple[int, ...]
Make = Callable[[Any, Warp | None], Drafter]  # from a model, and a warp or None for the target's

MakeNative = Callable[["Case", NativeGPT], Drafter]  # for a native target

HEADS_SHAPE = (0, 0, 1, 1)  # parents of a tree on heads
NATIVE_SHAPES = {"tree": (0, 0, 0, 1, 1), "two_branches": (0, 0, 1, 2), "one_branch": (0, 1, 2)}
COSTS = Costs(t_draft=0.22, t_target={1: 1.0, 2: 1.03, 3: 1.06, 4: 1.09})


@dataclass(frozen=True)
class Case:
    """One setting of the loop, to be enumerated or sampled."""

    name: str  #: for people
    target: LanguageModel  #: the model whose distribution the output must have
    draft: LanguageModel  #: the model that guesses
    prompts: tuple[Text, ...]  #: each becomes a start; branches of all run together, in ragged batches
    k: int  #: K
    max_new_tokens: int  #: the cap
    warp: Warp = field(default_factory=Warp)  #: of the target, and of the draft unless it has its own
    eos: tuple[int, ...] = ()  #: ids that end a row
    verifier: Verifier = verify_rejection  #: the rule
    draft_warp: Warp | None = None  #: the draft's own warp, or None
    drafter: Make = ModelDrafter  #: from the draft and its warp
    rows: int = 512  #: how many branches run at once; 1 where a row's drafts depend on the others
    waiting: bool = False  #: whether only two of three rows run at once, and the others wait
    rng: type[EnumeratingRng] = EnumeratingRng  #: what enumerates it

    @property
    def drafts_all(self) -> bool:
        """Whether K tokens are drafted wherever the remaining budget allows; else it may be fewer."""
        return self.drafter in (ModelDrafter, NativeDrafter)

    @property
    def drafter_name(self) -> str:
        """Its name in `ENUMERATED`, or `model`."""
        return next((name for name, make in ENUMERATED.items() if make is self.drafter), "model")

    @property
    def drafts_with(self) -> str:
        """What drafts, by its name on the command line: `model` wherever it is the draft model."""
        if self.drafter_name in TREE_SHAPES:
            return "tree"
        return self.drafter_name if self.drafter_name in DRAFTERS else "model"

    @property
    def context(self) -> int:
        """The longest text that both models hold."""
        return min(self.target.max_length, self.draft.max_length)

    def rounds(
        self, prompts: Sequence[Sequence[int]], rng: Rng, loop: Callable[..., Iterator[Round]] = speculate
    ) -> Iterator[Round]:
        """Runs the shipped loop, or a backend's, in this setting, on any prompts."""
        drafter = self.make_drafter()
        return loop(
            target_for(drafter, self.target),
            drafter,
            prompts,
            k=self.k,
            verifier=self.verifier,
            max_new_tokens=self.max_new_tokens,
            warp=self.warp,
            rng=rng,
            eos=self.eos,
            batch_size=-(-2 * len(prompts) // 3) if self.waiting else None,
        )

    def make_drafter(self) -> Drafter:
        """Makes the drafter; on a native target one that drafts in C++, if there is one."""
        make = NATIVE_DRAFTERS.get(self.drafter_name)
        if make is None or not isinstance(self.target, NativeGPT):
            return self.drafter(self.draft, self.draft_warp)
        return make(self, self.target)

    def finish(self, prompt: Sequence[int], tokens: Text) -> Finish | None:
        """Says why a text ends here, if it does: an ending token first, then the context, then the cap."""
        if tokens and tokens[-1] in self.eos:
            return "eos"
        if len(prompt) + len(tokens) >= self.context:
            return "context"
        return "cap" if len(tokens) >= self.max_new_tokens else None

    def on(self, backend: Backend) -> "Case":
        """Returns the case with a backend's GPTs, warps, rule and drafter; table models stay as they are."""
        if backend is TORCH:
            return self

        def model(original: LanguageModel) -> LanguageModel:
            if isinstance(original, EarlyExitGPT):
                return NativeExitGPT(NativeGPT(original.model), original.exit)
            return backend.model(original) if isinstance(original, GPT) else original

        def warp(original: Warp) -> Warp:
            return backend.warp(original.temperature, original.top_k, original.top_p)

        drafts_itself = self.drafts_with in ("model", "auto") or self.drafter_name in NATIVE_SHAPES
        early_exit = isinstance(self.target, EarlyExitGPT)
        target = model(self.target)
        verifiers = backend.trees if self.verifier.takes_tree else backend.verifiers
        return replace(
            self,
            name=f"{self.name}, {backend.name}",
            target=target,
            draft=target if early_exit else model(self.draft) if drafts_itself else self.draft,
            warp=warp(self.warp),
            draft_warp=None if self.draft_warp is None else warp(self.draft_warp),
            verifier=verifiers.get(self.verifier.name, self.verifier),
            drafter=backend.drafter if self.drafter is ModelDrafter else self.drafter,
            rng=NativeEnumeratingRng,
        )


def heads(model: GPT) -> Medusa:
    """Returns two heads with random weights."""
    return with_normals(Medusa(model.config.width, model.vocab_size, 2), 7)


def every_other(model: GPT) -> Eagle3Layer:
    """Returns a layer that reads up to three streams, and knows every other id."""
    taps = range(1, min(model.config.layers, 3) + 1)
    return Eagle3Layer(model.config, taps, torch.arange(0, model.vocab_size, 2))


# Random weights for the drafters that are trained on a target.
TRAINED: dict[str, Callable[[GPT], Any]] = {
    "medusa": heads,
    "eagle": lambda model: with_normals(FeatureLayer(model.config), 8),
    "eagle3": lambda model: with_normals(every_other(model), 8),
    "parallel": lambda model: with_normals(ParallelLayers(model.config), 9),
}
REGISTERED = (*TRAINED, EAGLE3_CHOICE.name)


def registered(name: str) -> Make:
    """Returns what makes a registered drafter, with random weights, on a model that is also the target."""
    return lambda model, warp: DRAFTERS[name].make(
        Parts(model, model, model, lambda kind: TRAINED[kind](model), warp, COSTS), COSTS.most
    )


def native_registered(name: str) -> MakeNative:
    """Returns what makes the same drafter on a native target."""

    def make(case: Case, target: NativeGPT) -> Drafter:
        gpt = cast(GPT, case.draft)  # the target, in torch
        return NATIVE.makers[name](
            Parts(target, target, gpt, lambda kind: TRAINED[kind](gpt), case.draft_warp, COSTS), COSTS.most
        )

    return make


def native_heads(case: Case, target: NativeGPT) -> NativeMedusaTreeDrafter:
    """Makes a drafter of a tree on heads, on a native target."""
    made = NativeMedusa(heads(cast(GPT, case.draft)), target)
    return NativeMedusaTreeDrafter(made, target, HEADS_SHAPE, warp=case.draft_warp)


def native_grown(parents: Sequence[int]) -> MakeNative:
    """Returns what grows a tree natively, of candidates that are drawn without replacement."""
    return lambda case, target: NativeTreeDrafter(cast(NativeGPT, case.draft), parents, case.draft_warp)


def grown(choice: Choice, parents: Sequence[int] = NATIVE_SHAPES["tree"]) -> Make:
    """Returns what grows a tree: by default three candidates at first, and two after the first of them."""
    return lambda model, warp: TreeDrafter(model, parents, choice, warp)


TREE_SHAPES: dict[str, Make] = {
    "tree": grown(without_replacement),
    "repeating_tree": grown(with_replacement),
    "fixed_tree": grown(most_probable),
    "greedy_tree": grown(greedy_drafting(2)),  # one candidate is drawn, and another is the most probable
    **{name: grown(without_replacement, NATIVE_SHAPES[name]) for name in ("two_branches", "one_branch")},
}


def automatic(model: LanguageModel, warp: Warp | None) -> AdaptiveDrafter:
    """Returns what changes K within a few rounds.

    What it starts from is chosen so that one accepted or rejected token makes a difference: costs are made
    up, and a first guess weighs little.
    """
    acceptance = RunningAcceptance(3, prior=0.6, weight=0.5, memory=0.6)
    return AdaptiveDrafter(ModelDrafter(model, warp), COSTS, 3, acceptance, retry=1, pace=1)


def choice(model: LanguageModel, warp: Warp | None) -> ChoosingDrafter:
    """Returns what changes the drafter, too, within a few rounds, and starts likewise."""
    look_ups = NgramDrafter(model.vocab_size, longest=2), SuffixDrafter(model.vocab_size, per_match=1.0)
    acceptance = partial(MatchAcceptance, prior=(0.3, 0.6), weight=0.5, memory=0.6)
    return ChoosingDrafter(look_ups, COSTS, automatic(model, warp), 3, acceptance)


# What drafts, by name.
ENUMERATED: dict[str, Make] = {
    "automatic": automatic,
    "auto": choice,
    "stopping": lambda model, warp: StoppingDrafter(model, 0.6, warp),
    "ngram": lambda model, warp: NgramDrafter(model.vocab_size, longest=2),
    "suffix": lambda model, warp: SuffixDrafter(model.vocab_size, per_match=1.0),
    "exit": ExitDrafter,
    **{name: registered(name) for name in REGISTERED},
    "medusa-tree": lambda model, warp: MedusaTreeDrafter(heads(model), model, HEADS_SHAPE, warp=warp),
    **TREE_SHAPES,
}
NATIVE_DRAFTERS: dict[str, MakeNative] = {
    **{name: native_registered(name) for name in REGISTERED},
    "medusa-tree": native_heads,
    **{name: native_grown(parents) for name, parents in NATIVE_SHAPES.items()},
}
