"""The playground's pages: `` ```{playground} `` puts it on one, in the signs and colours of the book.

Scripts and styles of docs/playground are copied beside the pages. A browser gets told to run no script but
these: a page there that loads another, or builds code from text, is stopped by its Content-Security-Policy.
"""

import base64
import hashlib
import html
import re
import shutil
from pathlib import Path
from string import Template

from docutils import nodes
from running_example import run
from sphinx.util.docutils import SphinxDirective

from minispec.show.signs import STATES
from minispec.show.step_html import bar_fill, paint
from minispec.show.stepper import Stepper

FOLDER = Path(__file__).resolve().parents[1] / "playground"
BARS = {"p": "the target's distribution", "q": "the draft's distribution", "residual": "norm(max(0, p − q))"}
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'{}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'"
)
INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
CHARSET = '<meta charset="utf-8">'


class Playground(SphinxDirective):
    """The page's controls, and the scripts that fill them."""

    def run(self):
        """Returns it with the recorded prompt in its box."""
        page = FOLDER / "play.html"
        self.env.note_dependency(str(page))
        words = run("greedy")
        prompt = "".join(words.words[token] for token in words.trace.prompts[0])
        filled = Template(page.read_text(encoding="utf-8")).substitute(
            prompt=html.escape(prompt),
            signs=" ".join(map(sign, STATES)),
            bars=" ".join(f'<span><i data-bar="{name}" style="background:{bar_fill(name)}"></i> {name}: {word}</span>' for name, word in BARS.items()),
            recorded=Stepper(run("rejection"), rounds=2).html(),
            accepted=f"background:{STATES['accepted'].colour}",
        )
        return [nodes.raw("", filled, format="html")]


def sign(name):
    """Returns the legend's word for a state; scripts take colour and glyph from it."""
    state = STATES[name]
    data = f'data-sign="{name}" data-glyph="{state.glyph}" data-colour="{state.colour}" title="{state.word}"'
    return f'<span {data} style="{paint(name)}">{state.glyph} {state.word}</span>'


def protected(page):
    """Returns a page that runs its own scripts alone: files beside it, and what stands in it now, by hash."""
    digests = (hashlib.sha256(script.encode()).digest() for script in INLINE.findall(page))
    known = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in dict.fromkeys(digests))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(known)}">'
    return page.replace(CHARSET, f"{CHARSET}\n    {policy}", 1)


def finish(app, failed):
    """Copies scripts and styles, and protects the pages."""
    folder = Path(app.outdir) / FOLDER.name
    if failed or app.builder.format != "html" or not folder.is_dir():
        return
    for pattern in ("*.js", "*.css"):
        for path in FOLDER.glob(pattern):
            shutil.copy(path, folder)
    for path in folder.glob("*.html"):
        path.write_text(protected(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app):
    app.add_directive("playground", Playground)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
