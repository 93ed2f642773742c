"""The check of the C++: a case as the native backend decodes it, against the core's models."""

from __future__ import annotations

from functools import cache

import torch

from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import speculative_distributions
from minispec.evidence.zoo.check_distributions import fault_of
from minispec.native.backend import NATIVE
from minispec.native.library import native_functions


@cache
def on_native(case: Case) -> Case:
    """Returns the case on the native backend; its models are made once, and meet every bug."""
    return case.on(NATIVE)


def no_library() -> str | None:
    """Says why there is no native backend here; None if there is one."""
    try:
        native_functions(torch.float64)
    except ValueError as error:
        return str(error)
    return None


def check_native(case: Case) -> str | None:
    """Drafted and decided in C++, whole outputs have the chain rule's distribution, branch by branch."""
    return fault_of(case, speculative_distributions(on_native(case)).distributions)
