"""Numbers in pages: `` {fact}`best-gain` `` stands for what was measured, so no page holds its own.

Each kind of fact has a small function below. What it reads comes with the package: saved measurements, the
zoo, the shipped pair. A name with a colon, such as `greedy:tokens`, is a word or a number of a recorded run:
see `running_example`. A page that names a fact which is not there stops the build.
"""

from functools import cache
from pathlib import Path
from statistics import fmean

from book import rounding
from book.contexts import K, gains_by_context
from book.draft_sizes import DISTILL_STEPS, PLAIN_STEPS
from book.reports import measurement_of, saved_reports
from docutils import nodes
from field_guide import found_by
from running_example import tell
from sphinx.util.docutils import SphinxRole

from minispec.evidence.bench.measure import measure_memory
from minispec.evidence.bench.measurements import saved
from minispec.evidence.proof.ties import FLOAT32_LIMIT, NARROW_CAP
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.io.checkpoint import load_pair
from minispec.show.plots.charts import size

CPP = Path(__file__).resolve().parents[2] / "minispec" / "native" / "cpp"
# NVIDIA's data sheet of the H100 SXM: bytes a second, and operations a second in 16 bits, dense.
H100 = Hardware("H100", bandwidth=3.35e12, arithmetic=989e12)


@cache
def facts():
    """Returns what pages may name, each as it is printed."""
    return {
        **{f"machine-{kind}": saved(kind).where for kind in ("speed", "latency", "drafts", "batches")},
        **speeds(),
        **forwards(),
        **drafts(),
        **automatic(),
        **batches(),
        **memory(),
        **roundings(),
        **bugs(),
        "cpp-lines": sum(len(file.read_text().splitlines()) for file in CPP.iterdir()),
    }


def speeds():
    """The K with the largest measured speed-up, what was predicted for it, how far predictions are off."""
    points = saved("speed").points
    best = max(points, key=lambda p: p.gain)
    found = {"c": f"{best.c:.2f}", "best-k": best.k, "best-gain": f"{best.gain:.2f}"}
    for name in ("simple", "refined"):
        found[f"best-{name}"] = f"{getattr(best, name):.2f}"
        found[f"off-{name}"] = f"{fmean(abs(getattr(p, name) / p.gain - 1) for p in points):.0%}"
    return found


def forwards():
    """How much longer a forward takes over more tokens, t(n)/t(1): of the target, and at real sizes."""
    native = {p.width: p.seconds for p in saved("latency").points if p.model == "target"}
    stories, sizes = saved_reports(["stories", "real-sizes"])
    points = [p for p in stories["sections"]["latency"]["points"] if p["model"] == "target"]
    by_threads = {(p["width"], p["threads"]): p["seconds"] for p in points if p["path"] == "torch"}
    torch, threads = min((s, threads) for (width, threads), s in by_threads.items() if width == 1)
    parameters = sizes["sections"]["real-sizes"]["parameters"]
    largest = {"shape": max(parameters, key=parameters.get), "dtype": "float32"}
    rows = [row for row in sizes["real_sizes"] if largest.items() <= row.items()]
    # With the most threads: they overwrite the others.
    large = {row["backend"]: row["milliseconds"] for row in sorted(rows, key=lambda row: row["threads"])}
    h100 = forward_cost(1, 2, H100)  # weights of 16 bits
    settings = stories["sections"]["widths"]["settings"]
    seconds = next(row["seconds"] for row in settings if row["verifier"] == "rejection")
    return {
        "t5": f"{native[5] / native[1]:.2f}",
        "t17": f"{native[17] / native[1]:.2f}",
        "torch-over-native": f"{torch / native[1]:.1f}",
        "torch-t5": f"{by_threads[5, threads] / torch:.2f}",
        "large-parameters": f"{max(parameters.values()) / 1e6:.0f}",
        "large-t5": f"{large['native']['5'] / large['native']['1']:.2f}",
        "large-t9": f"{large['native']['9'] / large['native']['1']:.2f}",
        "large-torch-t5": f"{large['torch']['5'] / large['torch']['1']:.2f}",
        "balanced-h100": f"{h100.moving / h100.computing:.0f}",
        "rollback-share": f"{seconds['rollback'] / sum(seconds.values()):.1%}",
    }


def drafts():
    """The shipped draft, one that is not trained, and the target as its own draft."""
    info = load_pair("stories").info
    found = {
        "alpha-shipped": f"{info['acceptance']:.3f}",
        "acceptance-tested": f"{info['acceptance_tested']:,}",
        "draft-steps": f"{PLAIN_STEPS + DISTILL_STEPS:,}",
    }
    points = {p.name: p for p in saved("drafts").points}
    for short, p in (("untrained", points["untrained"]), ("self", points["the target"])):
        found[f"{short}-alpha"] = f"{p.alpha:.3f}"
        found[f"{short}-c"] = f"{p.c:.2f}"
        found[f"{short}-gain"] = f"{p.gain:.2f}"
    return found


def automatic():
    """What a K that is chosen while decoding comes to, greedy and sampled, beside the best fixed K."""
    found = {}
    for pair, report in zip(("stories", "english"), saved_reports(["stories", "english"]), strict=True):
        fixed = [row["speedup"] for row in report["sections"]["widths"]["settings"]]
        over = [row["over_best_fixed"] for row in report["sections"]["auto"]["rows"]]
        gains = [gain * ratio for gain, ratio in zip(fixed, over, strict=True)]
        for name, values in (("fixed", fixed), ("auto", gains), ("auto-over", over)):
            found[f"{name}-{pair}"] = " and ".join(f"{value:.2f}" for value in values)
    return found


def batches():
    """The smallest batch, the largest, and the one with most tokens a second; short and long contexts."""
    found = {}
    for short, report in zip(("batch", "english"), saved_reports(["stories", "english"]), strict=True):
        points = sorted(measurement_of(report, "batches").points, key=lambda p: p.rows)
        peak = max(points, key=lambda p: p.target_only)
        found[f"{short}-throughput"] = f"{peak.target_only / points[0].target_only:.1f}"
        for which, p in (("first", points[0]), ("peak", peak), ("last", points[-1])):
            found |= {f"{short}-{which}-rows": p.rows, f"{short}-{which}-gain": f"{p.gain:.2f}"}
    gains = gains_by_context()
    for short, context in (("short", min(gains)), ("long", max(gains))):
        rows, gain = gains[context][-1]
        found |= {f"{short}-context": f"{context:,}", f"{short}-rows": rows, f"{short}-gain": f"{gain:.2f}"}
    return found | {"contexts-k": K}


def memory():
    """What the weights and a row's cache of the shipped models take."""
    parts = measure_memory(load_pair("stories"))
    of = {name: sum(parts[name, what] for what in ("weights", "cache")) for name in ("target", "draft")}
    sizes = {f"{model}-{what}": size(number) for (model, what), number in parts.items()}
    return sizes | {"memory-more": f"{of['draft'] / of['target']:.1%}"}


def roundings():
    """What rounding amounts to, type by type, and what the proof allows for it."""
    record = rounding.recorded()
    return {
        "rounding-texts": f"{record['texts']} texts of {record['tokens']} tokens",
        "rounding-tokens": record["tokens"],
        "float32-limit": f"{FLOAT32_LIMIT:g}",
        "narrow-cap": f"{NARROW_CAP:g}",
        **{
            f"{what}-{dtype}": f"{record['types'][dtype][what]:.1g}"
            for dtype in rounding.TYPES
            for what in ("logit", "token", "text")
        },
    }


def bugs():
    """How many bugs the zoo has, what they do, and how many a check finds."""
    found = {f"found-{check.name.replace('-like', '')}": found_by(check.name) for check in CHECKS}
    return found | {
        "bugs": len(MUTANTS),
        "bugs-recorded": len(saved("zoo").points),
        "bugs-seen": sum(not mutant.seen.startswith("not seen") for mutant in MUTANTS),
        **{f"bugs-{e}": sum(m.effect == e for m in MUTANTS) for e in ("biased", "slower", "breaks")},
    }


class FactRole(SphinxRole):
    """`` {fact}`name` ``: a measured number, as text; words of a recorded run, as code."""

    def run(self):
        """Looks it up; an unknown name is an error of the page."""
        try:
            fact = tell(self.text) if ":" in self.text else str(facts()[self.text])
        except (KeyError, ValueError) as error:
            message = self.inliner.reporter.error(f"there is no fact {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        words = fact.strip("`")
        return [nodes.Text(fact) if words == fact else nodes.literal(text=words)], []


def setup(app):
    """Tells Sphinx of the role."""
    app.add_role("fact", FactRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
