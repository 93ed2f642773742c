"""Figures on pages, by name, drawn at build from what was recorded; `made.py` puts them there."""

import html

from book import forms, handouts, papers
from book.atlas import RECORDED
from book.atlas_plots import atlas_figure
from book.bench_plots import every_prediction, matrix, seven_billion, speeds_of, tokens_per_second
from book.contexts import K, gains_by_context
from book.reports import measurement_of, saved_reports
from running_example import at, drafted_of, run

from minispec.core.verify import verify_rejection
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.files import read_json
from minispec.show.plots.caches import cache_grid, recomputation, steps_with_cache, steps_without_cache
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.distributions import rule_distribution
from minispec.show.plots.drafts import draft_bars
from minispec.show.plots.masks import attention_mask, tree_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import (
    batch_sweep,
    draft_sweep,
    gain_by_rows,
    latency,
    predicted_measured,
    speed_up_curves,
)
from minispec.show.plots.timeline import timeline
from minispec.show.plots.verification import verification_strip
from minispec.show.stepper import Stepper

P = [count / 6 for count in forms.P]
Q = [count / 6 for count in forms.Q]
ALPHAS = (0.3, 0.6, 0.8, 0.9)
HANDOUTS = "_static/handouts"  # where `made.py` writes them


def of_rule():
    """Returns what comes out of the rejection rule."""
    return rule_distribution(first_token(verify_rejection, P, Q), P, "abc", q=Q)


def sampled_again():
    """Returns what comes out if the correction is drawn from p itself."""
    with planted(mutant_named("correction-from-p")):
        return of_rule()


def points(kind, pair="stories"):
    """Returns the points of one kind in a pair's report."""
    (report,) = saved_reports([pair])
    return measurement_of(report, kind).points


def curves(pair="stories"):
    """Returns the predicted speed-up against K, and what was measured."""
    measured = points("speed", pair)
    return speed_up_curves(ALPHAS, measured[0].c, measured, most=16)


def predictions(pair):
    """Returns every predicted speed-up against the measured one."""
    (report,) = saved_reports([pair])
    return every_prediction(report["sections"]["prediction"]["compared"]["rows"])


# Of the running example: the run, and the round.


def caches(kind, name, *moments):
    """Returns both caches in a round; moments are written with hyphens."""
    recording, r = at(kind, name)
    chosen = [moment.replace("-", " ") for moment in moments] or None
    return cache_grid(recording.trace, recording.words, r.index, chosen)


def mask(kind, name):
    """Returns what each token of a round's block sees."""
    recording, r = at(kind, name)
    block = [int(r.pending[0]), *drafted_of(r)]
    return attention_mask(r.target_cache.before[0], r.drafted(0), [recording.words[t] for t in block])


def tree(kind, name):
    """The draft, and beside the token that was rejected the one that the target wants there."""
    recording, r = at(kind, name)
    drafted = drafted_of(r)
    kept = r.accepted(0)
    tokens = [int(r.pending[0]), *drafted[: kept + 1], int(r.verdict.token[0]), *drafted[kept + 1 :]]
    after = [kept + 1, *range(kept + 3, len(tokens))]  # what follows the rejected token
    parents = [*range(kept + 1), kept, *after[: len(tokens) - kept - 3]]
    return tree_mask(parents, [recording.words[token] for token in tokens], r.target_cache.before[0])


def verification(kind, name):
    """Returns the verdict of a round."""
    recording, r = at(kind, name)
    return verification_strip(r, recording.words, handouts.numbers_drawn(recording, r.index))


def tested(kind, name):
    """Returns p and q where the last token of a round was tested."""
    recording, r = at(kind, name)
    last = r.tested(0) - 1
    number = handouts.numbers_drawn(recording, r.index)[last]
    token = int(r.draft.tokens[0, last])
    return overlap(r.target_probs[0, last], r.draft.probs[0, last], recording.words, token, number)


def recomputed():
    """Returns how much less is computed with a cache."""
    prompt = len(run("greedy").trace.prompts[0])
    return recomputation(steps_without_cache(prompt, 12), steps_with_cache(prompt, 12))


def stepper(kind):
    """Returns the first rounds of a run to walk through; without scripts all its steps stand open."""
    return Stepper(run(kind), rounds=6).html()


def sheets():
    """Returns all handouts below each other; on paper, one a page."""
    parts = [f'<p><a href="../{HANDOUTS}/handouts.pdf">All pages as a PDF</a></p>']
    for number, page in enumerate(handouts.handouts(), 1):
        alt = " ".join([f"{page.title}.", *(picture.alt for picture in page.pictures)])
        twin = "\n\n".join(f"{picture.caption}\n\n{picture.twin}" for picture in page.pictures)
        parts.append(
            f'<figure class="handout"><img alt="{html.escape(alt, quote=True)}" '
            f'src="../{HANDOUTS}/{number:02d}.png"></figure>'
            f'<details class="handout"><summary>{html.escape(page.title)}: the same in words</summary>'
            f'<pre tabindex="0">{html.escape(twin)}</pre></details>'
        )
    return "\n".join(parts)


FIGURES = {
    "atlas": lambda: atlas_figure(read_json(RECORDED)["rules"]),
    "long-contexts": lambda: gain_by_rows(gains_by_context(), K),
    "batch-sweep": lambda *pair: batch_sweep(points("batches", *pair)),
    "caches": caches,
    "coloured": lambda kind: coloured_text(run(kind).trace, run(kind).words),
    "draft": lambda kind, name: draft_bars(at(kind, name)[1], run(kind).words),
    "draft-sweep": lambda *pair: draft_sweep(points("drafts", *pair)),
    "every-prediction": predictions,
    "handouts": sheets,
    "kill-matrix": matrix,
    "latency": lambda *pair: latency(points("latency", *pair)),
    "mask": mask,
    "overlap": lambda: overlap(P, Q, "abc"),
    "paper": papers.figure,
    "predicted-measured": lambda: predicted_measured(points("speed")),
    "recomputation": recomputed,
    "rejection-distribution": of_rule,
    "sampled-again-distribution": sampled_again,
    "seven-billion": seven_billion,
    "speed-up-curves": curves,
    "stepper": stepper,
    "tested": tested,
    "timeline": lambda kind: timeline(run(kind).trace, run(kind).words),
    "tokens-per-second": lambda pair: tokens_per_second(speeds_of(*saved_reports([pair]))),
    "tree": tree,
    "verification": verification,
}
