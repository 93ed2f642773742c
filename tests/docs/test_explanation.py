"""The explanation pages are true of the code that ships.

Tables worked out by hand are read from the pages and compared with what the code does. Numbers come from
records, and what the sentences around them say of them is asserted here.
"""

import re
from fractions import Fraction
from itertools import product
from math import inf
from pathlib import Path

import pytest
import tiny
import torch
from facts import facts
from field_guide import found_by
from hypothesis import assume, given
from hypothesis import strategies as st
from made_figures import FIGURES
from made_tables import TABLES
from running_example import tell

from minispec import ModelDrafter, SeededRng, observe, verify_coupled, verify_greedy, verify_rejection
from minispec.core.verify import residual
from minispec.evidence.bench.measurements import saved
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.evidence.theory.acceptance import coupled_acceptance
from minispec.evidence.theory.formulas import expected_tokens
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.checkpoint import load_pair

ROOT = Path(__file__).resolve().parents[2]
P = (3 / 6, 2 / 6, 1 / 6)
Q = (1 / 6, 1 / 6, 4 / 6)
C = (0.0, 0.0, 1.0)  # a draft that always proposes c


def text_of(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def table_after(text, heading):
    """Returns the cells of the first table after a heading, without its two lines of head."""
    lines = text[text.index(f"## {heading}") :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def with_bug(name):
    with planted(mutant_named(name)):
        return first_token(verify_rejection, P, Q)


def shared_noise():
    """The last rule but one: the target's own pick, and the probability to agree."""
    p, q = (torch.tensor(distribution, dtype=torch.float64) for distribution in (P, Q))
    agree = float(coupled_acceptance(p, q))
    first, *others = first_token(verify_coupled, P, Q).distribution
    return FirstToken((agree, 0.0, 0.0), (first - agree, *others))


RULES = [
    lambda: first_token(verify_greedy, P, Q),
    lambda: first_token(verify_coupled, P, Q),  # with noise that is not shared
    lambda: with_bug("correction-from-p"),
    lambda: first_token(verify_rejection, P, Q),
    lambda: first_token(verify_rejection, P, Q, drawn_from=C),
    lambda: first_token(verify_rejection, P, C),
    shared_noise,
    lambda: with_bug("accept-if-a-fresh-draw-agrees"),
]


def test_the_table_of_rules_is_what_the_code_does():
    """All branches of each rule on {a, b, c}, in twelfths, and how often it accepts the draft."""
    rows = table_after(text_of("explanation/losslessness"), "Four rules, by hand")
    for (rule, emits, accepts), play in zip(rows, RULES, strict=True):
        found = play()
        parts, whole = re.fullmatch(r"\((.*)\)/(\d+)", emits).groups()
        said = [Fraction(part.strip()) / int(whole) for part in parts.split(",")]
        assert [float(x) for x in said] == pytest.approx(found.distribution, abs=1e-12), rule
        assert float(Fraction(accepts)) == pytest.approx(found.acceptance, abs=1e-12), rule
        assert sum(said) == 1


distributions = (
    st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any).map(lambda w: [x / sum(w) for x in w])
)


@given(distributions, distributions, distributions)
def test_what_a_wrong_q_emits(p, q, d):
    """The formula of "Which q counts", for any q that has all of what is drawn: a `Draft` refuses others."""
    assume(all(b > 0 for b, drawn in zip(q, d, strict=True) if drawn > 0))
    keep = [min(1.0, a / b) if b else float(a > 0) for a, b in zip(p, q, strict=True)]
    kept = [x * y for x, y in zip(d, keep, strict=True)]
    rest = residual(torch.tensor(p).double(), torch.tensor(q).double()).tolist()
    said = [x + (1 - sum(kept)) * r for x, r in zip(kept, rest, strict=True)]
    found = first_token(verify_rejection, p, q, drawn_from=d)
    assert found.distribution == pytest.approx(said, abs=1e-6)
    if d == q:
        assert said == pytest.approx(p, abs=1e-6)


def test_the_table_of_tokens_per_round():
    """Equation 1, rounded as on the page; the last column is the ceiling."""
    text = text_of("explanation/cost_model")
    widths = [1, 2, 4, 8, 16]
    assert f"| α | {' | '.join(f'K = {k}' for k in widths)} | all K |" in text
    for alpha, *tokens, ceiling in table_after(text, "What a round yields"):
        assert tokens == [f"{expected_tokens(float(alpha), k):.2f}" for k in widths]
        assert ceiling == f"{1 / (1 - float(alpha)):.2f}".removesuffix(".00")


def rounds_of_all_kinds():
    """Runs that meet every case of the table: widths, caps, ends, prompts, contexts, in ragged batches."""
    prompts = [[1], [2, 3, 1], [0, 4]]
    for k, cap, context, seed in product((1, 2, 3), (1, 2, 3, 4, 7), (8, 30), range(3)):
        target, draft = tiny.table_pair(5, seed, 0.4, max_length=context)
        settings = {"k": k, "max_new_tokens": cap, "eos": (3,), "rng": SeededRng(seed)}
        rounds = tiny.decode(target, ModelDrafter(draft), prompts, observe, **settings)
        yield context, prompts, list(rounds)


def case_of(drafted, width, accepted, emitted):
    """Returns which line of the table a row of a round is."""
    if emitted == 0:
        return 4
    if width == 0:
        return 3
    if emitted <= accepted:
        return 2
    return 1 if accepted == drafted else 0


def test_the_table_of_caches_is_what_the_loop_does():
    """Every line comes up; lengths are as its formulas say, in level and in ragged batches."""
    rows = table_after(text_of("explanation/cache_invariant"), "One round, case by case")
    formulas = [[compile(cell, "table", "eval") for cell in row[1:]] for row in rows]
    seen = [0] * len(rows)
    for context, prompts, rounds in rounds_of_all_kinds():
        committed = [len(prompt) for prompt in prompts]
        for r in rounds:
            width = r.draft.k
            target = r.target_cache
            draft = r.draft_cache
            for row, n in enumerate(committed):
                accepted = r.accepted(row)
                emitted = len(r.emitted[row])
                drafted = r.drafted(row)
                committed[row] += emitted
                if drafted < width and accepted == drafted and emitted:
                    # A row whose budget is smaller than the block lacks nothing, says "Ragged rows".
                    assert target.after[row] == draft.after[row] == n + emitted - 1 <= n - 1 + width
                    continue
                case = case_of(drafted, width, accepted, emitted)
                names = {"n": n, "w": width, "a": accepted, "e": emitted}
                said = [eval(formula, {}, names) for formula in formulas[case]]
                lacks = max(0, target.after[row] - draft.verified[row])
                found = [emitted, target.verified[row], draft.verified[row], target.after[row], lacks]
                # What a nearly full row is padded with is not stored.
                full = [inf, context, context, inf, inf]
                assert [min(a, b) for a, b in zip(said, full, strict=True)] == found, rows[case][0]
                assert draft.after == target.after
                seen[case] += 1
    assert all(seen), seen


SIZES = ("target-weights", "target-cache", "draft-weights", "draft-cache")
AUTOMATIC = [f"{what}-{pair}" for what in ("auto", "fixed", "auto-over") for pair in ("stories", "english")]
MACHINES = ("machine-speed", "machine-latency", "machine-drafts", "machine-batches")
WORDS = (*MACHINES, "rounding-texts", *AUTOMATIC, *SIZES)
ALL_PAGES = [path for path in ROOT.glob("docs/**/*.md") if not {"_build", "node_modules"} & set(path.parts)]
TEXT = "".join(page.read_text(encoding="utf-8") for page in ALL_PAGES)
MADE = sorted(set(re.findall(r"^```\{made\} (.+)$", TEXT, re.MULTILINE)))  # names and arguments


def test_facts_are_known():
    """No page names one that is not there, and each says something."""
    named = set(re.findall(r"\{fact\}`([^`]+)`", TEXT))
    said = [tell(name) if ":" in name else str(facts()[name]) for name in named]
    assert len(said) > 100 and all(said) and "`(nothing)`" not in said


def test_figures_and_tables_are_known_and_used():
    """None is there that no page names."""
    assert {wanted.split()[0] for wanted in MADE} == {*FIGURES, *TABLES}


@pytest.mark.parametrize("wanted", MADE)
def test_figures_have_words_and_tables_rows(wanted):
    """Each can be drawn from what is recorded: a figure has an alternative text, a caption and a twin."""
    name, *arguments = wanted.split()
    if name in TABLES:
        assert "\n" in TABLES[name](*arguments)
    elif not isinstance(picture := FIGURES[name](*arguments), str):
        assert picture.alt and picture.twin and picture.caption.endswith(".")


def test_what_the_cost_model_says_of_the_recorded_numbers():
    """The sentences around the numbers. Where a new record makes one false, the page has to change."""
    said = {name: str(value) for name, value in facts().items() if name not in WORDS}
    number = {name: float(value.rstrip("%").replace(",", "")) for name, value in said.items()}
    assert 1 < number["t5"] < 5 and 1 < number["t17"] < 17  # "far from 5 and 17 times, and not 1"
    assert number["best-gain"] < number["best-simple"]  # "the formula promised"
    assert number["off-refined"] < number["off-simple"]
    assert number["untrained-gain"] < 1 and number["untrained-alpha"] < 0.1  # "when it loses"
    assert number["self-gain"] < 1.1 and number["self-alpha"] > 0.99  # "or nearly all of it"
    assert number["batch-peak-gain"] < number["batch-first-gain"] and number["batch-throughput"] > 1
    assert number["batch-peak-rows"] < number["batch-last-rows"]  # "beyond the peak …
    assert number["batch-last-gain"] > number["batch-peak-gain"]  # … more than at the peak"
    assert number["short-gain"] < 1 < number["long-gain"]  # "a loss"
    assert number["memory-more"] < 100
    assert number["english-peak-gain"] < 1 < number["english-first-gain"]  # "at its peak, a loss"
    assert number["torch-over-native"] > 2 and number["torch-t5"] < number["t5"] + 1  # "does not say why"
    assert number["large-t5"] < number["large-t9"] < number["large-torch-t5"]  # "memory is the limit"
    assert number["large-t5"] < 1.2 < number["large-t9"] < 2  # "nearly what …", "begins to count"
    assert number["rollback-share"] < 5 and 250 < number["balanced-h100"] < 350
    assert max(float(ratio) for name in AUTOMATIC[4:] for ratio in str(facts()[name]).split(" and ")) < 1
    assert number["acceptance-tested"] > 1000 and number["alpha-shipped"] > 0.8
    assert number["draft-steps"] < recipe_steps()  # "the pair's own draft had more"
    assert draft_gain("1×32") < draft_gain("the pair's")  # "so it is above its size"
    best = number["found-native"]
    assert best == max(found_by(check.name) for check in CHECKS if check.ours)
    assert (
        number["found-distribution"] < best < number["bugs-recorded"]
    )  # "no check finds all", "distribution" fewer


def recipe_steps():
    """Steps of the shipped pair's draft."""
    recipe = load_pair("stories").info["recipe"]
    return sum(stage["steps"] for key in ("draft_lessons", "distill_lessons") for stage in recipe[key])


def draft_gain(name):
    return next(point.gain for point in saved("drafts").points if point.name == name)


def test_how_many_bugs_were_seen():
    """Each of those that are counted names an issue, an advisory, or says that somebody read the code."""
    seen = [mutant.seen for mutant in MUTANTS if not mutant.seen.startswith("not seen")]
    assert len(seen) == facts()["bugs-seen"] < len(MUTANTS) / 2
    assert all(re.search(r"/[\w-]+ #\d|-metal #\d|GHSA|by reading", where) for where in seen)


def test_what_the_page_says_of_rounding():
    """Half a unit of each type; neighbours from 8 to 16 in bfloat16; the ratio in bfloat16."""
    text = text_of("explanation/floating_point")
    eight = torch.tensor(8.0, dtype=torch.bfloat16)
    assert float(eight * (1 + torch.finfo(torch.bfloat16).eps) - eight) == 1 / 16 and "1/16 apart" in text
    assert f"{torch.finfo(torch.bfloat16).eps / 2:.1%}" == "0.4%" and "off by up to 0.4%" in text
    assert int(-torch.tensor(torch.finfo(torch.float32).eps).log2()) + 1 == 24 and "24 binary digits" in text
