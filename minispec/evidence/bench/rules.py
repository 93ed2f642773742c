"""The section on rules: other lossless ones beside rejection sampling, with the same draft model.

All verify at temperature 1, with the same seeds, interleaved. On the native backend only rejection sampling
is in C++; there another rule has to accept more to be as fast.
"""

from dataclasses import replace

from minispec.core.verify import Verifier
from minispec.evidence.bench.interleaved import Setting, speed_up_of, total_of
from minispec.evidence.bench.section import BenchRun, Found
from minispec.evidence.bench.sections import threads_of
from minispec.native.backend import Models
from minispec.rules.block import verify_block
from minispec.rules.compare import verify_compare

TOKEN = "token"  # what rejection sampling is called beside block verification
OTHERS: dict[str, Verifier] = {"block": verify_block, "compare": verify_compare}


def measure(bench: BenchRun) -> Found:
    """Measures every rule at several K on every backend; speeds are over rejection sampling there."""
    backends, lack = bench.backends()
    sides: dict[tuple[str, int], list[Setting]] = {}
    for backend, models in backends.items():
        for k in bench.plan.few_widths:
            token = Setting(models, k, "rejection", 1.0, threads_of(bench)[backend], TOKEN)
            others = [
                replace(token, models=judging(models, rule), label=name) for name, rule in OTHERS.items()
            ]
            sides[backend, k] = [token, *others]
    rows: list[Found] = []
    for (backend, k), runs in bench.interleave(sides, bench.reporting, "every rule").items():
        for setting, own in zip(sides[backend, k], runs, strict=True):
            total, (low, middle, high) = total_of(own), speed_up_of(runs[0], own)
            about: Found = {"pair": bench.pair.name, "rule": setting.label, "backend": backend, "k": k}
            counts = {
                name: getattr(total, name) for name in ("tokens_per_target_call", "accepted_over_drafted")
            }
            rows.append(about | counts | {"over_token": middle, "over_token_quartiles": [low, high]})
    return {"rows": rows, "unavailable": lack}


def judging(models: Models, rule: Verifier) -> Models:
    """Returns the same models with another rule in place of rejection sampling."""
    return replace(models, backend=replace(models.backend, rules={**models.backend.rules, "rejection": rule}))
