"""The stepper as HTML: what it says is the trace, with and without scripts and styles."""

import re
from html.parser import HTMLParser

import pytest
from eyesight import contrast

from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.signs import STATES
from minispec.show.step_html import LEGEND, paint, wash
from minispec.show.stepper import Stepper, page
from minispec.show.text import shown as token_text

VOID = {"meta", "input", "br", "img"}


class Page(HTMLParser):
    """Reads HTML: the tokens of each step, all text outside scripts and styles, and faults of nesting."""

    def __init__(self, source):
        super().__init__()
        self.open, self.faults, self.text, self.links = [], [], [], []
        self.steps, self.unpainted = [], []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [value for name, value in attributes if name in ("src", "href", "action", "srcset")]
        if tag in VOID:
            return
        self.open.append((tag, given))
        if "ms-step" in given.get("class", ""):
            self.steps.append({"attributes": given, "text": [], "tokens": []})
        if "data-token" in given:
            part = next((a["data-part"] for _, a in reversed(self.open) if "data-part" in a), None)
            row = next((a["data-row"] for _, a in reversed(self.open) if "data-row" in a), None)
            near = given.get("style") or self.open[-2][1].get("style", "")
            if given["data-state"] != "prompt" and near != paint(given["data-state"]):
                self.unpainted.append(given)
            self.steps[-1]["tokens"].append((part or row, int(given["data-token"]), given["data-state"]))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()[0] != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        inside = [tag for tag, _ in self.open]
        if not {"script", "style"} & set(inside):
            self.text.append(data)
            if "details" in inside:
                self.steps[-1]["text"].append(data)


@pytest.fixture(scope="module", params=["greedy", "rejection"])
def shown(request):
    recording = load_walkthrough(request.param)
    stepper = Stepper(recording)
    return recording, stepper, Page(stepper.page())


def test_is_sound_html_that_loads_nothing(shown):
    """Tags nest, no file or address is named, the page has language and title; it is the same each time."""
    recording, stepper, read = shown
    source = stepper.page()
    assert read.faults == [] and read.links == []
    assert "://" not in source and "url(" not in source and "@import" not in source
    assert '<html lang="en">' in source and re.search("<title>.+</title>", source)
    assert Stepper(recording).page() == source and not re.search(r'\sid="', source)


def test_each_step_shows_its_text_and_its_caches(shown):
    """The tokens in their states: those after the prompt, and the last of both caches before what was cut."""
    _, stepper, read = shown
    for step, block in zip(stepper.steps, read.steps, strict=True):
        parts = {name: [] for name, _, _ in block["tokens"]}
        for name, token, state in block["tokens"]:
            parts[name].append((token, state))
        prompt = "".join(t.text for t in step.text if t.state == "prompt")
        assert "".join(block["text"]).count(prompt) == 1
        assert parts["text"] == [
            (t.id, t.state) for t in step.text if step.round is None or t.state != "prompt"
        ]
        caches = {"target's cache": (step.target_cache, step.target_cut)}
        caches["draft's cache"] = (step.draft_cache, step.draft_cut)
        for row, (held, cut) in caches.items() if step.positions else ():
            found = parts.get(row, [])
            first = len(held) + len(cut) - len(found)
            assert found == [(t.id, t.state) for t in (*held, *cut)[first:]]
            assert first == min(step.before, len(held)) and f"{row}{first}" in "".join(block["text"])


def test_without_scripts_and_styles_all_is_said(shown):
    """Scripts, style sheets and inline styles stripped, every step is open and has its title and sentence."""
    _, stepper, _ = shown
    bare = re.sub(r"<(script|style)>.*?</\1>", "", stepper.html(), flags=re.DOTALL)
    bare = re.sub(r' style="[^"]*"', "", bare)
    assert "<script" not in bare and "style" not in bare
    read = Page(bare)
    assert len(read.steps) == len(stepper.steps)
    for step, block in zip(stepper.steps, read.steps, strict=True):
        text = "".join(block["text"])
        assert "open" in block["attributes"] and "hidden" not in block["attributes"]
        assert step.title in text and step.sentence in text
        for state in {t.state for t in step.text} - {"prompt"}:
            assert STATES[state].glyph in text
        for bar in step.chart.bars:
            assert token_text(bar.text) in text
        if step.draw is not None and step.draw.number is not None:
            assert f"{step.draw.number:.4f}" in text


def test_colours_do_not_hang_on_the_style_sheet(shown):
    """Each token, or the run that it stands in, has the colours of its state itself; rows have their paper.

    JupyterLab's dark theme paints every other row of a table black.
    """
    _, stepper, read = shown
    assert read.unpainted == []
    bodies = re.findall("<tbody>(.*?)</tbody>", stepper.html())
    rows = [row for body in bodies for row in re.findall("<tr[^>]*>", body)]
    assert rows and all('style="background:#ffffff"' in row for row in rows)


def test_mime_bundle(shown):
    """A notebook gets HTML, and plain text with every title and sentence."""
    _, stepper, _ = shown
    bundle = stepper._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"} and bundle["text/html"] == stepper.html()
    lines = bundle["text/plain"].splitlines()
    assert len(lines) == len(stepper.steps) + 1
    assert all(s.sentence in line for s, line in zip(stepper.steps, lines[1:], strict=True))


def test_a_sampled_test_shows_the_rule_and_its_numbers():
    """A test with a number drawn says u, min(1, p/q) and which is larger; a correction shows its residual."""
    recording = load_walkthrough("rejection")
    stepper = Stepper(recording)
    said = {True: [], False: []}
    for step, block in zip(stepper.steps, Page(stepper.html()).steps, strict=True):
        text = "".join(block["text"])
        if step.phase == "test" and step.draw is not None and step.draw.number is not None:
            yes = bool(step.draw.outcome)
            than = "is below min(1, p/q): accepted" if yes else "is not below min(1, p/q): rejected"
            assert f"u = {step.draw.number:.4f} {than}" in text and "u, the number drawn" in text
            assert (step.draw.number < step.positions[step.here].p / step.positions[step.here].q) == yes
            said[yes].append(step)
        if step.phase == "commit" and step.title.startswith("Correct"):
            assert "drawn from the residual, norm(max(0, p − q))" in step.sentence
            assert {name for bar in step.chart.bars for name in bar.values} == {"p", "q", "residual"}
    assert said[True] and said[False]


INKS = [(ink, ground, 4.5) for ink in ("#595959", "#404040", "#1b1b1b") for ground in ("#ffffff", "#fafafa")]
INKS += [("#ffffff", "#0072B2", 4.5), ("#767676", "#ffffff", 3), ("#595959", "#dddddd", 4.5)]
INKS += [(*re.findall(r"(?:background|;color):(#\w{6})", paint(state)), 4.5) for state in LEGEND]


@pytest.mark.parametrize(("ink", "ground", "least"), INKS)
def test_text_has_contrast(ink, ground, least):
    """Inks of the style sheet and of each state have WCAG's 4.5 to 1, borders of controls 3 to 1."""
    assert contrast(ink, ground) >= least


def test_a_wash_is_mixed_with_white():
    assert wash("#000000", 0.5) == "#808080" and wash("#ff8000", 1) == "#ff8000"


def test_what_stands_in_tokens_is_text():
    """Words with markup, quotes and line ends are shown, and never read as HTML."""
    recording = load_walkthrough("greedy")
    words = list(recording.words)
    drafted = recording.trace.rounds[0].draft.tokens[0].tolist()
    words[drafted[0]] = '<script>alert("1")</script>&'
    words[drafted[1]] = "\n"
    words[drafted[2]] = "</style>"
    odd = Recording(recording.trace, tuple(words), recording.draws, {"pair": "<b>"})
    source = Stepper(odd, rounds=1).page()
    read = Page(source)
    assert source.count("<script>") == 1 and source.count("</style>") == 1 and read.faults == []
    text = "".join(read.text)
    assert '<script>alert("1")</script>&' in text and "⏎" in text and "Pair <b>" in text


def test_no_control_character_is_on_a_page():
    """Those of words and of names are written out, in HTML and in plain lines."""
    recording = load_walkthrough("rejection")
    words = tuple(f"\x1b[2J\x00\ud800{word}" for word in recording.words)
    odd = Recording(recording.trace, words, recording.draws, {"pair": "\x1b]0;x\x07"})
    stepper = Stepper(odd, rounds=2)
    for source in (stepper.page(), stepper.text()):
        assert source.encode() and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", source)
        assert r"\x1b[2J\x00\ud800" in source and r"Pair \x1b]0;x\x07" in source


def test_several_on_a_page():
    """A page holds several steppers, each with its own name."""
    pieces = [Stepper(load_walkthrough(v), rounds=1).html() for v in ("greedy", "rejection")]
    source = page("both", pieces)
    assert Page(source).faults == []
    assert source.count('class="minispec-stepper"') == 2
    assert source.count('role="group"') == 2 and "Pair stories, greedy" in source
