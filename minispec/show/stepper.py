"""The stepper: a run to walk through, back and forth, in a notebook or a browser.

It is one piece of HTML that loads nothing. Each step is a block that stands open; a small script hides all
but one and adds buttons, a slider and keys. Where scripts are stripped all steps can be read one after
another; where styles are stripped too, glyphs and tables still say everything.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from minispec.io.recording import Recording
from minispec.show.step_html import legend_html, step_html
from minispec.show.step_page import SCRIPT, STYLE, page
from minispec.show.step_records import Step
from minispec.show.steps import steps


class Stepper:
    """A run, step by step.

    Attributes:
        steps: what it shows.
        title: what it is called.
    """

    def __init__(
        self, recording: Recording, *, row: int = 0, rounds: int | None = None, title: str | None = None
    ) -> None:
        """Takes a recording apart.

        Args:
            recording: a run.
            row: which row of the batch.
            rounds: only this many from the start; None: all.
            title: what to call it; by default what the recording says of itself.

        Raises:
            ValueError: if there is no such row, or `rounds` is below 1.
        """
        self.steps: list[Step] = steps(recording, row, rounds)
        self.title = title or default_title(recording)
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

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.text()}


def default_title(recording: Recording) -> str:
    """Returns what a recording says of itself, in a line."""
    config = recording.trace.config
    verifier = str(config.get("verifier", "")).removeprefix("verify_")
    pair = recording.info.get("pair")
    parts = [f"pair {pair}" if pair else "", f"{verifier} verifier" if verifier else ""]
    parts.append(f"temperature {config['temperature']:g}" if "temperature" in config else "")
    parts.append(f"K = {config['k']}" if "k" in config else "")
    line = ", ".join(part for part in parts if part)
    return line[:1].upper() + line[1:] or "Speculative decoding"
