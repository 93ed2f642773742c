"""Decisions of other projects as rules: each is called unchanged, as its own project calls it.

Some take a row at a time, and logits; what they return are ids. So an adapter makes their arguments of a
draft, and a verdict of the ids. They draw from the generators of torch or of Python: most are called with a
`torch` whose random functions ask an `Rng`. So they follow a script, each of their branches can be taken, and
what they say is known exactly.
"""

import __future__

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import Verifier
from minispec.evidence.checker.adapter import verdict_of
from minispec.evidence.proof.enumeration import Uniform
from minispec.rules.tree import parents_of

LIBRARY = "transformers.generation"
SayRow = Callable[[Draft, Tensor, Any], Sequence[int] | Tensor]  # one row's draft, p [1, K+1, V], rng -> ids


def scripted_torch(rng: Rng) -> SimpleNamespace:
    """Returns torch, as a sampler sees it, with another source of random numbers."""
    others = {
        "rand_like": lambda like: Uniform(rng),
        "multinomial": lambda probs, num_samples: rng.categorical(probs)[:, None],
    }
    return SimpleNamespace(**vars(torch) | others)


def unpinned_torch() -> SimpleNamespace:
    """Returns torch for code that pins memory, which needs an accelerator; it draws as torch does."""

    def unpinned(name: str) -> Any:
        return lambda *args, pin_memory=False, **more: getattr(torch, name)(*args, **more)

    names = ("tensor", "arange", "ones", "full")
    return SimpleNamespace(**vars(torch) | {name: unpinned(name) for name in names})


def functions_of(path: Path, *names: str, **given: Any) -> dict[str, Any]:
    """Loads functions and classes from a file, and nothing else of it: no import of it is followed.

    What they need besides `torch` is `given`. Returns their global names: change one, and they see it.

    Raises:
        ValueError: if there is no such file, or it lacks one of them.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = ast.parse(path.read_text(encoding="utf-8"))
    module.body = [one for one in module.body if getattr(one, "name", None) in names]
    if missing := set(names) - {getattr(one, "name", None) for one in module.body}:
        raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}")
    space = {"torch": torch} | given
    # Annotations stay text: what they name may be defined elsewhere.
    exec(compile(module, str(path), "exec", __future__.annotations.compiler_flag, dont_inherit=True), space)
    return space


def row_by_row(say: SayRow) -> Verifier:
    """Makes a rule of a function that says which ids one row goes on with.

    It is handed no padding. Where a row proposes nothing no project calls its rule: the target is sampled.
    """

    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        said = []
        for row, n in enumerate(draft.lengths.tolist()):
            here = torch.tensor([row])
            parents = None if draft.parents is None else draft.parents[here, :n]
            own = Draft(draft.tokens[here, :n], draft.probs[here, :n], parents=parents)
            asks = {"bernoulli": rng.bernoulli, "categorical": rng.categorical}
            rng_of_row = SimpleNamespace(**{name: partial(ask, rows=here) for name, ask in asks.items()})
            p = target_probs[here, : n + 1]
            said.append(torch.as_tensor(say(own, p, rng_of_row) if n else rng_of_row.categorical(p[:, 0])))
        return verdict_of(pad_sequence(said, batch_first=True, padding_value=-1), draft)

    return rule


def transformers_says(tokens: Tensor, logits: Tensor, p: Tensor, rng: Any, **more: Any) -> Tensor:
    """Returns what `_speculative_sampling` says of tokens [1, n] with logits [1, K, V]; p is [1, K+1, V].

    `generate` hands it float32 logits.
    """
    library = import_module(f"{LIBRARY}.utils")
    # Up to 5.17 it is told whether the candidates already end the text; here they never do.
    if "is_done_candidate" in signature(library._speculative_sampling).parameters:
        more["is_done_candidate"] = False
    with patch.object(library, "torch", scripted_torch(rng)):
        return library._speculative_sampling(tokens, logits, logits.shape[1], p.float().log(), **more)[0][0]


def transformers_rule(**more: Any) -> Verifier:
    """`_speculative_sampling` of transformers, with arguments such as `assistant_ensemble_weight`."""

    def say(draft: Draft, p: Tensor, rng: Any) -> Tensor:
        return transformers_says(draft.tokens, draft.probs.float().log(), p, rng, **more)

    return row_by_row(say)


def transformers_single_position() -> Verifier:
    """Candidates of transformers for Gemma 4 assistants, and what it makes of them, at one position.

    The assistant is a stand-in: it has q for logits. What was drafted is not looked at, for the generator
    picks a candidate of its own. The first id that comes out is told as the target's; the text goes on.
    """
    generator = import_module(f"{LIBRARY}.candidate_generator").SinglePositionMultiTokenCandidateGenerator
    hidden, prompt = torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.long)
    outputs = SimpleNamespace(hidden_states=[hidden], shared_kv_states={})

    def say(draft: Draft, p: Tensor, rng: Any) -> Tensor:
        class Gemma4AssistantStandIn:
            generation_config, device = SimpleNamespace(num_assistant_tokens=1), "cpu"

            def __call__(self, **_: Any) -> SimpleNamespace:
                return SimpleNamespace(logits=draft.probs.float().log(), last_hidden_state=hidden)

        candidates = generator(Gemma4AssistantStandIn(), lambda ids: hidden, SimpleNamespace(max_length=9))
        ids, logits = candidates.get_candidates(prompt, {}, outputs, False, 0)
        return transformers_says(ids, logits, p, rng)[:1]

    return row_by_row(say)


def deepspec_rule(checkout: Path) -> Verifier:
    """`verify_draft_tokens` of DeepSpec, at temperature 1; its target is p."""
    sampling = functions_of(
        checkout / "deepspec/utils/sampling.py",
        *("logits_to_probs", "sample_from_probs", "gather_token_probs", "sample_residual"),
    )
    names = ("DraftProposal", "VerificationResult", "verify_draft_tokens")
    theirs = functions_of(
        checkout / "deepspec/eval/base_evaluator.py", *names, dataclass=dataclass, **sampling
    )

    def say(draft: Draft, p: Tensor, rng: Any) -> Tensor:
        sampling["torch"] = theirs["torch"] = scripted_torch(rng)
        ids = torch.cat([torch.zeros(1, 1, dtype=torch.long), draft.tokens], dim=1)  # the pending token first
        return theirs["verify_draft_tokens"](
            target_model=lambda **_: SimpleNamespace(logits=p.float().log()),
            proposal=theirs["DraftProposal"](draft.k, ids, draft.probs.float()),
            position_ids=torch.arange(draft.k + 1)[None],
            start=0,
            past_key_values_target=None,
            temperature=1.0,
            max_proposal_tokens=draft.k,
        ).committed_tokens[0]

    return row_by_row(say)


def eagle_rule(checkout: Path) -> Verifier:
    """`evaluate_posterior` of EAGLE, for trees whose candidates are fixed; temperature 1, no other warp."""
    theirs = functions_of(checkout / "eagle/model/utils.py", "evaluate_posterior")

    def say(draft: Draft, p: Tensor, rng: Any) -> Sequence[int]:
        parents = parents_of(draft)[0].tolist()
        paths = [[leaf] for leaf in range(1, draft.k + 1) if leaf not in parents]
        for path in paths:
            while path[0]:
                path.insert(0, parents[path[0] - 1])
        nodes = pad_sequence([torch.tensor(one) for one in sorted(paths)], True, -1)  # [paths, depth + 1]
        ids = torch.cat([torch.zeros(1, dtype=torch.long), draft.tokens[0]])[nodes].where(nodes >= 0, -1)
        theirs["random"] = SimpleNamespace(random=lambda: Uniform(rng))
        best, kept, probs = theirs["evaluate_posterior"](p[0, nodes].log(), ids, lambda _, logits: logits)
        return [*ids[best, 1 : int(kept) + 1].tolist(), int(rng.categorical(probs[None]))]

    return row_by_row(say)
