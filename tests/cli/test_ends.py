"""How `minispec generate` ends: at the cap, the context's end, end-of-text, a stop text."""

import pytest
import torch
from pairs import build_pair, random_models, tiny_tokenizer

from minispec.io.checkpoint import load_pair

GREEDY = "--verifier greedy"


@pytest.fixture(scope="module")
def silent_pair(tmp_path_factory):
    """A pair whose models have equal logits everywhere, so that greedily they end the text at once."""
    target, _ = random_models()
    with torch.no_grad():
        target.norm.weight.zero_()
    assert tiny_tokenizer().end_of_text == 0
    return build_pair(tmp_path_factory.mktemp("pairs") / "silent", target, target)


def test_greedy_emits_what_the_target_emits(generate):
    """In float64, in fewer calls; so does rejection at temperature 0, or from the one most probable token."""
    line = "--max-new-tokens 60 --dtype float64"
    alone = generate(f"{line} {GREEDY} --target-only")
    for way in (GREEDY, "--k 16 --temperature 0", "--top-k 1", "--top-p 1e-9"):
        fast = generate(f"{line} {way}")
        assert fast["tokens"] == alone["tokens"] and fast["text"] == alone["text"]
        assert fast["target_calls"] < alone["target_calls"]


@pytest.mark.parametrize(("cap", "finish", "count"), [(0, "cap", 0), (5, "cap", 5), (500, "context", None)])
def test_the_cap_and_the_context_end_a_text(generate, cap, finish, count):
    """Never a token more than asked for, and never more than the context of 96 holds."""
    result = generate(f"--ignore-eos --max-new-tokens {cap}")
    assert result["finish"] == finish
    assert len(result["tokens"]) == (96 - len(result["prompt_tokens"]) if count is None else count)


def test_end_of_text_ends_a_text(generate, silent_pair):
    """End-of-text ends the row and is no text; with `--ignore-eos` it goes on to the cap.

    What is accepted after the end is counted and not emitted: mean acceptance length has it, tokens
    per target call have not.
    """
    line = f"{GREEDY} --max-new-tokens 7 --k 3"
    ended = generate(line, folder=silent_pair)
    assert (ended["tokens"], ended["text"], ended["finish"]) == ([0], "", "eos")
    assert (ended["rounds"][0]["accepted"], ended["acceptance"], ended["accepted_over_drafted"]) == (3, 1, 1)
    assert (ended["mean_acceptance_length"], ended["tokens_per_target_call"]) == (4.0, 1.0)
    ignored = generate(f"{line} --ignore-eos", folder=silent_pair)
    assert (ignored["tokens"], ignored["finish"]) == ([0] * 7, "cap")


def stop_texts(whole, tokens):
    """Returns options of ten kinds of stop texts: in tokens, across tokens, two, none there."""
    decode = tiny_tokenizer().decode
    ends = [len(decode(tokens[: n + 1])) for n in range(len(tokens))]
    longest = max(range(len(tokens) - 1), key=lambda n: ends[n + 1] - ends[n])  # and begins after the first
    stops = {
        "a token": [whole[ends[2] : ends[3]]],
        "two tokens": [whole[ends[3] : ends[5]]],
        "across a token's end": [whole[ends[8] - 1 : ends[8] + 1]],
        "across a long token's end": [whole[ends[longest + 1] - 1 : ends[longest + 1] + 2]],
        "inside a token": [whole[ends[longest] + 1 : ends[longest + 1]]],
        "the first character": [whole[0]],
        "the end": [whole[-3:]],
        "two, the later one first": [whole[ends[9] :], whole[ends[5] : ends[7]]],
        "of the prompt": [" cat sat"],
        "of no text": ["no such thing"],
    }
    return {kind: [each for stop in found for each in ("--stop", stop)] for kind, found in stops.items()}


@pytest.mark.parametrize("settings", [GREEDY, "--seed 1", "--seed 2 --temperature 0.6 --drafter ngram"])
def test_a_stop_text_ends_all_of_a_text(document, generate, pair, settings):
    """Ids, text, log-probabilities, stream and counts end together; rounds stay as they were verified."""
    line = f"{settings} --k 6 --logprobs --max-new-tokens 30 --ignore-eos"
    whole = generate(line)
    for kind, stops in stop_texts(whole["text"], whole["tokens"]).items():
        prompt = ("--pair", pair, "--prompt", "The cat sat")
        cut, _ = document(f"generate {line}", *prompt, *stops)
        starts = [whole["text"].find(stop) for stop in stops[1::2] if stop in whole["text"]]
        text = whole["text"][: min(starts)] if starts else whole["text"]
        n = len(cut["tokens"])
        assert (cut["text"], cut["tokens"]) == (text, whole["tokens"][:n]), kind
        ends = [len(tiny_tokenizer().decode(whole["tokens"][:i])) for i in (n, n + 1)]
        assert ends[0] <= len(text) and (ends[1] > len(text) or n == len(whole["tokens"])), kind
        assert cut["logprobs"] == whole["logprobs"][:n], kind
        assert cut["finish"] == ("stop" if starts else "cap"), kind
        assert cut["tokens_per_target_call"] == n / cut["target_calls"], kind
        rounds = whole["rounds"][: len(cut["rounds"])]
        assert cut["rounds"] == rounds and len(rounds) == cut["target_calls"], kind
        earlier = tiny_tokenizer().decode([token for r in rounds[:-1] for token in r["emitted"]])
        earlier = earlier.rstrip("\ufffd")  # perhaps half a character
        assert not any(stop in earlier for stop in stops[1::2]), kind


@pytest.mark.parametrize("drafter", ["model", "tree"])
def test_log_probabilities_are_the_targets(generate, pair, drafter):
    """`--logprobs` gives for each token what an uncached forward of the target gives it, before the warp."""
    settings = "--max-new-tokens 20 --temperature 0.7 --top-k 50"
    result = generate(f"--logprobs {settings} --drafter {drafter}")
    ids = result["prompt_tokens"] + result["tokens"]
    with torch.no_grad():
        scores = load_pair(pair).target(torch.tensor([ids])).double().log_softmax(-1)[0]
    expected = [float(scores[i - 1, ids[i]]) for i in range(len(result["prompt_tokens"]), len(ids))]
    assert result["logprobs"] == pytest.approx(expected, abs=1e-4)
