"""Draft sizes: trains drafts of several sizes for the target, where they are not there yet."""

from __future__ import annotations

from contextlib import suppress

from minispec.evidence.bench.draft_sizes import DISTILL_STEPS, PLAIN_STEPS, SIZES, find_drafts, train_drafts
from minispec.evidence.bench.sections.section import Bench, Found, Skipped


def measure(bench: Bench) -> Found:
    """Finds the drafts, or trains those that are missing.

    Raises:
        Skipped: if some are missing, and the plan does not say to train them, or it is not known how.
    """
    drafts = find_drafts(bench.pair)
    if len(drafts) < len(SIZES):
        if not bench.plan.train:
            raise Skipped("drafts of several sizes are not trained yet; --full trains them, in minutes")
        try:
            drafts = train_drafts(bench.pair, tell=bench.tell)
        except ValueError as error:
            raise Skipped(str(error)) from error
    best = bench.plan.paths[-1]
    for done, (name, draft) in enumerate(drafts.items()):
        bench.tell(0.9 + 0.1 * done / len(drafts), f"draft {name} on the {best} path")
        with suppress(ValueError):  # the section `latency` says why a path cannot be had
            bench.models(best, draft)
    steps = {"cross_entropy": PLAIN_STEPS, "distillation": DISTILL_STEPS}
    return {"steps": steps, "parameters": {name: draft.parameters_count for name, draft in drafts.items()}}
