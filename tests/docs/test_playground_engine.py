"""The playground's engine is the core's loop: the same tokens, by the same numbers, in a real browser."""

import json
import random
from importlib.metadata import version

import pytest
from book.playground import COMMAND, RECORD, WASM, can_compile, compiled, sha256, sources_hash
from engine_page import START, opened, write_page

from minispec import ModelDrafter, SeededRng, Warp, load_pair, speculate
from minispec.drafters.ngram import NgramDrafter
from minispec.native.decisions import NativeRng
from minispec.train.stories import draw_stories
from minispec.verifiers.registry import CHAINS

MOST_BYTES = 5_000_000  # of data.js; all of the playground may have 6 million
NUMBERS = 1000  # that a text of so many tokens may need
TOKENS = 30
PROBABILITY = 1e-5  # the most by which one may differ, and all of a distribution together
TIE = 1e-5  # how far from 1 a ratio of probabilities may be that is 1 but for rounding
COMPILER = "0.17.1"  # of ziglang: another writes other bytes
LONG = [(name, k) for name in ("greedy", "rejection", "block") for k in (0, 1, 2, 4, 8)]
WARPS = (Warp(1.0), Warp(0.7), Warp(1.0, top_k=5), Warp(1.3, top_p=0.9), Warp(0.0))
ROUNDS = """jobs => jobs.map(job => {
  const numbers = { at: place => job.numbers[place], next: 0 };
  const propose = job.looksUp ? Minispec.lookUp : undefined;
  const rounds = [...engine.rounds({ ...job, numbers, propose })];
  return rounds.map(({ q, p, residual, lengths: [targetLength, draftLength], ...round }) => ({
    ...round, targetLength, draftLength,
    q: job.dists ? q.map(row => [...row]) : [], p: job.dists ? p.map(row => [...row]) : [] }));
})"""
MESSAGE = (
    """data => { try { new Minispec.Engine(data); return null; } catch (error) { return error.message; } }"""
)


@pytest.fixture(scope="module")
def pair():
    return load_pair()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def page(browser, path):
    with opened(browser, path) as page:
        page.evaluate(START)
        yield page


def prompts(pair, count):
    """Returns beginnings of stories that nobody trained on, of 3 to 30 tokens."""
    texts = [story.text for story in draw_stories(count, seed=34)]
    return [pair.tokenizer.encode(text)[: 3 + i % 28] for i, text in enumerate(texts)]


def job(prompt, k, verifier, warp, seed, **others):
    """Returns what a page needs to decode a prompt as `expected` does."""
    numbers = NativeRng(seed).lend(NUMBERS).tolist()  # those that `SeededRng` draws
    settings = {"temperature": warp.temperature, "top_k": warp.top_k or 0, "top_p": warp.top_p or 1}
    given = {"prompt": prompt, "k": k, "verifier": verifier, "warp": settings, "numbers": numbers}
    return given | {"maxNewTokens": TOKENS} | others


def is_tied(round, verifier):
    """Whether a probability ratio is 1 but for rounding: then one may draw a number, and the other not."""
    ratios = []
    for x, p, q in zip(round.draft.tokens[0], round.target_probs[0], round.draft.probs[0], strict=False):
        before = min([1, *ratios[-1:]]) if verifier == "block" else 1
        ratios.append(before * float(p[x] / q[x]))
    return verifier != "greedy" and any(abs(ratio - 1) < TIE for ratio in ratios)


def expected(pair, prompt, k, verifier, warp, seed, drafter=None):
    """Returns the rounds of the core's loop, and whether each is tied."""
    rounds = speculate(
        pair.target,
        drafter or ModelDrafter(pair.draft),
        [prompt],
        k=k,
        verifier=CHAINS[verifier],
        max_new_tokens=TOKENS,
        warp=warp,
        rng=SeededRng(seed),
        eos=pair.tokenizer.ends,
    )
    return [(round, is_tied(round, verifier)) for round in rounds]


def said(round):
    """Returns what a page is to say of a round."""
    return {
        "drafted": round.draft.tokens[0].tolist(),
        "accepted": round.accepted(0),
        "emitted": list(round.emitted[0]),
        "finish": round.finish[0],
        "targetLength": round.lengths[0],
    }


def difference(found, rounds):
    """Says where a page's rounds differ from the core's: None, "tie" if rounding may be why, else both.

    Rounding may be why where, there or before, a ratio is 1 but for rounding, or the number that decided.
    """
    tied = False
    for one, (round, may_differ) in zip(found, rounds, strict=False):
        drawn = [draw for draw in one["draws"] if draw["number"] is not None]
        tied |= may_differ or any(abs(draw["number"] - draw["threshold"]) < TIE for draw in drawn)
        expected = said(round)
        if any(one[key] != expected[key] for key in expected):
            return "tie" if tied else (one, expected)
    return None if len(found) == len(rounds) else (len(found), len(rounds))


def warp_for(verifier, i):
    """Returns a warp: for sampled texts one after the other."""
    return Warp(0.0) if verifier == "greedy" else WARPS[i % len(WARPS)]


def check_texts(page, pair, count, verifier, k, most_ties):
    """Decodes prompts in the page and by the core, by the same numbers; all rounds must be the same.

    Where rounding may have decided, texts may part. How many do so depends on the processor: of texts of so
    many tokens about one in a hundred, so that more than `most_ties` of five come once in ten thousand runs.
    """
    runs = [(one, k, verifier, warp_for(verifier, i), i) for i, one in enumerate(prompts(pair, count))]
    found = page.evaluate(ROUNDS, [job(*one) for one in runs])
    for round in [round for rounds in found for round in rounds if round["drafted"]]:
        lacks = len(round["emitted"]) > len(round["drafted"])  # the last drafted token was never read
        assert round["draftLength"] == round["targetLength"] - lacks
    differences = [difference(rounds, expected(pair, *one)) for one, rounds in zip(runs, found, strict=True)]
    assert [one for one in differences if one not in (None, "tie")] == []
    assert differences.count("tie") <= most_ties


def test_the_compiled_engine_is_that_of_the_sources():
    """Who changes C++, or flags, compiles it again."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["sources"] == sources_hash(), (
        f"the C++ has changed since the engine was compiled: {COMMAND}"
    )
    assert record["wasm"] == sha256(WASM.read_bytes()), f"{WASM.name} is not the file that was compiled"


@pytest.mark.evidence
@pytest.mark.skipif(not can_compile(), reason="the package ziglang is not installed")
def test_compiling_it_again_gives_the_same_bytes():
    if version("ziglang") != COMPILER:
        pytest.skip(f"the engine was compiled by ziglang {COMPILER}")
    assert compiled() == WASM.read_bytes()


def test_the_data_is_small(path):
    assert (path.parent / "data.js").stat().st_size < MOST_BYTES


@pytest.mark.parametrize("verifier, k", [("greedy", 4), ("rejection", 2), ("block", 8), ("rejection", 0)])
def test_some_texts_are_those_of_the_core(page, pair, verifier, k):
    """Greedy and sampled, with every warp, by the numbers that Python draws."""
    check_texts(page, pair, 5, verifier, k, most_ties=2)


@pytest.mark.browser
@pytest.mark.parametrize("verifier, k", LONG)
def test_all_texts_are_those_of_the_core(page, pair, verifier, k):
    """100 prompts: all that a round says."""
    check_texts(page, pair, 100, verifier, k, most_ties=5)


@pytest.mark.parametrize(
    "verifier, warp", [*zip(["rejection", "block"] * 2, WARPS[:4], strict=True)], ids=str
)
def test_probabilities_and_draws_are_those_of_the_core(page, pair, verifier, warp):
    """p and q; numbers are used in order, each held against its threshold."""
    for prompt in prompts(pair, 2):
        (found,) = page.evaluate(ROUNDS, [job(prompt, 4, verifier, warp, 7, dists=True)])
        drawn = iter(NativeRng(7).lend(NUMBERS).tolist())
        for one, (round, _) in zip(found, expected(pair, prompt, 4, verifier, warp, 7), strict=True):
            for name, rows in (("p", round.target_probs[0]), ("q", round.draft.probs[0])):
                differences = rows - rows.new_tensor(one[name]).view(rows.shape)
                assert float(differences.abs().sum(-1).max() if len(rows) else 0) < PROBABILITY
            numbers = [draw["number"] for draw in [*one["draws"], one]]
            assert all(
                number in drawn for number in numbers if number is not None
            )  # those of the draft between
            tested = (
                len(one["drafted"]) if verifier == "block" else min(one["accepted"] + 1, len(one["drafted"]))
            )
            assert len(one["draws"]) == tested
            kept = [i for i, draw in enumerate(one["draws"], 1) if (draw["number"] or 0) < draw["threshold"]]
            assert one["accepted"] == max(kept, default=0)


def test_ngrams_are_looked_up_as_in_the_core(page, pair):
    """Where nothing is found nothing is drafted; what is found is certain."""
    for i, prompt in enumerate(prompts(pair, 3)):
        (found,) = page.evaluate(ROUNDS, [job(prompt * 2, 3, "rejection", Warp(1.0), i, looksUp=True)])
        drafter = NgramDrafter(pair.target.vocab_size)
        assert difference(found, expected(pair, prompt * 2, 3, "rejection", Warp(1.0), i, drafter)) is None
        assert any(round["drafted"] for round in found)


def lines(count):
    """Returns lines of all kinds: of stories, of characters of many scripts, of blanks and signs."""
    drawn = random.Random(34)
    texts = [line for story in draw_stories(count // 4, seed=35) for line in story.text.splitlines()]
    signs = "".join(map(chr, range(1, 700)))
    blanks = " \u00a0\u1680\u2028\u3000\ufeff\u0085x1²"
    alphabets = ["abc 'sdt\n\t", "äßé漢字かな한글😀👩‍👩‍👧 ", blanks, signs]
    while len(texts) < count:
        texts.append("".join(drawn.choices(drawn.choice(alphabets), k=drawn.randrange(60))))
    return [*texts[: count - 1], "<|endoftext|> is text"]


def test_the_tokenizer_is_the_same(page, pair):
    texts = lines(300)
    ids = [pair.tokenizer.encode(text) for text in texts]
    assert page.evaluate("texts => texts.map(text => engine.tokenizer.encode(text))", texts) == ids
    some = [one[i % 3 :] + [0] for i, one in enumerate(ids)]  # they may begin within a character
    texts = [pair.tokenizer.decode(one) for one in some]
    assert page.evaluate("ids => ids.map(one => engine.tokenizer.decode(one))", some) == texts
    size = pair.tokenizer.vocab_size
    pieces = page.evaluate("n => Array.from({ length: n }, (_, id) => engine.tokenizer.decode([id]))", size)
    assert pieces == [pair.tokenizer.decode([token]) for token in range(size)]
    named = page.evaluate("[engine.tokenizer.end, engine.target.vocabSize]")
    assert named == [pair.tokenizer.end_of_text, size]


@pytest.mark.parametrize("part", ["about", "tokenizer", "wasm", "target", "draft"])
def test_damaged_data_is_refused(page, part):
    """One character is another, something is cut off, or a part is missing."""
    change = f"""change => {{
      const {{ sha256, base64 }} = MINISPEC_DATA["{part}"];
      const at = base64.length >> 1;
      const other = base64[at] === "A" ? "B" : "A";
      const changed = base64.slice(0, at) + other + base64.slice(at + 1);
      const damaged = {{ changed, cut: base64.slice(0, -8), junk: "!" }};
      const part = change === "missing" ? undefined : {{ sha256, base64: damaged[change] }};
      return ({MESSAGE})({{ ...MINISPEC_DATA, "{part}": part }});
    }}"""
    for kind in ("changed", "cut", "junk", "missing"):
        message = page.evaluate(change, kind)
        assert f'"{part}"' in message
        assert "\n" not in message


def test_a_full_context_ends_a_text(page, pair):
    """Nothing is drafted beyond it; a K above it does no harm."""
    prompt = [5] * (pair.target.max_length - 3)
    (found,) = page.evaluate(ROUNDS, [job(prompt, 300, "greedy", Warp(0.0), 1)])
    assert difference(found, expected(pair, prompt, 300, "greedy", Warp(0.0), 1)) is None
    assert found[-1]["finish"] == "context"
