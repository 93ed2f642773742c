"""The playground on a page, by `` ```{playground} ``, in the book's signs; and what its pages may run.

A page links to a state of it: `` {playground}`words <greedy:corrected.decide&seed=1>` `` is a phase in a
round of a recorded run, as `running_example.py` names them, with other settings after `&`.

A browser is told to run no script on these pages but the book's own: by a Content-Security-Policy, which also
forbids to build code from text, and to ask any other place for anything.
"""

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template
from urllib.parse import parse_qsl, urlencode

from book.playground import PLAYGROUND, write_playground
from docutils import nodes
from running_example import at, run
from sphinx.util.docutils import ReferenceRole, SphinxDirective

from minispec.io.checkpoint import load_pair
from minispec.show.signs import STATES
from minispec.show.step_html import bar_fill, paint
from minispec.show.stepper import Stepper

BARS = {
    "p": "p, the target's",
    "q": "q, the draft's",
    "residual": "the residual, norm(max(0, p − q))",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'{}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'"
)
PHASES = ("prefill", "draft", "verify", "decide", "commit")  # the first once, the others in each round
INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
CHARSET = '<meta charset="utf-8">'


class Playground(SphinxDirective):
    """The page's controls, and a recorded run for browsers that cannot run models."""

    def run(self):
        """Returns them, with the recorded prompt in its box."""
        page = PLAYGROUND / "play.html"
        self.env.note_dependency(str(page))
        recording = run("rejection")
        prompt = "".join(recording.words[token] for token in recording.trace.prompts[0])
        states = (f'<span data-state="{name}">{state.word}</span>' for name, state in STATES.items())
        bars = (f'<span><i data-bar="{name}"></i> {word}</span>' for name, word in BARS.items())
        filled = Template(page.read_text(encoding="utf-8")).substitute(
            style=style(),
            prompt=html.escape(prompt),
            signs=" ".join([*states, *bars]),
            recorded=Stepper(recording, rounds=2).html(),
        )
        return [nodes.raw("", filled, format="html")]


class State(ReferenceRole):
    """A link to the playground, at a state that the recorded run is in."""

    def run(self):
        """Returns the link."""
        where, _, others = self.target.partition("&")
        try:
            fragment = urlencode(state(where) | dict(parse_qsl(others)))
        except ValueError as error:
            return [], [self.inliner.reporter.error(f"playground: {error}")]
        page = f"{'../' * self.env.docname.count('/')}{PLAYGROUND.name}/index.html"
        return [nodes.reference("", self.title, refuri=f"{page}#{fragment}")], []


def state(where):
    """Returns the fields of a link to a phase, such as `greedy:corrected.decide`.

    Raises:
        ValueError: if there is no such run, round or phase.
    """
    run_name, _, rest = where.partition(":")
    round_name, _, phase = rest.partition(".")
    if phase not in PHASES:
        raise ValueError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")
    recording, r = at(run_name, round_name)
    config = recording.trace.config
    settings = {"k": config["k"], "temperature": f"{config['temperature']:g}", "verifier": run_name}
    return settings | {"at": (len(PHASES) - 1) * r.index + PHASES.index(phase)}


def style():
    """Returns how states and distributions look, as CSS: each sign stands before its token."""
    rules = [f'[data-bar="{name}"] {{background: {bar_fill(name)}}}' for name in BARS]
    for name, state in STATES.items():
        chosen = f'[data-state="{name}"]'
        rules += [
            f"{chosen} {{{paint(name)}}}",
            f'{chosen}::before {{content: "{state.glyph}"}}',
            f".play-track {chosen} {{background: {state.colour}; border: 0}}",
        ]
    return "\n".join(f".play {rule}" for rule in rules)


def protected(page):
    """Returns a page that runs files of the book, and what stands in it now, by its hash; nothing else."""
    digests = (hashlib.sha256(script.encode()).digest() for script in INLINE.findall(page))
    known = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in dict.fromkeys(digests))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(known)}">'
    return page.replace(CHARSET, f"{CHARSET}\n    {policy}", 1)


def finish(app, failed):
    """Writes the scripts beside the built pages, the shipped pair as one of them; and protects the pages."""
    if not failed and app.builder.format == "html":
        folder = Path(app.outdir) / PLAYGROUND.name
        write_playground(folder, load_pair())
        for path in folder.glob("*.html"):
            path.write_text(protected(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app):
    app.add_directive("playground", Playground)
    app.add_role("playground", State())
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
