"""The stepper as HTML: what it says is the trace, with and without scripts and styles."""

import re
from html.parser import HTMLParser

import pytest

from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.stepper import Stepper

VOID = {"meta", "input", "br", "img"}


class Page(HTMLParser):
    """Reads HTML: all text outside scripts and styles, what is loaded, and faults of nesting."""

    def __init__(self, source):
        super().__init__()
        self.open = []
        self.faults = []
        self.text = []
        self.links = []
        self.feed(source)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href", "action", "srcset")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


@pytest.fixture(scope="module", params=["greedy", "rejection"])
def shown(request):
    recording = load_walkthrough(request.param)
    return recording, Stepper(recording)


def test_is_sound_html_that_loads_nothing(shown):
    """Tags nest, no file or address is named, the page has language and title; it is the same each time."""
    recording, stepper = shown
    source = stepper.page()
    read = Page(source)
    assert read.faults == [] and read.links == []
    assert "://" not in source and "url(" not in source and "@import" not in source
    assert '<html lang="en">' in source and re.search("<title>.+</title>", source)
    assert Stepper(recording).page() == source and not re.search(r'\sid="', source)
    assert source.count("<details open ") == len(stepper.steps) and "hidden>" not in source


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
