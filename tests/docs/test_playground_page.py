"""The playground's page in a headless browser, read from its folder with the network cut; see `test_site.py`.

Nothing may go wrong on the way: no error on the console, no request. `make browser` builds the page first.
"""

import html
import re
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode

import pytest
from playground_page import protected
from test_site import BUILT, opened

from minispec.io.walkthrough import load_walkthrough

NAME = "playground/index.html"
READY = "#play:not([hidden])"
SEEN = """() => ['say', 'text', 'round', 'at', 'bars', 'why', 'held', 'link'].map(
    name => document.getElementById('play-' + name)).map(e => e.href ? e.hash : e.textContent)"""
GO = """hash => new Promise(done => {
    addEventListener('hashchange', done, {once: true});
    location.hash = hash;
}).then(() => {})"""
EMOJI = "\N{GRINNING FACE}"
PHASES = ("prefill", "draft", "verify", "decide", "commit and roll back")
INJECTED = "<img src=x onerror=alert(1)>"

# Of a link: a field, its value, and how the line begins that refuses it.
HOSTILE = (
    ("k", "NaN", "K must be a whole number from 0 to 16"),
    ("k", "300", "K must be a whole number from 0 to 16"),
    ("temperature", "-1", "The temperature must be a number from 0 to 10"),
    ("verifier", "greedy", "The greedy verifier needs temperature 0"),
    ("topP", "0", "Top-p must be"),
    ("seed", "1e99", "The seed must be"),
    ("verifier", INJECTED, "The verifier must be one of greedy"),
    ("drafter", "constructor", "The drafter must be one of model"),
    ("prompt", "", "The prompt is empty"),
    ("prompt", EMOJI * 500, "The prompt has 2000 tokens"),
    ("prompt", EMOJI * 64, "The prompt has 256 tokens; the context holds 255"),
    ("most", "0", "The most new tokens must be a whole number from 1"),
    ("prompt", "a" * 100_000, "The prompt has 100000 characters"),
    ("draft", "a" * 201, "Your draft has 201 characters"),
    ("at", "1e9", "The at of the link must be"),
    ("position", "17", "The position of the link must be"),
    ("__proto__", "1", "The link has a field"),
    (INJECTED, INJECTED, "The link has a field"),
)


@contextmanager
def playground(browser, fields=None, **settings):
    """Opens the page, with the state of a link."""
    if not (BUILT / NAME).is_file():
        pytest.skip("the site is not built: run `make docs`")
    with opened(browser, f"{NAME}#{urlencode(fields or {})}", **settings) as page:
        page.locator(READY).wait_for()
        yield page


def text(page, name):
    """Returns what stands in a part of the page."""
    return page.locator(f"#play-{name}").text_content()


def states(page):
    """Returns the states of the tokens in the text that do not belong to the prompt."""
    return page.locator("#play-text [data-round]").evaluate_all("all => all.map(one => one.dataset.state)")


def run(page):
    """Presses Run, and waits for the end of the text."""
    page.locator("#play-run").click()
    page.locator("#play-run", has_text="Run").wait_for()


@pytest.mark.browser
def test_the_page_decodes_the_recorded_text(browser):
    """Greedy, with the recording's prompt and K: the same text, the same rounds."""
    recording = load_walkthrough("greedy")
    trace = recording.trace
    prompt = "".join(recording.words[token] for token in trace.prompts[0])
    emitted = "".join(recording.words[token] for token in trace.tokens(0))
    fields = {"prompt": prompt, "k": trace.config["k"], "verifier": "greedy", "temperature": 0}
    with playground(browser, fields) as page:
        run(page)
        assert text(page, "text") == prompt + emitted.replace("⏹", " <end>")
        assert text(page, "say").startswith(f"Round {len(trace.rounds)}.")


@pytest.mark.browser
def test_step_by_step_with_keys_alone(browser):
    """Tab leads to the button, Enter goes a phase on, and each position shows its distributions on focus."""
    with playground(browser) as page:
        page.locator("#play-form textarea").focus()
        while page.evaluate("document.activeElement.id") != "play-step":
            page.keyboard.press("Tab")
        said = [text(page, "say")]
        seen = [states(page)]
        for _ in range(4):
            page.keyboard.press("Enter")
            said.append(text(page, "say"))
            seen.append(states(page))
        for sentence, phrase in zip(said, ("pending", "proposes", "5 distr", "accepted", "New"), strict=True):
            assert phrase in sentence
        assert seen[:3] == [[], ["drafted"] * 4, ["drafted"] * 4]
        assert set(seen[3]) <= {"accepted", "rejected", "untested", "correction", "bonus"}
        assert seen[4] == [state for state in seen[3] if state not in ("rejected", "untested")]
        at = []
        while len(at) < 5:
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.position") is not None:
                at.append(text(page, "at"))
        assert [line.split(":")[0] for line in at] == [f"Position {i} of round 1" for i in range(1, 6)]


@pytest.mark.browser
@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_link_holds_the_whole_state(browser, verifier):
    """What one page shows after some steps, another shows from its link; Back leads to what was before."""
    fields = {"verifier": verifier, "temperature": 1, "topK": 50, "topP": 0.95, "seed": 7, "k": 3}
    with playground(browser, fields) as page:
        for _ in range(7):
            page.locator("#play-step").click()
        page.locator("#play-round button").first.focus()
        page.locator("#play-run").click()
        page.locator("#play-run", has_text="Run").wait_for()
        page.locator("#play-back").click()
        seen = page.evaluate(SEEN)
        link = page.evaluate("location.hash")
    with playground(browser) as page:
        page.evaluate(GO, link)
        page.locator("#play-step").click()
        page.locator("#play-back").click()
        assert page.evaluate(SEEN) == seen


@pytest.mark.browser
def test_the_reader_drafts(browser):
    """What is typed is the draft, certain of its tokens, and the link keeps it."""
    with playground(browser, {"drafter": "you", "verifier": "rejection", "temperature": 1}) as page:
        page.locator("[name=draft]").fill(" sat on the floor and more")
        page.locator("[name=draft]").press("Enter")
        drafted = page.locator("#play-round [data-state=drafted]").all_text_contents()
        assert drafted == ["sat", "on", "the", "floor"]
        assert "1.000" in text(page, "bars")
        run(page)
        assert text(page, "say").startswith("Round 1.")
        link = page.evaluate("location.hash")
        seen = page.evaluate(SEEN)
    with playground(browser) as page:
        page.evaluate(GO, link)
        assert page.evaluate(SEEN)[:-1] == seen[:-1]


@pytest.mark.browser
def test_the_number_is_held_against_p_over_q(browser):
    """In the round of a rejection: min(1, p/q) is what the bars say, and the number decides."""
    with playground(browser, {"verifier": "rejection", "temperature": 1, "seed": 3}) as page:
        for _ in range(200):
            page.locator("#play-step").click()
            if "rejected" in states(page):
                break
        numbers = re.findall(r"[\d.]*\d", text(page, "why").replace("min(1", ""))
        p, q, ratio, number = map(float, numbers[:4])
        assert ratio == pytest.approx(min(1, p / q), abs=0.02) and number >= ratio
        assert "the residual" in text(page, "why") and "residual" in text(page, "at")
        assert page.locator("#play-draw").is_visible()


@pytest.mark.browser
def test_hostile_links_are_refused(browser):
    """One line says why, the state is kept, nothing of it becomes an element."""
    with playground(browser) as page:
        page.locator("#play-step").click()
        seen = page.evaluate(SEEN)
        images = page.locator("img").count()
        for field, value, line in HOSTILE:
            page.evaluate(GO, urlencode({field: value}))
            assert text(page, "line").startswith(line) and len(text(page, "line")) <= 300
            assert page.evaluate(SEEN) == seen
        assert page.locator("img").count() == images


@pytest.mark.browser
def test_links_of_other_pages_lead_to_their_phases(browser):
    """Each state that a page of the walk-through links to is one that the playground can be in."""
    pages = "".join(path.read_text(encoding="utf-8") for path in BUILT.glob("walkthrough/*.html"))
    links = set(re.findall(r'href="\.\./playground/index\.html#([^"]+)"', pages))
    if not links:
        pytest.skip("the walk-through is not built: run `make docs`")
    assert len(links) > 8
    with playground(browser) as page:
        for link in links:
            at = int(dict(parse_qsl(html.unescape(link)))["at"])
            page.evaluate(GO, html.unescape(link))
            assert text(page, "line") == ""
            phase = page.locator("#play-phases [aria-current]").text_content()
            assert phase == PHASES[at and (at - 1) % 4 + 1]


@pytest.mark.browser
@pytest.mark.parametrize("fault", ["no WebAssembly", "damaged data"])
def test_without_an_engine_there_is_the_stepper(browser, fault):
    """One line says why, and the recorded run stands there."""
    if not (BUILT / NAME).is_file():
        pytest.skip("the site is not built: run `make docs`")
    page = browser.new_page()
    if fault == "no WebAssembly":
        page.add_init_script("delete globalThis.WebAssembly")
    else:
        data = (BUILT / "playground" / "data.js").read_text(encoding="utf-8")
        middle = len(data) // 2  # of the target's weights
        damaged = data[:middle] + "AAAA" + data[middle + 4 :]
        page.route("**/data.js", lambda route: route.fulfill(body=damaged, content_type="text/javascript"))
    page.goto(f"{BUILT.as_uri()}/{NAME}")
    assert text(page, "line").startswith("The models do not run here:")
    assert fault.replace("no ", "").replace(" data", "") in text(page, "line")
    assert not page.locator("#play").is_visible()
    stepper = page.locator("#play-recorded .minispec-stepper")
    stepper.locator(".ms-next").click()
    assert stepper.locator(".ms-at").text_content().startswith("2 /")
    page.close()


def test_a_page_runs_what_stands_in_it_and_nothing_else():
    """Each inline script is named by its hash; another one is not."""
    head = '<head><meta charset="utf-8"></head>'
    page = protected(f"{head}<script>one()</script>")
    assert protected(f"{head}<script>two()</script>").count("sha256-") == page.count("sha256-") == 1
    assert "sha256-" not in protected(head) and "unsafe-eval" not in page.replace("wasm-unsafe-eval", "")
