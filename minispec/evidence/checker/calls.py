"""One call of somebody's rule, and everything that can go wrong in it.

A rule may return nonsense, change its input, ask for an impossible draw, or draw from a random number
generator of its own. It may exit, or fork. What is plainly wrong raises `Broken` and says why; a rule whose
draws cannot be enumerated raises `NotScripted`; one that does not take an instance, `Refused`.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from minispec.core.model import Tree
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Place, Rng, RoundPlan, RoundRng
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.evidence.checker.guard import Stopped, called
from minispec.evidence.checker.instance import PossibleDrafts
from minispec.evidence.proof.enumeration import EnumeratingRng, NotScripted
from minispec.io.files import printable_line
from minispec.native.decisions import Lender
from minispec.verifiers.tree import parents_of

T = TypeVar("T")

NEGLIGIBLE = 1e-14  # a rounding error may be so large; what is nearer to certain than this counts as certain


class Broken(Exception):
    """A rule did what no rule may do. The message says what."""


class Raised(Broken):
    """It raised an exception: wrong, or all that it says to drafts that it was not made for."""


class Refused(Exception):
    """A rule raised NotImplementedError: it does not take such drafts. The message is its own."""


class CheckedRng(Lender):
    """The random number generator that a rule under test gets: it checks each request and passes it on.

    With one row every draw belongs to it, so any shape will do. With several, there must be a draw for each.

    A probability that should be 0 or 1, and is not because a sum was rounded, depends on the row's place in
    the batch. Such a branch would come and go, so it is not opened.
    """

    def __init__(self, rng: EnumeratingRng) -> None:
        """Passes requests on to `rng`; if it has only one script, all rows follow it, as if one."""
        self._rng = rng

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Decides: probs [B] -> [B] bool (see `Rng`)."""
        place, live = self._place(probs.shape, place)
        flat = probs.reshape(-1)
        if bool(flat[live].isnan().any()):
            raise Broken("it asked for a yes with a probability that is not a number")
        certain = (flat - flat.round()).abs() < NEGLIGIBLE
        flat = torch.where(certain, flat.round(), flat)
        return self._rng.bernoulli(flat, place).bool().reshape(probs.shape)

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks: probs [B, V] -> [B] ids (see `Rng`)."""
        place, live = self._place(probs.shape[:-1], place)
        flat = probs.reshape(-1, probs.shape[-1])
        active = flat[live]
        if not bool(((active >= 0) & active.isfinite()).all()):
            raise Broken("it drew from a distribution with negative or infinite entries, or with NaN")
        if not bool((active.sum(-1) > 0).all()):
            raise Broken("it drew from a distribution that is 0 everywhere")
        flat = flat.where(flat >= NEGLIGIBLE * flat.sum(-1, keepdim=True), 0)
        return self._rng.categorical(flat, place).long().reshape(probs.shape[:-1])

    def decide(self, most: int, native: Callable[[Tensor], tuple[int, T]], core: Callable[[], T]) -> T:
        """Has the library decide, by numbers [most] that take the scripts' branches (see `Lender`)."""
        return self._rng.decide(most, native, core)

    def _place(self, shape: torch.Size, place: Place | None) -> tuple[Place, Tensor]:
        """Returns the rows that n draws of a shape are for, and which of them are to be made: [n] bool."""
        rows = (0,) if place is None or len(self._rng.weights) == 1 else place.plan.prompt_ids
        if len(rows) > 1 and shape != (len(rows),):
            raise NotScripted(f"it asks for draws of shape {list(shape)} in a batch of {len(rows)} rows")
        live = torch.ones(shape, dtype=torch.bool)
        if place is not None and place.live is not None:
            live = live & place.live.bool()
        live = live.reshape(-1)
        repeats = len(live) // len(rows)  # 1 if there are several rows
        plan = RoundPlan.unlimited(len(live), live.device)._replace(prompt_ids=rows * repeats)
        return Place(plan, live=live), live


def decide(
    verifier: Verifier | Decide, drafts: PossibleDrafts, rows: Tensor, rng: Rng
) -> tuple[Tensor, Tensor]:
    """Calls a rule once, on some rows [B] of an instance's drafts; returns two columns [B].

    The last drafted token that each row keeps (0: none, i + 1: token i), and the one that follows it.

    Raises:
        Broken: if it raised, exited, forked, changed its input, or returned what is not a verdict on these
            rows.
        Refused: if it raised NotImplementedError.
        ImportError: if it needs what is not installed; that says nothing about the rule.
    """
    draft, target_probs = drafts.rows(rows)
    plan = RoundPlan.unlimited(len(rows), target_probs.device)
    try:
        verdict = called(as_verifier(verifier).decide, draft, target_probs, RoundRng(rng, plan))
    except (Broken, NotScripted, ImportError):
        raise
    except Stopped as stopped:
        raise Broken(str(stopped)) from stopped
    except NotImplementedError as error:
        raise Refused(one_line(error)) from error
    except Exception as error:  # whatever somebody's function may raise
        raise Raised(f"it raised {one_line(error)}") from error
    fresh, fresh_probs = drafts.rows(rows)
    for name, value in vars(fresh).items():
        if value is not None and not torch.equal(value, getattr(draft, name)):
            raise Broken(f"it changed its input: draft.{name}")
    if not torch.equal(fresh_probs, target_probs):
        raise Broken("it changed its input: target_probs")
    check_verdict(verdict, fresh, target_probs.shape[-1])
    return verdict.last.cpu().long(), verdict.token.cpu().long()


def one_line(error: BaseException) -> str:
    """Returns 200 characters of an exception in one line; what could control a terminal is escaped."""
    return printable_line(" ".join(f"{type(error).__name__}: {error}".split())[:200])


def check_verdict(verdict: object, draft: Draft, vocab_size: int) -> None:
    """Refuses what cannot be a verdict on a draft: `Broken` says why."""
    if not isinstance(verdict, Verdict):
        raise Broken(f"it returned a {type(verdict).__name__}, not a Verdict")
    rows = draft.tokens.shape[0]
    for name, values in (("accepted", verdict.accepted), ("token", verdict.token)):
        if values.shape != (rows,):
            raise Broken(f"it returned {name} of shape {list(values.shape)} for {rows} rows")
        if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
            raise Broken(f"it returned {name} as {str(values.dtype).removeprefix('torch.')}, not as integers")
    accepted = verdict.accepted.cpu()
    lengths = draft.lengths
    beyond = (accepted < 0) | (accepted > lengths)
    if bool(beyond.any()):
        row = int(beyond.long().argmax())
        raise Broken(f"it accepted {int(accepted[row])} of {int(lengths[row])} drafted tokens")
    check_path(verdict, draft)
    outside = verdict.token[(verdict.token < 0) | (verdict.token >= vocab_size)]
    if len(outside):
        raise Broken(f"it picked token {int(outside[0])}; the ids are 0 to {vocab_size - 1}")


def check_path(verdict: Verdict, draft: Draft) -> None:
    """Refuses what is not a path of a tree, as long as it says: `Broken` says why."""
    if verdict.path is None:
        if draft.parents is not None:
            raise Broken("it returned no path in a tree, as a rule for chains would")
        return
    if verdict.path.shape != draft.tokens.shape or verdict.path.dtype != torch.bool:
        raise Broken(f"it returned a path of shape {list(verdict.path.shape)}, {verdict.path.dtype}")
    path = verdict.path.cpu()
    last = verdict.last.cpu()
    ancestors = Tree.after(draft.lengths, parents_of(draft)).mask  # [B, K+1, K+1]
    expected = ancestors[torch.arange(len(last)), last, 1:]  # [B, K], the path to the last token
    wrong = (path != expected).any(-1) | (path.sum(-1) != verdict.accepted.cpu()) | (last > draft.lengths)
    if bool(wrong.any()):
        row = int(wrong.long().argmax())
        raise Broken(
            f"it claims it kept {int(verdict.accepted[row])} tokens, and the path {verdict.kept()[row]}"
        )
