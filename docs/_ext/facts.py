"""Numbers in pages: `` {fact}`best-gain` `` stands for what was measured, so no page holds its own.

Each name has a small function below. What it reads comes with the package: saved measurements, the zoo,
the shipped pair. A page that names a fact which is not there stops the build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from book import rounding
from book.draft_sizes import DISTILL_STEPS, PLAIN_STEPS
from book.reports import load_report
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from minispec.evidence.bench.measure import measure_memory
from minispec.evidence.bench.measurements import FOLDER, Measurement, SpeedPoint, saved
from minispec.evidence.proof.ties import FLOAT32_LIMIT, NARROW_CAP
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.io.checkpoint import load_pair
from minispec.show.plots.charts import size

CPP = Path(__file__).resolve().parents[2] / "minispec" / "native" / "cpp"
# NVIDIA's data sheet of the H100 SXM: bytes a second, and operations a second in 16 bits, dense.
H100 = Hardware("H100", bandwidth=3.35e12, arithmetic=989e12)


@cache
def measurement(kind: str) -> Measurement:
    """Returns the saved measurement of a kind; each file is read once."""
    return saved(kind)


def latency(model: str, width: int) -> float:
    """Returns the measured seconds of a forward over `width` tokens."""
    return next(p.seconds for p in measurement("latency").points if (p.model, p.width) == (model, width))


def verify_cost(width: int) -> str:
    """Returns t(n)/t(1) of the target."""
    return f"{latency('target', width) / latency('target', 1):.2f}"


@cache
def report(name: str) -> Any:
    """Returns a report of the bench that comes with the package."""
    return load_report(FOLDER / f"bench-{name}.json")


def torch_latency(width: int) -> float:
    """Returns the seconds of a target forward of the torch backend, with the threads that suit one token."""
    points = [p for p in report("stories")["sections"]["latency"]["points"] if p["model"] == "target"]
    torch = {(p["threads"], p["width"]): p["seconds"] for p in points if p["path"] == "torch"}
    threads = min((number for number, _ in torch), key=lambda number: torch[number, 1])
    return torch[threads, width]


def large_verify_cost(backend: str, width: int) -> str:
    """Returns t(n)/t(1) of the largest shape of real size, in float32, with the most threads."""
    found = report("real-sizes")
    parameters = found["sections"]["real-sizes"]["parameters"]
    shape = max(parameters, key=lambda name: parameters[name])
    own = [
        r
        for r in found["real_sizes"]
        if (r["shape"], r["backend"], r["dtype"]) == (shape, backend, "float32")
    ]
    taken = max(own, key=lambda row: row["threads"])["milliseconds"]
    return f"{taken[str(width)] / taken['1']:.2f}"


def english_batches() -> list[Any]:
    """Returns the pair english in batches, the smallest first."""
    return sorted(report("english")["sections"]["batch"]["points"], key=lambda point: point["rows"])


def english_peak() -> Any:
    """Returns the batch in which the target of english, alone, is fastest."""
    return max(english_batches(), key=lambda point: point["target_only"])


def balanced_h100() -> str:
    """Returns how many tokens an H100 computes, with weights of 16 bits, in the time of reading them."""
    one = forward_cost(1, 2, H100)
    return f"{one.moving / one.computing:.0f}"


def rollback_share() -> str:
    """Returns which part of a decode's seconds rollback took, sampled, at the reported K."""
    rows = report("stories")["sections"]["widths"]["settings"]
    seconds = next(row["seconds"] for row in rows if row["verifier"] == "rejection")
    return f"{seconds['rollback'] / sum(seconds.values()):.1%}"


def rounded(dtype: str, what: str) -> str:
    """Returns what rounding amounts to in a type; `what` is a field of `rounding.Rounding`."""
    return f"{rounding.recorded()['types'][dtype][what]:.1g}"


def best_speed() -> SpeedPoint:
    """Returns the measured K with the largest speed-up."""
    return max(measurement("speed").points, key=lambda p: p.gain)


def off(predicted: str) -> str:
    """Returns how far one of the predictions was off, on average over all K."""
    return f"{fmean(abs(getattr(p, predicted) / p.gain - 1) for p in measurement('speed').points):.0%}"


def draft(name: str) -> Any:
    """Returns what was measured of a draft."""
    return next(p for p in measurement("drafts").points if p.name == name)


def batches() -> Sequence[Any]:
    """Returns the measured batch sizes, the smallest first."""
    return sorted(measurement("batches").points, key=lambda p: p.rows)


def busiest() -> Any:
    """Returns the batch in which the target alone is fastest."""
    return max(batches(), key=lambda point: point.target_only)


@cache
def memory(model: str) -> dict[str, int]:
    """Returns the bytes of the `weights` and of a row's `cache` of one of the shipped models."""
    return {part.what: part.bytes for part in measure_memory(load_pair("stories")) if part.model == model}


def found_by(check: str) -> str:
    """Returns how many of the planted bugs a check found."""
    column = measurement("zoo").conditions["checks"].index(check)
    return str(sum(row.marks[column] != "." for row in measurement("zoo").points))


def effects(effect: str) -> str:
    """Returns how many bugs of the zoo have an effect."""
    return str(sum(mutant.effect == effect for mutant in MUTANTS))


FACTS: dict[str, Callable[[], str]] = {
    "machine-speed": lambda: measurement("speed").where,
    "machine-latency": lambda: measurement("latency").where,
    "machine-drafts": lambda: measurement("drafts").where,
    "machine-batches": lambda: measurement("batches").where,
    "t5": lambda: verify_cost(5),
    "t17": lambda: verify_cost(17),
    "c": lambda: f"{best_speed().c:.2f}",
    "alpha-shipped": lambda: f"{load_pair('stories').info['acceptance']:.3f}",
    "best-k": lambda: str(best_speed().k),
    "best-gain": lambda: f"{best_speed().gain:.2f}",
    "best-simple": lambda: f"{best_speed().simple:.2f}",
    "best-refined": lambda: f"{best_speed().refined:.2f}",
    "off-simple": lambda: off("simple"),
    "off-refined": lambda: off("refined"),
    "torch-over-native": lambda: f"{torch_latency(1) / latency('target', 1):.1f}",
    "torch-t5": lambda: f"{torch_latency(5) / torch_latency(1):.2f}",
    "large-t5": lambda: large_verify_cost("native", 5),
    "large-t9": lambda: large_verify_cost("native", 9),
    "large-torch-t5": lambda: large_verify_cost("torch", 5),
    "large-parameters": lambda: (
        f"{max(report('real-sizes')['sections']['real-sizes']['parameters'].values()) / 1e6:.0f}"
    ),
    "balanced-h100": balanced_h100,
    "rollback-share": rollback_share,
    "draft-steps": lambda: f"{PLAIN_STEPS + DISTILL_STEPS:,}",
    "acceptance-tested": lambda: f"{load_pair('stories').info['acceptance_tested']:,}",
    "untrained-alpha": lambda: f"{draft('untrained').alpha:.3f}",
    "untrained-gain": lambda: f"{draft('untrained').gain:.2f}",
    "self-alpha": lambda: f"{draft('the target').alpha:.2f}",
    "self-c": lambda: f"{draft('the target').c:.2f}",
    "self-gain": lambda: f"{draft('the target').gain:.2f}",
    "batch-first-rows": lambda: str(batches()[0].rows),
    "batch-first-gain": lambda: f"{batches()[0].gain:.2f}",
    "batch-last-rows": lambda: str(batches()[-1].rows),
    "batch-last-gain": lambda: f"{batches()[-1].gain:.2f}",
    "batch-peak-rows": lambda: str(busiest().rows),
    "batch-peak-gain": lambda: f"{busiest().gain:.2f}",
    "batch-throughput": lambda: f"{busiest().target_only / batches()[0].target_only:.1f}",
    "english-first-gain": lambda: f"{english_batches()[0]['gain']:.2f}",
    "english-peak-rows": lambda: str(english_peak()["rows"]),
    "english-peak-gain": lambda: f"{english_peak()['gain']:.2f}",
    "english-last-rows": lambda: str(english_batches()[-1]["rows"]),
    "english-last-gain": lambda: f"{english_batches()[-1]['gain']:.2f}",
    "target-weights": lambda: size(memory("target")["weights"]),
    "target-cache": lambda: size(memory("target")["cache"]),
    "draft-weights": lambda: size(memory("draft")["weights"]),
    "draft-cache": lambda: size(memory("draft")["cache"]),
    "memory-more": lambda: f"{sum(memory('draft').values()) / sum(memory('target').values()):.1%}",
    "bugs": lambda: str(len(MUTANTS)),
    "bugs-biased": lambda: effects("biased"),
    "bugs-slower": lambda: effects("slower"),
    "bugs-breaks": lambda: effects("breaks"),
    "found-law": lambda: found_by("law"),
    "found-native-law": lambda: found_by("native-law"),
    "found-transformers": lambda: found_by("transformers-like"),
    "found-vllm-rejection": lambda: found_by("vllm-like-rejection"),
    "found-vllm-greedy": lambda: found_by("vllm-like-greedy"),
    "bugs-seen": lambda: str(sum(not mutant.seen.startswith("not seen") for mutant in MUTANTS)),
    "bugs-recorded": lambda: str(len(measurement("zoo").points)),
    "cpp-lines": lambda: str(sum(len(file.read_text().splitlines()) for file in CPP.iterdir())),
    "rounding-texts": lambda: (
        f"{rounding.recorded()['texts']} texts of {rounding.recorded()['tokens']} tokens"
    ),
    "rounding-tokens": lambda: str(rounding.recorded()["tokens"]),
    **{
        f"{what}-{dtype}": lambda dtype=dtype, what=what: rounded(dtype, what)  # type: ignore[misc]
        for dtype in rounding.TYPES
        for what in ("logit", "token", "text")
    },
    "float32-limit": lambda: f"{FLOAT32_LIMIT:g}",
    "narrow-cap": lambda: f"{NARROW_CAP:g}",
}


class FactRole(SphinxRole):
    """`` {fact}`name` ``: a measured number, as text."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Looks the number up; an unknown name is an error of the page."""
        if self.text not in FACTS:
            message = self.inliner.reporter.error(f"there is no fact {self.text!r}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.Text(FACTS[self.text]())], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the role."""
    app.add_role("fact", FactRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
