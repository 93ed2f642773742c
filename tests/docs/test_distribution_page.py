"""The distribution page: formulas, the exact verdict, rounds by chance, and what it says to bad input."""

import math

import pytest
import torch
from browser_pages import ALARM, ROUNDS, distribution_data, distribution_html, limits
from pages_in_browser import SCRIPTS, opened, write_page
from running_example import run
from scipy.stats import binom

from minispec.core.records import Draft
from minispec.core.rng import RoundPlan, RoundRng
from minispec.core.verify import accept_rejection
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted

RIGHT = ("rejection", "half", "nothing")
BUGS = tuple(name for name in distribution_data()["verifiers"] if name not in RIGHT)
SEEDS = range(10)


@pytest.mark.parametrize("p", [0.0, 1e-5, 0.02, 0.5, 0.9993])
def test_limits_are_binomial_quantiles(p):
    """Beyond each limit lies at most the tail, and one step further in it would be more."""
    tail = ALARM / 18
    low, high = limits(ROUNDS, p, tail)
    assert binom.cdf(low - 1, ROUNDS, p) <= tail < binom.cdf(low, ROUNDS, p)
    assert binom.sf(high, ROUNDS, p) <= tail < binom.sf(high - 1, ROUNDS, p)


def test_places_are_those_of_the_recording():
    """Each has two distributions; of the hard one a quarter is accepted, as on the walk-through's page."""
    for place in distribution_data()["places"]:
        assert math.isclose(sum(place["p"]), 1) and math.isclose(sum(place["q"]), 1)
        assert min(place["p"] + place["q"]) >= 0
    hard = distribution_data()["places"][0]
    r = run("rejection").trace.rounds[0]
    alpha = float(r.target_probs[0, 2].minimum(r.draft.probs[0, 2]).sum())
    assert hard["words"][0] == "kite"
    assert sum(map(min, hard["p"], hard["q"])) == pytest.approx(alpha, abs=1e-4)


def test_there_are_six_bugs_of_the_zoo():
    assert len(BUGS) == 6
    for name in BUGS:
        assert mutant_named(name).title in distribution_data()["verifiers"][name]["title"]


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.js")), ids=lambda path: path.name)
def test_no_script_makes_code_or_markup_of_text(script):
    text = script.read_text(encoding="utf-8")
    for word in (
        "eval(",
        "Function(",
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "fetch(",
        "import(",
    ):
        assert word not in text


def exact(p, q):
    """Returns the distribution of the first token that the shipped rule emits, draft included."""
    tokens = torch.zeros(len(p), dtype=torch.float64)
    target = torch.tensor([[p, p]], dtype=torch.float64)
    dist = torch.tensor([q], dtype=torch.float64)

    def play(source):
        rng = RoundRng(source, RoundPlan.unlimited(1, dist.device))
        x = rng.categorical(dist)
        verdict = accept_rejection(Draft(x[:, None], dist[None]), target, rng)
        return int(x if verdict.accepted else verdict.token)

    for _, token, probability in enumerate_branches(lambda rng, keys: [play(rng)], [0], most_rows=1):
        tokens[token] += probability
    return tokens.tolist()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    scripts = ("expression.js", "verifier.js", "distribution.js")
    folder = tmp_path_factory.mktemp("distribution")
    return write_page(folder, distribution_html(), {"DISTRIBUTION": distribution_data()}, scripts)


@pytest.fixture
def page(browser, path):
    with opened(browser, path) as page:
        yield page


# A place of the data, and a verifier at it.
RULE = """
    const place = DISTRIBUTION.places[at];
    const {test, residual} = DISTRIBUTION.verifiers[name];
    const names = ["p", "q", "x", "u"];
    const rule = readRule(parseFormula(test, names), parseFormula(residual, names), place);"""
ENUMERATE = f"([name, at]) => {{{RULE} return enumerate(rule, place.q); }}"
COUNT = f"""([name, at, seed]) => {{{RULE}
    const counts = place.q.map(() => 0);
    const numbers = numbersFrom(seed);
    for (let i = 0; i < DISTRIBUTION.rounds; i += 1) counts[playRound(rule, place.q, numbers)] += 1;
    return counts;
}}"""


def outside(place, counts):
    """Returns how many counts are outside their limits."""
    return sum(not low <= n <= high for n, (low, high) in zip(counts, place["limits"], strict=True))


@pytest.mark.browser
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_verifier_is_lossless_and_inside(page, name):
    """Exactly, and with ten seeds at each place: 90 runs in all. Of all sets of seeds at most
    0.9% would alarm.
    """
    for at, place in enumerate(distribution_data()["places"]):
        assert page.evaluate(ENUMERATE, [name, at]) == pytest.approx(place["p"], abs=1e-12)
        assert [outside(place, page.evaluate(COUNT, [name, at, seed])) for seed in SEEDS] == [0] * len(SEEDS)


@pytest.mark.browser
@pytest.mark.parametrize("name", BUGS)
def test_formulas_mean_the_planted_bug(page, name):
    """What the page enumerates is what the shipped rule does with the zoo's bug in it: found, everywhere."""
    for at, place in enumerate(distribution_data()["places"]):
        with planted(mutant_named(name)):
            expected = exact(place["p"], place["q"])
        found = page.evaluate(ENUMERATE, [name, at])
        assert found == pytest.approx(expected, abs=1e-12)
        assert sum(abs(x - y) for x, y in zip(found, place["p"], strict=True)) > 1e-5


@pytest.mark.browser
def test_rounds_find_what_is_large_enough(page):
    """At the third place 10,000 rounds find all bugs but the small one, which enumeration finds."""
    place = distribution_data()["places"][2]
    missed = {name for name in BUGS if not outside(place, page.evaluate(COUNT, [name, 2, 0]))}
    assert missed == {"residual-with-an-epsilon"}


DONE = "() => document.getElementById('dist-drawn').textContent.startsWith('10000 rounds: 0 of 9')"


@pytest.mark.browser
def test_what_the_page_shows(page):
    """Verdict, counts and their envelope: of what is chosen, and of what is typed."""
    said = page.locator("#dist-verdict")
    assert said.text_content().startswith("Lossless: ") and "accepts 0.2394" in said.text_content()
    page.select_option("#dist-place", "2")
    page.select_option("#dist-verifier", "correction-from-p")
    page.locator(".dist-place:not([hidden]) .dist-where", has_text="outside").first.wait_for()
    assert said.text_content().startswith("Not lossless: ") and "is 0.083." in said.text_content()
    assert "+    " in page.locator("#dist-about").text_content()  # the diff
    counts = page.locator(".dist-place:not([hidden]) .dist-count").all_text_contents()
    assert sum(map(int, counts)) == ROUNDS
    page.fill("#dist-residual", "norm(max(0, p - q))")
    assert page.input_value("#dist-verifier") == "yours"
    assert said.text_content().startswith("Lossless: ")
    page.fill("#dist-test", "u * 2 < p[x] / q[x]")
    assert said.text_content().startswith("Not lossless: ")
    page.fill("#dist-residual", "norm(p - min(q, p / 2))")
    assert said.text_content().startswith("Lossless: ") and "accepts 0.4167" in said.text_content()


@pytest.mark.browser
def test_the_histogram_grows(browser, path):
    """With motion, counts are seen on their way to 10,000."""
    with opened(browser, path) as page:
        counts = page.locator(".dist-place:not([hidden]) .dist-count")
        seen = sum(map(int, counts.all_text_contents()))
        page.wait_for_function(DONE)
        assert 0 < seen < sum(map(int, counts.all_text_contents())) == ROUNDS


HOSTILE = """
|(|)|((|u <|u < p[x|u < p[x]]|u < p(x)|u < p[99]|u < p[0.5]|u < p[-99]|u < p[u]|u < p[p]|u < r|u < p.length
u < constructor|u < __proto__|u < toString|u < p[x] / 0|u < 0 / 0|u < 1e999|u < NaN|u < Infinity
u < 1e308 * 1e308|u|p[x]|p|p < q|u < p|u = 1|u <= 1|u < p[x] < 1|u << 1|u < 1;|alert(1)|u < alert(1)|eval("1")
u < (p, q)[x]|u < min|u < min()|u < min(p q)|u < norm(p - p)[x]|u < `1`|u < '1'|<b>u</b>|u < 1 // x|u < 1..2
u < +1|u < [1]|u < p[x]()|while (1) {}|u < x => x|u < 😀|u < sum(p)[0]|u < 1 1|u < 3x
"""
LONG = ("(" * 5000, "u < " + "1+" * 10_000 + "1", "-" * 1_000_000)
EXPRESSIONS = (*HOSTILE.strip("\n").replace("\n", "|").split("|"), *LONG)


@pytest.mark.browser
def test_hostile_formulas_get_one_line_each(page):
    """Each is told in one line what is wrong; what was worked out before stays, and nothing hangs."""
    before = page.locator("#dist-verdict").text_content()
    assert len(EXPRESSIONS) >= 50
    for text in EXPRESSIONS:
        page.fill("#dist-test", text)
        fault = page.locator("#dist-fault").text_content()
        about = (text[:50], fault)
        assert fault.startswith(("Accept: ", "a test compares")) and len(fault) < 400, about
        assert not any(word in fault for word in ("\n", "not a function", "undefined")), about
        assert page.locator("#dist-verdict").text_content() == before
    page.fill("#dist-test", "u < p[x] / q[x]")
    assert page.locator("#dist-fault").text_content() == ""


@pytest.mark.browser
def test_residuals_that_are_none_get_one_line_each(page):
    faults = {
        "u": "Residual: there is no u here",
        "1": "Residual: it is no vector",
        "p - q": "Residual: it has something below 0",
        "max(0, p - q)": "Residual: it sums to 0.76",
        "norm(p - p)": "Residual: 0 and 0 make no number",
        "p / 0": "Residual: 0.99",
    }
    for text, fault in faults.items():
        page.fill("#dist-residual", text)
        assert page.locator("#dist-fault").text_content().startswith(fault)
    page.fill("#dist-seed", "1.5")
    page.fill("#dist-residual", "p")
    assert page.locator("#dist-fault").text_content().startswith("Seed: ")


@pytest.mark.browser
def test_the_page_runs_where_text_cannot_become_code(page):
    """All of these tests run under a policy that forbids it; it holds outside the test's own calls."""
    page.evaluate(
        "() => setTimeout(() => { try { Function('') } catch (error) { document.title = error.name } })"
    )
    page.wait_for_function("() => document.title !== 'page'")
    assert page.title() == "EvalError"


@pytest.mark.browser
def test_how_probably_a_comparison_holds(page):
    """Exactly, also where u is on the right, squared, or in several intervals."""
    probabilities = {
        "u < 0.3": 0.3,
        "0.25 < u": 0.75,
        "u * u < 0.04": 0.2,
        "2 - u * 3 > 1.1": 0.3,
        "min(u, 0.5) < 0.123": 0.123,
        "(u - 0.1) * (u - 0.4) < 0": 0.3,
        "u < 0": 0,
        "u < 2": 1,
        "p[0] > p[1]": 1,
        "-u < -0.75": 0.25,
        "u == 0.5": 0,
        "u < sum(p) / len(p) / max(1, 2, 3)": 1 / 9,
        "u < norm(q)[1 + 1]": 2 / 3,
    }
    ask = """(text) => {
        const formula = parseFormula(text, ["p", "q", "u"]);
        return probabilityOf((u) => formula({ u, p: [3 / 6, 2 / 6, 1 / 6], q: [1 / 6, 1 / 6, 4 / 6] }));
    }"""
    for text, probability in probabilities.items():
        assert page.evaluate(ask, text) == pytest.approx(probability, abs=1e-12), text


@pytest.mark.browser
def test_all_works_with_keys_at_telephone_width(browser, path):
    """Every control has a label and is reached by Tab; Enter plays; nothing is wider than the page."""
    with opened(browser, path, viewport={"width": 390, "height": 800}) as page:
        for control in page.locator("select, input").all():
            assert control.evaluate("(c) => c.labels.length") == 1
        page.keyboard.press("Tab")
        for name in ("verifier", "place", "test", "residual", "seed"):
            assert page.evaluate("document.activeElement.id") == f"dist-{name}"
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "dist-play"
        page.keyboard.press("Enter")
        page.wait_for_function(DONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
