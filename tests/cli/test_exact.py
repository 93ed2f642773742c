"""`minispec generate --exact`: the same numbers to the last bit whatever K is, and the cost is said."""

import json

import pytest
from pairs import call

from minispec.rules.fixed_width import FixedWidth


@pytest.fixture
def generate(pair, capsys):
    def run(*arguments, status=0):
        command = ("generate", "--pair", pair, "--prompt", "The cat", "--verifier", "greedy", "--ignore-eos")
        code, out, err = call(capsys, *command, *arguments)
        assert code == status, err
        return out, err

    return run


def test_every_k_gives_the_same_bits(generate):
    """In float32 the tokens and the log-probabilities of K = 0, 1, 4 and 20 are equal, not just close.

    K = 20 is wider than a block of exact mode, so that a round is read in two.
    """
    documents = [json.loads(generate("--exact", "--logprobs", "--json", "--k", k)[0]) for k in (0, 1, 4, 20)]
    assert len({tuple(document["tokens"]) for document in documents}) == 1
    assert len({tuple(document["logprobs"]) for document in documents}) == 1
    assert documents[2]["acceptance"] > 0


def test_the_cost_is_said_beside_the_text(generate):
    """People read one line on standard error, programs a record; the text itself stays as it is."""
    plain, silent = generate()
    text, said = generate("--exact")
    assert text == plain and silent == ""
    assert said.startswith("exact mode, width 17: ") and said.count("\n") == 1
    cost = json.loads(generate("--exact", "--json")[0])["exact"]
    assert cost["width"] == 17 and cost["plain"] > 0
    assert cost["ratio"] == cost["fixed"] / cost["plain"]
    assert "exact" not in json.loads(generate("--json")[0])


def test_a_machine_on_which_it_does_not_work(generate, monkeypatch):
    """If logits differ here, that is one clear line and no text."""

    def fail(self, rows=2):
        raise ValueError("exact mode does not work on this machine")

    monkeypatch.setattr(FixedWidth, "check", fail)
    out, err = generate("--exact", status=2)
    assert out == "" and err == "minispec: exact mode does not work on this machine\n"
