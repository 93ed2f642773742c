"""The section on rules: the same drafts, judged by each."""

from minispec.evidence.bench.sections import RULES


def test_every_rule_verifies_at_every_k_on_every_backend(report):
    """Speeds are over rejection sampling; drawing anew accepts fewer tokens, as a block no fewer at K = 1."""
    rows = report["sections"]["rules"]["rows"]
    assert {(row["rule"], row["k"]) for row in rows} == {(rule, k) for rule in RULES for k in (1, 3)}
    results = {(row["backend"], row["k"], row["rule"]): row for row in rows}
    assert len(results) == len(rows)
    for (backend, k, rule), row in results.items():
        token = results[backend, k, "token"]
        assert token["over_token"] == 1 and row["over_token"] > 0 and row["pair"] == "tiny"
        if rule == "compare":
            assert row["accepted_over_drafted"] < token["accepted_over_drafted"]
        if rule == "block" and k == 1:  # the same rule there, with the same random numbers
            assert row["tokens_per_target_call"] == token["tokens_per_target_call"]
