"""The distribution page: formulas, the exact verdict, rounds by chance, and what it says to bad input."""

import pytest
import torch
from browser_pages import ALARM, ROUNDS, distribution_data, distribution_html, limits
from pages_in_browser import opened, write_page
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
