"""Automatic choice: the drafter and the width that will pay most, chosen before anything is drawn."""

import random
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from engines import PLAIN, check, engine_of
from records import a_round
from refusals import refused
from tiny import (
    GREEDY,
    PAIRS,
    PROMPTS,
    Spied,
    begin,
    counter,
    decode,
    holds_all_but_the_pending_token,
)

from minispec import Costs, NgramDrafter, Request, SuffixDrafter, Warp
from minispec.core.draft import ModelDrafter
from minispec.drafters.adaptive import AdaptiveDrafter
from minispec.drafters.choice import ChoosingDrafter, MatchAcceptance
from minispec.evidence.proof.cases import ENUMERATED

# Milliseconds that a model of 135M parameters was seen to take, by how many tokens it reads.
MEASURED = Costs(0.0, {1: 9.8, 2: 9.9, 3: 10.0, 5: 10.2, 9: 14.2, 17: 23.0}, round=0.05)
FREE = Costs(0.0, {1: 1.0, 17: 1.0001})
DEAR = Costs(0.0, {1: 1.0, 2: 2.5, 17: 18.0})


def look_ups(vocab_size):
    """Returns both look-ups."""
    return NgramDrafter(vocab_size), SuffixDrafter(vocab_size)


def chooser(vocab_size=64, costs=MEASURED, **settings):
    """Returns a choice between both look-ups."""
    return ChoosingDrafter(look_ups(vocab_size), costs, **settings)


def modelled(drafter, prompt, text, k, costs=MEASURED):
    """Decodes a text that is known, in seconds by `costs`; returns these, and the width of each round."""
    begin(drafter, [prompt])
    widths = []
    seconds = 0.0
    at = 0
    while at < len(text):
        most = min(k, len(text) - at - 1)
        (tokens,) = drafter.look_up(most) if most else ([],)
        right = [token == came for token, came in zip(tokens, text[at:], strict=False)]
        kept = [*right, False].index(False)
        drafter.commit(a_round((tuple(text[at : at + kept + 1]),)))
        at += kept + 1
        widths.append(len(tokens))
        seconds += costs.of_round(len(tokens))
    return seconds, widths


def passage(dice, length, tokens=1000):
    """Returns text in which pairs of tokens come again by chance, as in prose."""
    text = [dice.randrange(tokens)]
    for _ in range(length - 1):
        text.append((31 * text[-1] + dice.choice((1, 2, 3, 5, 8, 13, 21, 34))) % tokens)
    return text


def edited(dice, text, share):
    """Returns a text with a share of its tokens replaced."""
    return [dice.randrange(1000) if dice.random() < share else token for token in text]


def kinds():
    """Returns prompts and texts, by how often they repeat themselves."""
    dice = random.Random(3)
    prompts = [passage(dice, 120) for _ in range(4)]
    few = [[dice.randrange(12) for _ in range(200)] for _ in prompts]
    return {
        "nothing comes again": [(p, [1000 + i for i in range(200)]) for p in prompts],
        "no pair comes again": [([0], [step * i % 17 for step in range(1, 13) for i in range(1, 18)])],
        "single tokens by chance": [(x, [dice.randrange(12) for _ in x]) for x in few],
        "prose": [(p, passage(dice, 200)) for p in prompts],
        "a copy": [(p, [*p, *p[:80]]) for p in prompts],
        "an edited copy": [(p, edited(dice, [*p, *p[:80]], 0.1)) for p in prompts],
        "half a copy": [(p, [*passage(dice, 100), *p[:100]]) for p in prompts],
        "again and again": [(p, p[:60] * 4) for p in prompts],
    }


@pytest.mark.parametrize("kind", kinds())
def test_where_nothing_pays_it_costs_next_to_nothing(kind):
    """In modelled seconds: 0.97 of the target alone, and 0.95 of the best look-up with its best K."""
    singles = {"ngram": NgramDrafter, "suffix": SuffixDrafter}
    texts = kinds()[kind]
    alone = sum(MEASURED.of_round(0) * len(text) for _, text in texts)
    ours = sum(modelled(chooser(2000), prompt, text, 16)[0] for prompt, text in texts)
    best = min(
        sum(modelled(make(2000), prompt, text, k)[0] for prompt, text in texts)
        for make, k in product(singles.values(), (1, 2, 4, 8, 16))
    )
    assert alone / ours >= 0.97 and best / ours >= 0.95


def test_the_width_follows_the_text():
    """Long drafts where it repeats itself, none or short ones where it does not; and so again and again."""
    dice = random.Random(0)
    drafter = chooser(2000)
    copied = passage(dice, 60)
    for _ in range(2):
        prompt = [dice.randrange(8) for _ in range(300)]
        noise = [dice.randrange(8) for _ in range(200)]
        _, widths = modelled(drafter, prompt, noise, 16)
        assert sum(widths[-40:]) / 40 <= 4
        _, widths = modelled(drafter, copied, copied * 3, 16)
        assert max(widths[-5:]) == 16 and len(widths) < 25


def test_what_costs_nothing_is_drafted_and_what_is_dear_is_not():
    """By costs alone: as wide as can be, or nothing, whatever the match."""
    text = [1, 2, 3, 4] * 20
    assert set(modelled(chooser(costs=DEAR), text, text, 16, DEAR)[1]) == {0}
    assert modelled(chooser(costs=FREE), text, text, 16)[1][:-1] == [16] * 4


def test_nothing_is_drafted_where_nothing_is_found():
    """Each token is new."""
    assert set(modelled(chooser(), [0], list(range(1, 64)), 16)[1]) == {0}


def test_it_learns_while_nothing_is_drafted():
    """All that was looked up was wrong, and nothing was drafted; then it is right, and soon is drafted."""
    dice = random.Random(1)
    costs = Costs(0.0, {1: 1.0, 17: 15.4})
    drafter = chooser(costs=costs)
    _, wrong = modelled(drafter, [0], [dice.randrange(5) for _ in range(200)], 16, costs)
    assert set(wrong) == {0}
    _, right = modelled(drafter, [0], [dice.randrange(5) for _ in range(20)] * 10, 16, costs)
    assert 0 in right and 0 not in right[-20:-1]


def test_rows_have_drafts_of_their_own():
    """One repeats itself, one does not, one is done: lengths differ, and a new prompt begins anew."""
    drafter = chooser(costs=FREE)
    begin(drafter, [[1, 2, 3, 1, 2], [4], [5, 6, 5, 6]])
    assert [len(tokens) for tokens in drafter.look_up(4)] == [4, 0, 4]
    drafter.commit(a_round(((3,), (7,), (5,)), (None, None, "cap")))
    draft = drafter.propose(torch.tensor([3, 7, 5]), 4, Warp(), None)
    assert draft.lengths.tolist() == [4, 0, 0] and draft.tokens[0].tolist() == [1, 2, 3, 1]
    assert torch.equal(draft.probs[0], torch.eye(64, dtype=torch.float64)[draft.tokens[0]])
    drafter.admit([2], [[8, 9, 8]], torch.zeros(1, 0))
    assert [tokens[:2] for tokens in drafter.look_up(4)] == [[1, 2], [], [9, 8]]


def with_model(target, draft, costs=None, **settings):
    """Returns a choice between both look-ups and a draft model."""
    costs = costs or Costs(0.1, {1: 1.0, 17: 1.5}, catch_up=0.1)
    return ChoosingDrafter(
        look_ups(target.vocab_size), costs, AdaptiveDrafter(ModelDrafter(draft), costs), **settings
    )


def test_the_model_drafts_where_nothing_is_found():
    """It counts upwards, and the draft knows that; where the count begins again the look-up knows it, too."""
    target = counter(max_length=200)
    rounds = list(decode(target, with_model(target, target), [[3]], k=8, max_new_tokens=160))
    looked_up = [bool((r.draft.probs.amax(-1) == 1).all()) for r in rounds]
    assert rounds[0].draft.k > 1 and not any(looked_up[:2]) and any(looked_up)


def test_a_choice_is_the_same_again():
    """Nothing but the text and the rounds decides: a run and another one with a new drafter are one."""
    target, draft = PAIRS["gpt"]
    runs = [list(decode(target, ENUMERATED["auto"](draft, None), PROMPTS, k=3)) for _ in range(2)]
    drafts = [[(r.draft.tokens.tolist(), r.draft.lengths.tolist(), r.emitted) for r in run] for run in runs]
    assert drafts[0] == drafts[1] and len({r.draft.k for r in runs[0]}) > 1


def test_requests_wait_for_a_row():
    """Texts with a queue are those without one, and those of K = 0; a budget may be of one token."""
    target, draft = PAIRS["table"]
    caps = [3, 12, 1, 7]
    requests = [Request([i, 1, 2, 1, 2], cap) for i, cap in enumerate(caps)]
    texts = []
    for k, size in product((0, 4), (1, 2, 4)):
        texts.append({})
        for r in decode(target, with_model(target, draft), requests, k=k, batch_size=size, **GREEDY):
            for row, emitted in enumerate(r.emitted):
                texts[-1].setdefault(r.prompt_ids[row], []).extend(emitted)
    assert all(text == texts[0] for text in texts)
    assert [len(texts[0][i]) for i in range(4)] == caps


def test_the_models_cache_holds_all_but_the_pending_token():
    """After every round, whoever has drafted: it reads what others have had accepted, or rests."""
    target, draft = PAIRS["gpt"]
    spied = Spied(draft)
    acceptance = partial(MatchAcceptance, prior=(0.9,), weight=1.0)
    drafter = with_model(target, spied, Costs(0.4, {1: 1.0, 17: 1.5}, catch_up=0.2), acceptance=acceptance)
    texts = [list(prompt) for prompt in PROMPTS]
    drafted = set()
    for r in decode(target, drafter, k=3, max_new_tokens=24):
        drafted.add((r.draft.k, bool((r.draft.probs.amax(-1) == 1).all())))
        for text, emitted in zip(texts, r.emitted, strict=True):
            text.extend(emitted)
        if drafter.cache_lengths is not None:
            holds_all_but_the_pending_token(draft, spied.caches[-1], texts)
    assert {certain for k, certain in drafted if k} == {False, True}


def test_sampled_texts_pass_the_check_of_engines():
    """Texts of batches that share what they learn, at temperature 1, against the table they come from."""
    case = replace(PLAIN, k=3, max_new_tokens=4, drafter=ENUMERATED["auto"])
    assert check(case, engine_of(case, rows=64), samples=4096).passed


def test_match_acceptance_by_hand():
    """Weight 2, memory 1/2: a right token after a match of 1, another after one of 2, then a wrong one."""
    known = MatchAcceptance((0.4, 0.8), weight=2, memory=0.5)
    assert known.kept(1, 2) == pytest.approx([0, 0.4, 0.4 + 0.4 * 0.8])
    known.update(1, [5, 6, 7, 8], [5, 6, 9, 8])
    first, later = (1 + 0.8) / 3, (0.5 + 1.6) / (1.5 + 2)
    assert known.kept(1, 3) == pytest.approx([0, first, first * (1 + later), first * (1 + later + later**2)])
    assert known.kept(40, 1) == pytest.approx([0, later])
    known.update(3, [5], [])  # nothing came
    assert known.kept(2, 1) == pytest.approx([0, later])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ChoosingDrafter([], FREE), "at least one look-up"),
        (lambda: ChoosingDrafter([NgramDrafter(5), NgramDrafter(6)], FREE), "one vocabulary"),
        (lambda: chooser(most=0), "at least 1, not 0"),
        (lambda: MatchAcceptance(()), "cannot be"),
        (lambda: MatchAcceptance((1.5,)), "cannot be"),
        (lambda: MatchAcceptance(weight=0), "cannot be"),
        (lambda: MatchAcceptance(memory=float("nan")), "cannot be"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with refused(words):
        call()


def test_k_is_a_limit():
    """The loop's K, the most, and what t(n) was measured for, each bound the width."""
    text = [1, 2, 3, 4] * 9
    for k, most, measured in ((2, 9, 17), (9, 2, 17), (9, 9, 3)):
        drafter = chooser(costs=Costs(0.0, {1: 1.0, measured: 1.0001}), most=most)
        assert max(modelled(drafter, text, text, k)[1]) == 2
