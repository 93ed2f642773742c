"""The stepper: a run to step through, back and forth, in a notebook or a browser.

It is one piece of HTML that loads nothing. Each step is a block that stands open; a small script hides all
but one and adds buttons, a slider and keys. Where scripts are stripped all steps can be read one after
another; where styles are stripped too, glyphs and tables still say everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minispec.io.recording import Recording
from minispec.io.trace import ObservedRound
from minispec.show.step_html import PAGE, stepper_html
from minispec.show.step_records import Step, Token
from minispec.show.step_rounds import ENDS, RoundSteps, settled
from minispec.show.text import check_chain, count, decided, live_rounds, printable, quoted, verdicts

RoundRow = tuple[ObservedRound, int]  # a round, and the row of it that is shown


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
        return stepper_html(self.title, self.steps, self._sampled)

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
    return PAGE.render(title=title, pieces=pieces)


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
    live = live_rounds(trace, prompt)
    live_rows = live[:rounds]
    for r, row in live_rows:
        check_chain(r, row)
    before = [Token(t, recording.words[t], "prompt") for t in trace.prompts[prompt]]
    committed = (*before[:-1], replace(before[-1], state="pending", pending=True))
    finish = trace.finish(prompt) if len(live_rows) == len(live) else None
    all_steps = [_prefill(before, committed, live_rows, finish)]
    for r, row in live_rows:
        round_steps = RoundSteps(recording, r, row, prompt, committed)
        all_steps.extend(round_steps.steps())
        committed = round_steps.committed
    text = settled(committed)
    if finish is not None:
        text = tuple(replace(t, pending=False) for t in text)
    title, sentence = _sum_up(live_rows, ENDS.get(finish or ""))
    return [
        *all_steps,
        Step("end", title, sentence, text, all_steps[-1].target_cache, all_steps[-1].draft_cache),
    ]


def _prefill(
    prompt: Sequence[Token], committed: tuple[Token, ...], live_rows: Sequence[RoundRow], finish: str | None
) -> Step:
    if not live_rows:
        reason = (
            "The run ended before this prompt had a row." if finish is None else "Not a single token fits."
        )
        return Step("prefill", "Nothing to do", reason, committed, (), None)
    read = tuple(prompt[:-1])
    draft_cache = read if any(r.draft_cache is not None for r, _ in live_rows) else None
    subject = "The target reads the prompt but its last token"
    if draft_cache is not None:
        subject = "Both models read the prompt but its last token, each into a cache of its own"
    last = quoted(prompt[-1].text)
    sentence = f"{subject}. The last one, {last}, is pending."
    return Step(
        "prefill", f"Prefill: read {count(len(read), 'token')}", sentence, committed, read, draft_cache
    )


def _sum_up(live_rows: Sequence[RoundRow], end: str | None) -> tuple[str, str]:
    tokens = sum(len(r.emitted[row]) for r, row in live_rows)
    accepted = sum(verdicts(r, row).count("accepted") for r, row in live_rows)
    title = f"{count(tokens, 'token')} in {count(len(live_rows), 'target call')}"
    if not live_rows:
        return title, "Nothing was decoded."
    sentence = (
        f"{end or 'The run goes on from here'}. Alone, the target needs {count(tokens, 'call')}; here it "
        f"needed {len(live_rows)}."
    )
    if tested := sum(decided(r, row) for r, row in live_rows):
        sentence += f" Of {tested} guesses tested, {accepted} were accepted."
    return title, sentence
