"""How `minispec generate` ends: at the cap, the context's end, end-of-text, a stop text."""

import json

import pytest
import torch
from pairs import build_pair, call, random_models, tiny_tokenizer

from minispec.io.checkpoint import load_pair

PROMPT = "The cat sat"


@pytest.fixture(scope="module")
def silent_pair(tmp_path_factory):
    """A pair whose target has equal logits everywhere, so that greedily it ends the text at once."""
    target, draft = random_models()
    with torch.no_grad():
        target.norm.weight.zero_()
    assert tiny_tokenizer().end_of_text == 0
    return build_pair(tmp_path_factory.mktemp("pairs") / "silent", target, draft)


@pytest.fixture
def generate(capsys, pair):
    """Runs `generate --json` and returns the document; nothing else may be on either output."""

    def run(*arguments, pair=pair):
        done = call(capsys, "generate", "--pair", pair, "--prompt", PROMPT, "--json", *arguments)
        assert (done[0], done[2]) == (0, "")
        return json.loads(done[1])

    return run


@pytest.mark.parametrize("verifier", ["greedy", "rejection"])
def test_each_round_says_what_its_last_token_is(generate, verifier):
    """A round emits its accepted drafts and one more: a correction after a rejection, else a bonus."""
    kinds = set()
    for seed in range(4):
        for r in generate("--verifier", verifier, "--seed", seed)["rounds"]:
            accepted, drafted, emitted = r["accepted"], r["drafted"], r["emitted"]
            assert emitted[:accepted] == drafted[: min(accepted, len(emitted))]
            if r["kind"] == "draft":  # cut inside what was accepted
                assert len(emitted) <= accepted
            else:
                assert len(emitted) == accepted + 1
                assert r["kind"] == ("bonus" if accepted == len(drafted) else "correction")
            assert r["emitted_text"] == [tiny_tokenizer().piece(token) for token in emitted]
            assert r["drafted_text"] == [tiny_tokenizer().piece(token) for token in drafted]
            kinds.add(r["kind"])
    assert {"bonus", "correction"} <= kinds


def test_what_is_accepted_after_the_end_is_counted_and_not_emitted(generate, tmp_path):
    """Mean acceptance length has it, tokens per target call have not: 1 + K, and 1."""
    target, _ = random_models()
    with torch.no_grad():
        target.norm.weight.zero_()
    own = build_pair(tmp_path / "own", target, target)
    report = generate("--verifier", "greedy", "--k", 3, pair=own)
    assert (report["finish"], report["tokens"], report["rounds"][0]["accepted"]) == ("eos", [0], 3)
    assert (report["acceptance"], report["accepted_over_drafted"]) == (1.0, 1.0)
    assert (report["mean_acceptance_length"], report["tokens_per_target_call"]) == (4.0, 1.0)


@pytest.mark.parametrize("k", [1, 3, 16])
def test_greedy_says_what_the_target_says_for_every_k(generate, k):
    """Greedily the tokens are target-only's in float64, in fewer calls."""
    options = ("--verifier", "greedy", "--max-new-tokens", 60, "--dtype", "float64")
    alone, fast = generate(*options, "--target-only"), generate(*options, "--k", k)
    assert fast["tokens"] == alone["tokens"] and fast["text"] == alone["text"]
    assert fast["target_calls"] < alone["target_calls"]


def test_other_ways_to_be_greedy(generate):
    """Rejection at temperature 0, and sampling from the single most probable token, say what greedy says."""
    greedy = generate("--verifier", "greedy")["tokens"]
    assert generate("--temperature", 0)["tokens"] == greedy
    assert generate("--top-k", 1)["tokens"] == greedy
    assert generate("--top-p", 1e-9)["tokens"] == greedy


@pytest.mark.parametrize(
    ("cap", "finish", "count"), [(0, "cap", 0), (1, "cap", 1), (5, "cap", 5), (500, "context", None)]
)
def test_the_cap_and_the_context_end_a_text(generate, cap, finish, count):
    """Never a token more than asked for, and never more than the context of 96 holds."""
    document = generate("--max-new-tokens", cap, "--ignore-eos")
    assert document["finish"] == finish
    assert len(document["tokens"]) == (96 - len(document["prompt_tokens"]) if count is None else count)


def test_end_of_text_ends_a_text(generate, silent_pair):
    """End-of-text ends the row and is no text; with `--ignore-eos` it goes on to the cap."""
    options = ("--verifier", "greedy", "--max-new-tokens", 7)
    ended = generate(*options, pair=silent_pair)
    assert (ended["tokens"], ended["text"], ended["finish"]) == ([0], "", "eos")
    ignored = generate(*options, "--ignore-eos", pair=silent_pair)
    assert (ignored["tokens"], ignored["finish"]) == ([0] * 7, "cap")


def test_the_first_of_several_stop_texts_cuts(generate):
    """Of several stops the first to come cuts, speculatively as alone; one that never comes does not."""
    options = ("--verifier", "greedy")
    whole = generate(*options)["text"]
    early, late = whole[9:12], whole[20:23]
    stops = ("--stop", late, "--stop", early)
    cut, alone = generate(*options, *stops), generate(*options, *stops, "--target-only")
    assert cut["text"] == alone["text"] == whole[: whole.index(early)]
    assert cut["finish"] == alone["finish"] == "eos"
    assert generate(*options, "--stop", "no such thing")["text"] == whole


@pytest.mark.parametrize("drafter", ["model", "tree"])
def test_log_probabilities_are_the_targets(generate, pair, drafter):
    """`--logprobs` gives for each token what an uncached forward of the target gives it, before the warp."""
    settings = ("--max-new-tokens", 20, "--temperature", 0.7, "--top-k", 50, "--drafter", drafter)
    document = generate("--logprobs", *settings)
    ids = document["prompt_tokens"] + document["tokens"]
    with torch.no_grad():
        scores = load_pair(pair).target(torch.tensor([ids])).double().log_softmax(-1)[0]
    expected = [float(scores[i - 1, ids[i]]) for i in range(len(document["prompt_tokens"]), len(ids))]
    assert document["logprobs"] == pytest.approx(expected, abs=1e-4)


def test_threads_are_set(generate, monkeypatch):
    """`--threads` sets torch's threads."""
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    generate("--threads", 3, "--max-new-tokens", 1)
    assert asked == [3]
