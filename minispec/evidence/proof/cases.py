"""Settings of the loop whose every branch can be enumerated, and the drafters that they can have."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.loop import speculate
from minispec.core.model import GPT, LanguageModel
from minispec.core.records import Finish, Round
from minispec.core.rng import Rng
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.drafters.adaptive import AdaptiveDrafter, RunningAcceptance
from minispec.drafters.costs import Costs
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import EarlyExitGPT, ExitDrafter
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.medusa_tree import MedusaTreeDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers
from minispec.drafters.stopping import FixedStop, LearnedStop, StoppingDrafter
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
from minispec.native.backend import TORCH, Backend
from minispec.native.drafter import NativeDrafter
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

Text = tuple[int, ...]

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
    drafter: Callable[[LanguageModel, Warp | None], Drafter] = ModelDrafter  #: from the draft and its warp
    rows: int = 512  #: how many branches run at once; 1 where a row's drafts depend on the others
    waiting: bool = False  #: whether only two of three rows run at once, and the others wait
    rng: type[EnumeratingRng] = EnumeratingRng  #: what enumerates it

    @property
    def drafts_all(self) -> bool:
        """Whether K tokens are drafted wherever the remaining budget allows; else it may be fewer."""
        return self.drafter in (ModelDrafter, NativeDrafter)

    @property
    def drafts_with(self) -> str:
        """What drafts, by its name on the command line: `model` wherever it is the draft model."""
        if self.drafter in TREES:
            return "tree"
        return next((name for name, make in OTHERS.items() if make is self.drafter), "model")

    @property
    def context(self) -> int:
        """The longest text that both models hold."""
        return min(self.target.max_length, self.draft.max_length)

    def rounds(self, prompts: Sequence[Sequence[int]], rng: Rng) -> Iterator[Round]:
        """Runs the shipped loop in this setting, on any prompts."""
        return speculate(
            self.target,
            self.drafter(self.draft, self.draft_warp),
            prompts,
            k=self.k,
            verifier=self.verifier,
            max_new_tokens=self.max_new_tokens,
            warp=self.warp,
            rng=rng,
            eos=self.eos,
            at_once=-(-2 * len(prompts) // 3) if self.waiting else None,
        )

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

        def model(own: LanguageModel) -> LanguageModel:
            if isinstance(own, EarlyExitGPT):
                return NativeExitGPT(NativeGPT(own.model), own.exit)
            return backend.model(own) if isinstance(own, GPT) else own

        def warp(own: Warp) -> Warp:
            return backend.warp(own.temperature, own.top_k, own.top_p)

        drafts, shares = self.drafts_with, isinstance(self.target, EarlyExitGPT)
        target = self.target if drafts in ("tree", "medusa-tree") else model(self.target)
        rules = {verify_greedy: backend.rules["greedy"], verify_rejection: backend.rules["rejection"]}
        return replace(
            self,
            name=f"{self.name}, {backend.name}",
            target=target,
            draft=target if shares else model(self.draft) if drafts == "model" else self.draft,
            warp=warp(self.warp),
            draft_warp=None if self.draft_warp is None else warp(self.draft_warp),
            verifier=rules.get(self.verifier, self.verifier),
            drafter=backend.drafter if self.drafter is ModelDrafter else self.drafter,
            rng=NativeEnumeratingRng,
        )


# Drafters that change K within a few rounds. They are the shipped classes. What they start from is chosen so
# that one accepted or rejected token makes a difference: costs are made up, and a first guess weighs little.


def automatic(model: LanguageModel, warp: Warp | None) -> AdaptiveDrafter:
    """Returns a drafter that picks its K, from 0 to 3, by what the last rounds accepted."""
    learns = RunningAcceptance(3, prior=0.6, weight=0.5, memory=0.6)
    return AdaptiveDrafter(ModelDrafter(model, warp), COSTS, most=3, acceptance=learns, retry=1, pace=1)


def stopping(model: LanguageModel, warp: Warp | None) -> StoppingDrafter:
    """Returns a drafter that stops where all so far would be accepted with a probability below 60%."""
    return StoppingDrafter(model, FixedStop(0.6), warp)


def learning_to_stop(model: LanguageModel, warp: Warp | None) -> StoppingDrafter:
    """Returns a drafter that stops by what past rounds taught it."""
    return StoppingDrafter(model, LearnedStop(COSTS, weight=0.5, memory=0.6, retry=1), warp)


def ngram(model: LanguageModel, warp: Warp | None) -> NgramDrafter:
    """Returns a drafter that looks up the last two tokens or the last one; the model only says V."""
    return NgramDrafter(model.vocab_size, longest=2)


def suffix(model: LanguageModel, warp: Warp | None) -> SuffixDrafter:
    """Returns a drafter that looks up the longest end of the text, and drafts as many tokens as it has."""
    return SuffixDrafter(model.vocab_size, per_match=1.0)


def exit(model: LanguageModel, warp: Warp | None) -> ExitDrafter:
    """Returns a drafter that leaves the target early; the model is that target, with its exit."""
    assert isinstance(model, EarlyExitGPT)
    return ExitDrafter(model, warp)


def medusa(model: LanguageModel, warp: Warp | None) -> MedusaDrafter:
    """Returns a drafter of two heads with random weights on the target, which the model is."""
    assert isinstance(model, GPT)
    return MedusaDrafter(with_normals(Medusa(model.config.width, model.vocab_size, 2), 7), model, warp)


def eagle(model: LanguageModel, warp: Warp | None) -> FeatureDrafter:
    """Returns a drafter of a layer with random weights on the features of the target, which the model is."""
    assert isinstance(model, GPT)
    return FeatureDrafter(with_normals(FeatureLayer(model.config), 8), model, warp)


def parallel(model: LanguageModel, warp: Warp | None) -> ParallelDrafter:
    """Returns a drafter of masks, with a layer of random weights, on the target, which the model is."""
    assert isinstance(model, GPT)
    return ParallelDrafter(with_normals(ParallelLayers(model.config), 9), model, warp)


def tree(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of a tree: three candidates for the first position, two after the first of them."""
    return grown(model, warp, without_replacement)


def repeating_tree(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of the same tree, where candidates of one position may be the same."""
    return grown(model, warp, with_replacement)


def fixed_tree(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of the same tree, whose candidates are the most probable ones."""
    return grown(model, warp, most_probable)


def greedy_tree(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of the same tree, where one candidate is drawn and another is the most probable."""
    return grown(model, warp, greedy_drafting(2))


def two_branches(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of a tree: two candidates for the first position, and one after each of them."""
    return grown(model, warp, without_replacement, (0, 0, 1, 2))


def one_branch(model: LanguageModel, warp: Warp | None) -> TreeDrafter:
    """Returns a drafter of a tree that is a chain."""
    return grown(model, warp, without_replacement, (0, 1, 2))


def grown(
    model: LanguageModel, warp: Warp | None, choice: Choice, parents: Sequence[int] = (0, 0, 0, 1, 1)
) -> TreeDrafter:
    """Returns a drafter of a tree on a GPT."""
    assert isinstance(model, GPT)
    return TreeDrafter(model, parents, choice, warp)


def medusa_tree(model: LanguageModel, warp: Warp | None) -> MedusaTreeDrafter:
    """Returns a drafter of a tree of four tokens by two heads with random weights, on the target."""
    assert isinstance(model, GPT)
    heads = with_normals(Medusa(model.config.width, model.vocab_size, 2), 7)
    return MedusaTreeDrafter(heads, model, (0, 0, 1, 1), warp=warp)


TREES = (tree, repeating_tree, fixed_tree, greedy_tree, two_branches, one_branch)

# By the names of the command line, what drafts otherwise than with the draft model.
OTHERS: dict[str, Callable[[LanguageModel, Warp | None], Drafter]] = {
    "ngram": ngram,
    "suffix": suffix,
    "exit": exit,
    "medusa": medusa,
    "eagle": eagle,
    "parallel": parallel,
    "tree": tree,
    "medusa-tree": medusa_tree,
}
