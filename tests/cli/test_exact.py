"""`minispec generate --exact`: the same numbers to the last bit whatever K is, and the cost is said."""

GREEDY = "generate --prompt 'The cat' --verifier greedy --ignore-eos --max-new-tokens 40"


def test_every_k_gives_the_same_bits(document, pair):
    """In float32 the tokens and the log-probabilities of K = 0, 1, 4 and 20 are equal, not just close.

    K = 20 is wider than a block of exact mode, so that a round is read in two.
    """
    runs = [document(f"{GREEDY} --exact --logprobs --k {k}", "--pair", pair)[0] for k in (0, 1, 4, 20)]
    assert len({tuple(run["tokens"]) for run in runs}) == 1
    assert len({tuple(run["logprobs"]) for run in runs}) == 1
    assert runs[2]["acceptance"] > 0


def test_the_cost_is_said_beside_the_text(command, document, pair):
    """People read one line on standard error, programs a record; the text itself stays as it is."""
    plain, silent = command(GREEDY, "--pair", pair)
    text, line = command(f"{GREEDY} --exact", "--pair", pair)
    assert text == plain and silent == ""
    assert line.startswith("exact mode, width 17: ") and line.count("\n") == 1
    cost = document(f"{GREEDY} --exact", "--pair", pair)[0]["exact"]
    assert cost["width"] == 17 and cost["plain"] > 0
    assert cost["ratio"] == cost["fixed"] / cost["plain"]
    assert "exact" not in document(GREEDY, "--pair", pair)[0]
