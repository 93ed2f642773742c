"""Decisions of other projects as verifiers: each is called unchanged, as its own project calls it.

Some take a row at a time, and logits; what they return are ids. So an adapter makes their arguments of a
draft, and a verdict of the ids. They draw from the generators of torch or of Python: most are called with a
`torch` whose random functions ask an `Rng`. So they follow a script, each of their branches can be taken, and
what they emit is known exactly.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minispec.core.records import Draft
from minispec.core.rng import RoundPlan, RoundRng
from minispec.core.verify import Decide
from minispec.evidence.checker.adapter import verdict_of
from minispec.evidence.proof.enumeration import Uniform
from minispec.verifiers.tree import parents_of

LIBRARY = "transformers.generation"
IMPORTED = sys.stdlib_module_names | {"torch", "triton"}  # by files that are loaded
EmitRow = Callable[[Draft, Tensor, RoundRng], Sequence[int] | Tensor]  # one row's draft, p [1, K+1, V]: ids


def load_file(path: Path, **given: Any) -> Any:
    """Runs a file of a project, unchanged, and returns it as a module; the project need not be importable.

    What is `given` for the last name of a module is what the file imports, and a global name of the result.
    All else but Python's own modules, torch and triton is a stand-in.
    """

    def import_given(name, space=None, local=None, names=(), level=0):
        last = name.rpartition(".")[2]
        if last in given:
            return given[last]
        if level == 0 and name.partition(".")[0] in IMPORTED:
            return __import__(name, space, local, names)
        return MagicMock()

    module = ModuleType(__name__)  # dataclasses look their module up: it must be one that is there
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": import_given}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), vars(module))
    vars(module).update(given)
    return module


def scripted_torch(rng: RoundRng) -> SimpleNamespace:
    """Returns torch, as a sampler sees it, with another source of random numbers."""
    others = {
        "rand_like": lambda like: Uniform(rng),
        "multinomial": lambda probs, num_samples: rng.categorical(probs)[:, None],
    }
    return SimpleNamespace(**vars(torch) | others)


def row_by_row(emit: EmitRow) -> Decide:
    """Makes an acceptance rule of a function that returns which ids one row goes on with.

    It is handed no padding. Where a row proposes nothing no project calls its rule: the target is sampled.
    """

    def verify(draft, target_probs, rng):
        emitted = []
        for row, n in enumerate(draft.lengths.tolist()):
            here = slice(row, row + 1)
            parents = None if draft.parents is None else draft.parents[here, :n]
            row_draft = Draft(draft.tokens[here, :n], draft.probs[here, :n], parents=parents)
            plan = RoundPlan(rng.plan.prompt_ids[here], (0,), (n + 1,), target_probs.device)
            row_rng = RoundRng(rng.source, plan)
            p = target_probs[here, : n + 1]
            ids = emit(row_draft, p, row_rng) if n else row_rng.categorical(p[:, 0])
            emitted.append(torch.as_tensor(ids))
        return verdict_of(pad_sequence(emitted, batch_first=True, padding_value=-1), draft)

    return verify


def transformers_emits(tokens: Tensor, logits: Tensor, p: Tensor, rng: RoundRng, **how: Any) -> Tensor:
    """Returns what `_speculative_sampling` makes of tokens [1, n] with logits [1, K, V]; p is [1, K+1, V].

    `generate` hands it float32 logits.
    """
    library = import_module(f"{LIBRARY}.utils")
    # Up to 5.17 it is told whether the candidates already end the text; here they never do.
    if "is_done_candidate" in signature(library._speculative_sampling).parameters:
        how["is_done_candidate"] = False
    with patch.object(library, "torch", scripted_torch(rng)):
        return library._speculative_sampling(tokens, logits, logits.shape[1], p.float().log(), **how)[0][0]


def transformers_rule(**how: Any) -> Decide:
    """`_speculative_sampling` of transformers, with arguments such as `assistant_ensemble_weight`."""
    return row_by_row(
        lambda draft, p, rng: transformers_emits(draft.tokens, draft.probs.float().log(), p, rng, **how)
    )


def transformers_single_position() -> Decide:
    """Candidates of transformers for Gemma 4 assistants, and what it makes of them, at one position.

    The assistant is a stand-in: it has q for logits. What was drafted is not looked at, for the generator
    picks a candidate of its own. The first id that comes out is told as the target's; the text goes on.
    """
    generator = import_module(f"{LIBRARY}.candidate_generator").SinglePositionMultiTokenCandidateGenerator
    hidden = torch.zeros(1, 1, 1)
    outputs = SimpleNamespace(hidden_states=[hidden], shared_kv_states={})
    # Up to 5.19 it also wants a text and settings, of which it makes no use.
    unused = {"input_ids": None, "model_kwargs": {}}
    wanted = {name: unused[name] for name in unused.keys() & signature(generator).parameters.keys()}

    def emit(draft, p, rng):
        class Gemma4AssistantStandIn:
            generation_config = SimpleNamespace(num_assistant_tokens=1)
            device = "cpu"

            def __call__(self, **_: Any) -> SimpleNamespace:
                return SimpleNamespace(logits=draft.probs.float().log(), last_hidden_state=hidden)

        candidates = generator(
            assistant_model=Gemma4AssistantStandIn(),
            target_model_input_embeddings=lambda ids: hidden,
            generation_config=SimpleNamespace(max_length=9),
            **wanted,
        )
        ids, logits = candidates.get_candidates(hidden[0].long(), {}, outputs, False, 0)
        return transformers_emits(ids, logits, p, rng)[:1]

    return row_by_row(emit)


def deepspec_rule(checkout: Path) -> Decide:
    """`verify_draft_tokens` of DeepSpec, at temperature 1; its target is p."""
    sampling = load_file(checkout / "deepspec/utils/sampling.py")
    module = load_file(checkout / "deepspec/eval/base_evaluator.py", sampling=sampling)

    def emit(draft, p, rng):
        sampling.torch = module.torch = scripted_torch(rng)
        return module.verify_draft_tokens(
            target_model=lambda **_: SimpleNamespace(logits=p.float().log()),
            proposal=module.DraftProposal(draft.k, F.pad(draft.tokens, (1, 0)), draft.probs.float()),
            position_ids=torch.arange(draft.k + 1)[None],
            start=0,
            past_key_values_target=None,
            temperature=1.0,
            max_proposal_tokens=draft.k,
        ).committed_tokens[0]

    return row_by_row(emit)


def eagle_rule(checkout: Path) -> Decide:
    """`evaluate_posterior` of EAGLE, for trees whose candidates are fixed; temperature 1, no other warp."""
    module = load_file(checkout / "eagle/model/utils.py")

    def emit(draft, p, rng):
        parents = parents_of(draft)[0].tolist()
        paths = [[leaf] for leaf in range(1, draft.k + 1) if leaf not in parents]
        for path in paths:
            while path[0]:
                path.insert(0, parents[path[0] - 1])
        nodes = pad_sequence([torch.tensor(path) for path in sorted(paths)], True, -1)  # [paths, depth + 1]
        ids = F.pad(draft.tokens[0], (1, 0))[nodes].where(nodes >= 0, -1)
        module.random = SimpleNamespace(random=lambda: Uniform(rng))
        best, kept, probs = module.evaluate_posterior(p[0, nodes].log(), ids, lambda _, logits: logits)
        return [*ids[best, 1 : int(kept) + 1].tolist(), int(rng.categorical(probs[None]))]

    return row_by_row(emit)
