"""The stepper: a run to step through, back and forth, in a notebook or a browser.

It is one piece of HTML that loads nothing. Each step is a block that stands open; a small script hides all
but one and adds buttons, a slider and keys. Where scripts are stripped all steps can be read one after
another; where styles are stripped too, glyphs and tables still say everything.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from minispec.io.recording import Recording
from minispec.io.trace import ObservedRound
from minispec.show.step_html import legend_html, step_html
from minispec.show.step_records import Step, Token
from minispec.show.step_rounds import ENDS, RoundSteps, settled
from minispec.show.text import check_chain, count, printable, quoted

RoundRow = tuple[ObservedRound, int]  # a round, and the row of it that is shown
HERE = Path(__file__).parent
SCRIPT = "\n" + (HERE / "step.js").read_text(encoding="utf-8")
PAGE = Template((HERE / "page.html").read_text(encoding="utf-8"))
# In the rules & is the stepper, named twice: so they are stronger than those of the page around it.
STYLE = (HERE / "step.css").read_text(encoding="utf-8").replace("&", ".minispec-stepper.minispec-stepper")
STYLE = STYLE.replace("\n  ", " ").strip()


class Stepper:
    """A run, step by step.

    Attributes:
        steps: what it shows.
        title: what it is called.
    """

    def __init__(
        self, recording: Recording, *, prompt: int = 0, rounds: int | None = None, title: str | None = None
    ) -> None:
        """Takes a recording apart (see `steps`); title: by default what the recording says of itself."""
        self.steps: list[Step] = steps(recording, prompt, rounds)
        self.title = printable(title or default_title(recording))
        self._sampled = recording.trace.config.get("temperature", 0) != 0

    def html(self) -> str:
        """Returns a piece of HTML, the same for the same recording; several may stand on one page."""
        count = len(self.steps)
        blocks = [step_html(step, i, count, self._sampled) for i, step in enumerate(self.steps)]
        return (
            '<div class="minispec-stepper" role="group" tabindex="-1" '
            f'aria-label="{html.escape(self.title, quote=True)}" '
            'style="background:#ffffff;color:#1b1b1b;color-scheme:light">'
            f"<style>{STYLE}</style>"
            f'<p class="ms-name"><strong>{html.escape(self.title)}</strong></p>'
            f"{''.join(blocks)}{legend_html()}"
            f"<script>{SCRIPT}</script></div>"
        )

    def page(self) -> str:
        """Returns a whole HTML document with this stepper alone."""
        return page("Speculative decoding, step by step", [self.html()])

    def text(self) -> str:
        """Returns titles and sentences as plain lines."""
        lines = [self.title]
        for i, step in enumerate(self.steps, 1):
            lines.append(f"{i:3d}. [{step.phase}] {step.title}. {step.sentence}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.text()}


def page(title: str, pieces: Sequence[str]) -> str:
    """Returns a whole HTML document with pieces such as `Stepper.html()`."""
    return PAGE.substitute(title=html.escape(title), pieces="".join(pieces))


def default_title(recording: Recording) -> str:
    """Returns what a recording says of itself, in a line."""
    config = recording.trace.config
    pair = recording.info.get("pair")
    parts = [f"pair {pair}"] if pair else []
    if "verifier" in config:
        parts.append(f"{str(config['verifier']).removeprefix('verify_')} verifier")
    parts += [f"temperature {config['temperature']:g}"] if "temperature" in config else []
    parts += [f"K = {config['k']}"] if "k" in config else []
    line = ", ".join(parts)
    return line[:1].upper() + line[1:] or "Speculative decoding"


def steps(recording: Recording, prompt: int = 0, rounds: int | None = None) -> list[Step]:
    """Takes the text of one prompt apart: a step for prefill, those of each round, and one for the end.

    rounds: only so many of the prompt's own, from its first; None: all.

    Raises:
        ValueError: if there is no such prompt, `rounds` is below 1, or one of the rounds drafted a tree.
    """
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    trace = recording.trace
    live = [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]
    shown = live[:rounds]
    for r, row in shown:
        check_chain(r, row)
    before = [Token(t, recording.words[t], "prompt") for t in trace.prompts[prompt]]
    committed = (*before[:-1], replace(before[-1], state="pending", pending=True))
    finish = trace.finish(prompt) if len(shown) == len(live) else None
    all_steps = [_prefill(before, committed, shown, finish)]
    for r, row in shown:
        round_steps = RoundSteps(recording, r, row, prompt, committed)
        all_steps.extend(round_steps.steps())
        committed = round_steps.committed
    text = settled(committed)
    if finish is not None:
        text = tuple(replace(t, pending=False) for t in text)
    title, sentence = _sum_up(shown, ENDS.get(finish or ""))
    return [
        *all_steps,
        Step("end", title, sentence, text, all_steps[-1].target_cache, all_steps[-1].draft_cache),
    ]


def _prefill(
    prompt: Sequence[Token], committed: tuple[Token, ...], shown: Sequence[RoundRow], finish: str | None
) -> Step:
    if not shown:
        why = "The run ended before this prompt had a row." if finish is None else "Not a single token fits."
        return Step("prefill", "Nothing to do", why, committed, (), None)
    read = tuple(prompt[:-1])
    draft_cache = read if any(r.draft_cache is not None for r, _ in shown) else None
    who = "The target reads the prompt but its last token"
    if draft_cache is not None:
        who = "Both models read the prompt but its last token, each into a cache of its own"
    last = quoted(prompt[-1].text)
    sentence = f"{who}. The last one, {last}, is pending."
    return Step(
        "prefill", f"Prefill: read {count(len(read), 'token')}", sentence, committed, read, draft_cache
    )


def _sum_up(shown: Sequence[RoundRow], end: str | None) -> tuple[str, str]:
    tokens = sum(len(r.emitted[row]) for r, row in shown)
    accepted = sum(r.accepted(row) for r, row in shown)
    title = f"{count(tokens, 'token')} in {count(len(shown), 'target call')}"
    if not shown:
        return title, "Nothing was decoded."
    sentence = (
        f"{end or 'The run goes on from here'}. Alone, the target needs {count(tokens, 'call')}; here it "
        f"needed {len(shown)}."
    )
    if tested := sum(r.tested(row) or 0 for r, row in shown):
        sentence += f" Of {tested} guesses tested, {accepted} were accepted."
    return title, sentence
