"""Every page of the built site in a headless browser, read from its folder, with the network cut.

That is how it lies on a laptop, unpacked from a zip; what works without any server works with one. Nothing
fails to load, nothing is asked of another machine, no script complains, and axe-core finds nothing serious,
in light and in dark colours. `make browser` builds the site first.
"""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
DOCS = Path(__file__).resolve().parents[2] / "docs"
BUILT = DOCS / "_build" / "html"
AXE_CORE = DOCS / "node_modules" / "axe-core" / "axe.min.js"
PAGES = sorted(
    path.relative_to(BUILT).as_posix() for path in BUILT.rglob("*.html") if "_static" not in path.parts
)
# What axe says of a page, and of which element.
AXE = """async () => (await axe.run(document, {resultTypes: ['violations'], iframes: false, preload: false}))
    .violations.filter(found => ['serious', 'critical'].includes(found.impact))
    .flatMap(found => found.nodes.map(node => found.id + ': ' + node.html.slice(0, 200)))"""
TELEPHONE = (
    "index.html",
    "stepper.html",
    "playground/index.html",
    "playground/distribution.html",
    "playground/exercises.html",
    "notebooks/06_verify_by_rejection.html",
)
FORMULAS_DONE = "() => !window.MathJax || !MathJax.startup || MathJax.startup.promise.then(() => true)"


@pytest.fixture(autouse=True)
def site():
    """The built site."""
    if not (BUILT / "index.html").is_file():
        pytest.skip("the site is not built: run `make docs`")


@pytest.fixture(scope="module")
def axe():
    """The source of axe-core."""
    if not AXE_CORE.is_file():
        pytest.skip("axe-core is not installed: run `make docs`")
    return AXE_CORE.read_text(encoding="utf-8")


@contextmanager
def opened(browser, name, **settings):
    """Opens a page that can reach only its own site; afterwards nothing may have gone wrong."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | settings)
    page = context.new_page()
    wrong = []

    def allow_own(route):
        if route.request.url.startswith((BUILT.as_uri(), "data:", "blob:")):
            route.continue_()
        else:
            wrong.append(f"asked for {route.request.url}")
            route.abort()

    page.route("**/*", allow_own)
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("response", lambda r: r.status < 400 or wrong.append(f"{r.status}: {r.url}"))
    page.on(
        "console",
        lambda said: said.type in ("error", "warning") and wrong.append(f"{said.type}: {said.text}"),
    )
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.goto(f"{BUILT.as_uri()}/{name}")
    page.evaluate(FORMULAS_DONE)
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


@pytest.mark.parametrize("name", PAGES or ["index.html"])
def test_a_page_is_whole_and_can_be_read_by_all(browser, axe, name):
    with opened(browser, name, color_scheme="light") as page:
        page.evaluate(axe)
        found = {"light": page.evaluate(AXE)}
        page.emulate_media(color_scheme="dark")
        found["dark"] = page.evaluate(AXE)
        assert found == {"light": [], "dark": []}
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0  # the page itself never scrolls sideways
        for colours in found:
            page.emulate_media(color_scheme=colours)
            assert page.locator("mjx-merror, [data-mjx-error]").count() == 0


@pytest.mark.parametrize("name", TELEPHONE)
def test_a_page_fits_a_telephone(browser, name):
    with opened(browser, name, viewport={"width": 390, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", ["stepper.html", "notebooks/01_generate_one_token_at_a_time.html"])
def test_the_stepper_walks(browser, name):
    """Buttons, keys and slider lead to the end and back, in each stepper, among the theme's scripts."""
    with opened(browser, name) as page:
        steppers = page.locator(".minispec-stepper").all()
        assert steppers
        for stepper in steppers:
            stepper.locator(".ms-next").click()
            assert shown(stepper) == 1
            page.keyboard.press("ArrowRight")
            assert shown(stepper) == 2
            stepper.locator(".ms-back").click()
            assert shown(stepper) == 1
            stepper.locator(".ms-slider").focus()
            page.keyboard.press("End")
            assert shown(stepper) == stepper.locator(".ms-step").count() - 1


def shown(stepper):
    """Returns the index of the one step that is to be seen."""
    (visible,) = stepper.locator(".ms-step").evaluate_all(
        "steps => steps.map((s, i) => s.checkVisibility() ? i : -1).filter(i => i >= 0)"
    )
    return visible


@pytest.mark.parametrize("name", ["teaching/slides_1.html", "teaching/slides_2.html"])
def test_slides_walk_fit_and_print(browser, name):
    """Arrow keys lead to the next slide and back; each fits a screen, and is a page of paper."""
    with opened(browser, name, viewport={"width": 1280, "height": 720}) as page:
        slides = page.locator(".opening, section section")
        assert slides.count() > 10
        heights = slides.evaluate_all("slides => slides.map(slide => slide.offsetHeight)")
        assert set(heights) == {720}
        for key, top in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            page.keyboard.press(key)
            assert abs(slides.nth(top).bounding_box()["y"]) < 2
        sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
        assert len(sheets) == slides.count()


def test_the_search_finds(browser):
    with opened(browser, "search.html?q=rollback") as page:
        page.wait_for_selector("ul.search li a", timeout=20_000)


def test_formulas_are_drawn(browser):
    """MathJax lies beside the pages: what was TeX is a picture with words for a screen reader."""
    with opened(browser, "explanation/losslessness.html") as page:
        assert page.locator("mjx-container svg").count() > 5
        assert page.locator("mjx-container mjx-assistive-mml math").count() > 5
