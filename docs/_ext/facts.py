"""Numbers in pages: `` {fact}`best-gain` `` stands for what was measured, so no page holds its own.

Each name has a small function below. What it reads comes with the package: saved measurements, the zoo,
the shipped pair. A name with a colon, such as `greedy:tokens`, is a word or a number of a recorded run: see
`running_example`. A page that names a fact which is not there stops the build.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from book import rounding
from book.draft_sizes import DISTILL_STEPS, PLAIN_STEPS
from book.reports import load_report, measurement_of
from docutils import nodes
from field_guide import found_by
from running_example import tell
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from minispec.evidence.bench.measure import measure_memory
from minispec.evidence.bench.measurements import FOLDER, BatchPoint, Measurement, SpeedPoint, saved
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
    wanted = {"shape": shape, "backend": backend, "dtype": "float32"}.items()
    rows = [row for row in found["real_sizes"] if wanted <= row.items()]
    taken = max(rows, key=lambda row: row["threads"])["milliseconds"]
    return f"{taken[str(width)] / taken['1']:.2f}"


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


@cache
def batches(pair: str) -> dict[str, BatchPoint]:
    """Returns the measured batches of a pair: the smallest, the largest, and where the target alone peaks."""
    points = sorted(measurement_of(report(pair), "batches").points, key=lambda point: point.rows)
    peak = max(points, key=lambda point: point.target_only)
    return {"first": points[0], "peak": peak, "last": points[-1]}


def throughput() -> str:
    """Returns how many times as many tokens a second the target alone writes in its best batch."""
    found = batches("stories")
    return f"{found['peak'].target_only / found['first'].target_only:.1f}"


@cache
def memory(model: str) -> dict[str, int]:
    """Returns the bytes of the `weights` and of a row's `cache` of one of the shipped models."""
    return {part.what: part.bytes for part in measure_memory(load_pair("stories")) if part.model == model}


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
    "batch-throughput": throughput,
    "target-weights": lambda: size(memory("target")["weights"]),
    "target-cache": lambda: size(memory("target")["cache"]),
    "draft-weights": lambda: size(memory("draft")["weights"]),
    "draft-cache": lambda: size(memory("draft")["cache"]),
    "memory-more": lambda: f"{sum(memory('draft').values()) / sum(memory('target').values()):.1%}",
    "bugs": lambda: str(len(MUTANTS)),
    "bugs-biased": lambda: effects("biased"),
    "bugs-slower": lambda: effects("slower"),
    "bugs-breaks": lambda: effects("breaks"),
    "found-law": lambda: str(found_by("law")),
    "found-native-law": lambda: str(found_by("native-law")),
    "found-transformers": lambda: str(found_by("transformers-like")),
    "found-vllm-rejection": lambda: str(found_by("vllm-like-rejection")),
    "found-vllm-greedy": lambda: str(found_by("vllm-like-greedy")),
    "bugs-seen": lambda: str(sum(not mutant.seen.startswith("not seen") for mutant in MUTANTS)),
    "bugs-recorded": lambda: str(len(measurement("zoo").points)),
    "cpp-lines": lambda: str(sum(len(file.read_text().splitlines()) for file in CPP.iterdir())),
    "rounding-texts": lambda: (
        f"{rounding.recorded()['texts']} texts of {rounding.recorded()['tokens']} tokens"
    ),
    "rounding-tokens": lambda: str(rounding.recorded()["tokens"]),
    **{
        f"{short}-{what}": lambda name=name, what=what, form=form: format(  # type: ignore[misc]
            getattr(draft(name), what), form
        )
        for short, name in (("untrained", "untrained"), ("self", "the target"))
        for what, form in (("alpha", ".3f"), ("c", ".2f"), ("gain", ".2f"))
    },
    **{
        f"{short}-{which}-{what}": lambda pair=pair, which=which, what=what, form=form: format(  # type: ignore[misc]
            getattr(batches(pair)[which], what), form
        )
        for short, pair in (("batch", "stories"), ("english", "english"))
        for which in ("first", "peak", "last")
        for what, form in (("rows", "d"), ("gain", ".2f"))
    },
    **{
        f"{what}-{dtype}": lambda dtype=dtype, what=what: rounded(dtype, what)  # type: ignore[misc]
        for dtype in rounding.TYPES
        for what in ("logit", "token", "text")
    },
    "float32-limit": lambda: f"{FLOAT32_LIMIT:g}",
    "narrow-cap": lambda: f"{NARROW_CAP:g}",
}


class FactRole(SphinxRole):
    """`` {fact}`name` ``: a measured number, as text; words of a recorded run, as code."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Looks it up; an unknown name is an error of the page."""
        try:
            fact = tell(self.text) if ":" in self.text else FACTS[self.text]()
        except (KeyError, ValueError) as error:
            message = self.inliner.reporter.error(f"there is no fact {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        words = fact.strip("`")
        return [nodes.Text(fact) if words == fact else nodes.literal(text=words)], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the role."""
    app.add_role("fact", FactRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
