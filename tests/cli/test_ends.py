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


@pytest.mark.parametrize("verifier", ["greedy", "rejection"])
def test_each_round_says_what_its_last_token_is(generate, verifier):
    """A round emits its accepted drafts and one more: a correction after a rejection, else a bonus."""
    kinds = set()
    piece = tiny_tokenizer().piece
    for seed in range(4):
        for r in generate(f"--verifier {verifier} --seed {seed} --max-new-tokens 40")["rounds"]:
            accepted, drafted, emitted = (r[name] for name in ("accepted", "drafted", "emitted"))
            assert emitted[:accepted] == drafted[: min(accepted, len(emitted))]
            if r["kind"] == "draft":  # cut inside what was accepted
                assert len(emitted) <= accepted
            else:
                assert len(emitted) == accepted + 1
                assert r["kind"] == ("bonus" if accepted == len(drafted) else "correction")
            assert r["emitted_text"] == [piece(token) for token in emitted]
            assert r["drafted_text"] == [piece(token) for token in drafted]
            kinds.add(r["kind"])
    assert {"bonus", "correction"} <= kinds


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


def test_the_first_of_several_stop_texts_cuts(generate):
    """Of several stops the first to come cuts, speculatively as alone; one that never comes does not."""
    whole = generate(GREEDY)["text"]
    early = whole[9:12]
    stops = ("--stop", whole[20:23], "--stop", early)
    cut = generate(GREEDY, *stops)
    alone = generate(f"{GREEDY} --target-only", *stops)
    assert cut["text"] == alone["text"] == whole[: whole.index(early)]
    assert cut["finish"] == alone["finish"] == "eos"
    assert generate(f"{GREEDY} --stop 'no such thing'")["text"] == whole


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
