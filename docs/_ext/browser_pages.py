"""The distribution page and the exercises in a page, and their data: directives `distribution` and `blanks`.

All that the scripts of docs/playground know of the package is written here when the book is built: p and q of
recorded places, the zoo's bugs, and what exercises are tried on, should give and say. No script has a copy.
"""

import copy
import html
import json
import math
import re
import tomllib
from functools import cache
from itertools import count
from pathlib import Path

import torch
from docutils import nodes
from running_example import at, run
from sphinx.util.docutils import SphinxDirective

from minispec.classroom.cards import STYLES
from minispec.classroom.exercise import OTHER, join_lines
from minispec.classroom.exercises import CODE
from minispec.classroom.running import BLANK_TEXT, run_answer
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import diff

FOLDER = Path(__file__).resolve().parents[1] / "playground"
ROUNDS = 10_000
ALARM = 1e-4  # the probability that a right verifier leaves the envelope anywhere, at most
KEPT = 8  # tokens of a place; the others are counted as one
ROW = 26  # pixels


def read_table(name):
    """Reads a table of docs/playground."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def distribution_data():
    """Returns what the distribution page runs on: places, verifiers, and how many rounds are played."""
    return {"rounds": ROUNDS, "places": places(), "verifiers": verifiers()}


def places():
    """Returns the walk-through's hard place, the one where its target is least sure, and notebook 6's."""
    _, hard = at("rejection", "corrected")
    rounds = run("rejection").trace.rounds
    everywhere = [(r, i) for r in rounds for i in range(r.drafted(0))]
    unsure = max(everywhere, key=lambda at: float(torch.special.entr(at[0].target_probs[0, at[1]]).sum()))
    found = [
        recorded_place("the walk-through's hard place", hard, hard.tested(0) - 1),
        recorded_place("where its target is least sure", *unsure),
        {
            "name": "notebook 6: three tokens",
            "words": list("abc"),
            "p": [3 / 6, 2 / 6, 1 / 6],
            "q": [1 / 6, 1 / 6, 4 / 6],
        },
    ]
    for place in found:
        place["limits"] = [limits(ROUNDS, p, ALARM / len(place["p"]) / 2) for p in place["p"]]
    return found


def recorded_place(name, r, i):
    """Returns p and q where token i of a round was drafted: their most probable tokens, and the rest."""
    recording = run("rejection")
    p = r.target_probs[0, i].double()
    q = r.draft.probs[0, i].double()
    kept = torch.maximum(p, q).topk(KEPT).indices
    before = [*recording.trace.committed(0, r.index), *r.draft.tokens[0, :i].tolist()]
    text = "".join(recording.words[token] for token in before[-4:]).strip()
    words = [recording.words[token].strip() or "(space)" for token in kept.tolist()]
    dists = (
        [*dist[kept].tolist(), float(dist.sum() - dist[kept].sum())] for dist in (p / p.sum(), q / q.sum())
    )
    p, q = ([max(0.0, x) for x in dist] for dist in dists)
    return {"name": f"{name}: after “{text}”", "words": [*words, "(all others)"], "p": p, "q": q}


def limits(n, p, tail):
    """Returns the least and the most that a count is: beyond each, Binomial(n, p) has at most `tail`.

    Taken over all bins, each tail with alarm / (2 · bins), no count leaves with probability 1 − alarm at
    least, whatever counts have to do with each other: Bonferroni's inequality. `p` is below 1.
    """

    def probability(k):
        if p == 0:
            return float(k == 0)
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))

    def reach(counts):
        mass = 0.0
        for k in counts:
            mass += probability(k)
            if mass > tail:
                return k
        return n

    return [reach(count()), reach(range(n, -1, -1))]


def verifiers():
    """Returns the verifiers by name: their formulas, and what is to be known of them."""
    found = read_table("distribution")
    for name, fields in found.items():
        if "about" not in fields:
            mutant = mutant_named(name)
            fields["title"] = f"bug: {mutant.title}"
            fields["about"] = f"{mutant.name}. Seen: {mutant.seen}\n\n{diff(mutant)}"
        else:
            fields["about"] = join_lines(fields["about"])
    return found


@cache
def exercises_data():
    """Returns what the exercises in the page run on and say."""
    headings = {kind: "{glyph} {word}".format_map(STYLES[kind]) for kind in ("right", "wrong", "blank")}
    exercises = [exercise_data(CODE[key], fields) for key, fields in read_table("exercises").items()]
    return {"headings": headings, "blank": BLANK_TEXT, "other": OTHER, "exercises": exercises}


def exercise_data(exercise, fields):
    """Returns an exercise: its cases, what should come out of each, and what typical wrong answers give."""

    def outcomes(answer):
        runs = (
            run_answer(exercise.run, answer, copy.deepcopy(case), exercise.read)
            for case in exercise.ordered_cases
        )
        return [*map(written, runs)]

    cases = [
        {
            "given": case,
            "text": exercise.case.format(*case) or f"{exercise.function}({', '.join(map(str, case))})",
        }
        for case in exercise.ordered_cases
    ]
    wrong = [
        {"message": message, "outcomes": outcomes(answer)} for message, answer in exercise.wrong.values()
    ]
    said = {name: getattr(exercise, name) for name in ("key", "title", "praise")}
    expected = outcomes(exercise.right)
    return {**said, "names": fields["names"], "cases": cases, "expected": expected, "wrong": wrong}


def written(outcome):
    """Returns what came of a run as a text, as exercises.js writes it: equal results are equal texts."""
    value = outcome.value
    if outcome.kind or any(isinstance(x, float) and math.isnan(x) for x in value):
        return "nothing"
    if value and isinstance(value[0], tuple):
        lines = (f"\n    {list(ids)} with probability {number(y)}" for ids, y in value)
        return ", ".join(sorted(lines))
    return ", ".join(map(number, value))


def number(value):
    """Returns a number with 9 decimals at most, as JavaScript writes it."""
    return f"{round(value, 9) + 0.0:.9f}".rstrip("0").rstrip(".")


def distribution_html():
    """Returns the controls of the distribution page, and a chart with its table for each place."""
    data = distribution_data()
    verifiers = {name: fields["title"] for name, fields in data["verifiers"].items()}
    parts = (place_html(number, place) for number, place in enumerate(data["places"]))
    return f"""<form id="dist-form" class="dist" novalidate autocomplete="off">
{choice("verifier", "Verifier", verifiers | {"yours": "yours: the two formulas below"})}
{choice("place", "Place", {i: place["name"] for i, place in enumerate(data["places"])})}
{box("test", "Accept", "a drafted token x is accepted if")}
{box("residual", "Residual", "else the token is drawn from")}
<p><label for="dist-seed">Seed</label>
<input id="dist-seed" type="number" required min="0" max="4294967295" step="1" value="0">
<button type="button" id="dist-play">Play {ROUNDS:,} rounds</button></p></form>
<p id="dist-fault" role="alert"></p><p id="dist-verdict" role="status"></p>
{"".join(parts)}<p id="dist-drawn" role="status"></p><pre id="dist-about" tabindex="0"></pre>"""


def choice(name, label, options):
    """Returns a list to choose from."""
    inner = "".join(
        f'<option value="{value}">{html.escape(text)}</option>' for value, text in options.items()
    )
    return f'<p><label for="dist-{name}">{label}</label> <select id="dist-{name}">{inner}</select></p>'


def box(name, label, meaning):
    """Returns a box for a formula."""
    return (
        f'<p><label for="dist-{name}">{label}</label> <span>{meaning}</span> '
        f'<input id="dist-{name}" name="{name}" spellcheck="false" autocapitalize="off"></p>'
    )


def place_html(number, place):
    """Returns the chart of a place, whose lengths are square roots, and the same as a table."""
    rows = list(zip(place["words"], place["p"], place["q"], place["limits"], strict=True))
    bars = "".join(bar_html(i, *row) for i, row in enumerate(rows))
    cells = "".join(
        f'<tr><th scope="row">{html.escape(word)}</th><td>{p:.6f}</td><td>{q:.6f}</td>'
        '<td class="dist-exact"></td><td class="dist-count"></td>'
        f'<td>{low} to {high}</td><td class="dist-where"></td></tr>'
        for word, p, q, (low, high) in rows
    )
    titles = ("token", "target, p", "draft, q", "comes out, exactly", "counted", "envelope", "the count is")
    heads = "".join(f'<th scope="col">{title}</th>' for title in titles)
    label = "Counts over the target's distribution; the table says the same"
    return f"""<section class="dist-place" id="dist-place-{number}"{" hidden" if number else ""}>
<svg width="100%" height="{ROW * len(rows)}" role="img" aria-label="{label}">
{bars}</svg><div tabindex="0" class="dist-scroll"><table><thead><tr>{heads}</tr></thead>
<tbody>{cells}</tbody></table></div></section>
"""


def bar_html(i, word, p, q, envelope):
    """Returns a row of a chart: the envelope, what came out over it, p and q."""
    low, high, at_p, at_q = (100 * math.sqrt(x) for x in (envelope[0] / ROUNDS, envelope[1] / ROUNDS, p, q))
    return f"""<text x="21%" y="{ROW * i + 18}" text-anchor="end">{html.escape(word)}</text>
<svg x="23%" y="{ROW * i}" width="72%" height="{ROW}" overflow="visible">
<rect class="dist-envelope" x="{low:.2f}%" y="2" width="{high - low:.2f}%" height="22"/>
<rect class="dist-bar" y="7" height="12" width="0"/>
<rect class="dist-q" x="{at_q:.2f}%" y="14" width="3" height="10"/>
<text class="dist-letter" x="{at_q:.2f}%" dx="5" y="24">q</text>
<rect class="dist-p" x="{at_p:.2f}%" y="1" width="3" height="13"/>
<text class="dist-letter" x="{at_p:.2f}%" dx="5" y="10">p</text></svg>
"""


def blanks_html(key):
    """Returns an exercise as a form: its program with boxes for blanks, and hints under lines that open."""
    exercise = CODE[key]
    numbers = count(1)

    def blank(match):
        number = next(numbers)
        return (
            f'<label for="{key}-{number}">Blank {number}</label>'
            f'<input id="{key}-{number}" spellcheck="false" autocapitalize="off">'
        )

    program = re.sub("____", blank, html.escape(read_table("exercises")[key]["program"].strip()))
    hints = "".join(
        f"<details><summary>Hint {i}</summary><p>{html.escape(hint)}</p></details>"
        for i, hint in enumerate(exercise.hints, 1)
    )
    picture = f'<pre tabindex="0">{html.escape(exercise.picture.rstrip())}</pre>' if exercise.picture else ""
    return f"""<p>{html.escape(exercise.goal)}</p>{picture}
<form class="blanks" id="blanks-{key}" novalidate autocomplete="off"><pre tabindex="0">{program}</pre>{hints}
<button type="submit">Check: {html.escape(exercise.title)}</button>
<output><p></p><pre tabindex="0"></pre></output></form>"""


class Distribution(SphinxDirective):
    """The controls and charts of the distribution page."""

    def run(self):
        self.env.note_dependency(str(FOLDER / "distribution.toml"))
        return [nodes.raw("", distribution_html(), format="html")]


class Blanks(SphinxDirective):
    """An exercise with blanks, by its key."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(str(FOLDER / "exercises.toml"))
        return [nodes.raw("", blanks_html(self.arguments[0]), format="html")]


def write_data(app, failed):
    """Writes what the scripts run on beside them."""
    folder = Path(app.outdir) / FOLDER.name
    if failed or app.builder.format != "html" or not folder.is_dir():
        return
    for name, data in (("DISTRIBUTION", distribution_data()), ("EXERCISES", exercises_data())):
        script = f'"use strict";\nconst {name} = {json.dumps(data, allow_nan=False)};\n'
        (folder / f"{name.lower()}_data.js").write_text(script, encoding="utf-8")


def setup(app):
    """Tells Sphinx of the directives."""
    app.add_directive("distribution", Distribution)
    app.add_directive("blanks", Blanks)
    app.connect("build-finished", write_data)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
