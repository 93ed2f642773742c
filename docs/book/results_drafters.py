"""What the results page says of ways to draft, from what was recorded of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from book import results_tables as tables
from book.results_tables import fill
from minispec.cli.bench_tables import by_pair, drafter_parts, grid

RULES_K = 4
RULES = f"""With the draft model other lossless rules verify too, at temperature 1, with K = {RULES_K} and
the same seeds. *token* is rejection sampling; the last columns are the speed relative to token
verification: below 1 is slower. On native only that one is in C++."""
BACKENDS = """Each speed-up is over the target alone on the same backend. On torch the target and every
drafter run in PyTorch or Python: that column compares methods. On native the draft model and the exit also
draft in C++. Medusa, EAGLE and the parallel drafter draft in torch whatever decodes, and look-ups are
Python. Beside a fast target such a draft is slow, however often it is accepted, so their losses there do
not measure those methods."""
PARTS = """The second table of a pair shows where they are right: of the drafted tokens that were tested at
the first position, the second and so on, the share that was kept, in percent, at the K of the first backend
and T = 0. Beside it what the drafter takes: seconds of training, parameters that the target does not have,
and the bytes that it keeps of one text, its cache and states or its index. What is left out here is in
`drafters-PAIR.json` in `minispec/evidence/recorded`: quartiles, predictions, speed over the fastest
backend, acceptance at T = 1, and the rules at every K."""


def of_drafters(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields what the page says of ways to draft."""
    if not reports:
        return
    yield "## Ways to draft"
    yield fill(
        "Each drafter on each backend that it has, at the K that suits it there, greedy (T = 0) and sampled "
        "(T = 1), with the tokens a target call. All of them are lossless."
    )
    yield fill(BACKENDS)
    yield fill(PARTS)
    measured = {report["pair"] for report in reports}
    for report in reports:
        yield f"### Drafters of {report['pair']}"
        machine = report["machine"]
        own = report["conditions"]
        yield fill(
            f"Measured on {report['date']}: {machine['gpu'] or machine['processor']}, {machine['cores']} "
            f"cores, torch {machine['torch']}, {own['dtype']}; {own['plan']['reporting']} prompts, "
            f"{own['plan']['new_tokens']} new tokens each."
        )
        rows = by_pair(report["drafters"])[report["pair"]]
        yield tables.drafters(rows)
        yield tables.markdown(drafter_parts([row for row in rows if row["temperature"] == 0]))
        if "rules" in report["sections"]:
            yield fill(RULES)
            rules = [row for row in report["sections"]["rules"]["rows"] if row["k"] == RULES_K]
            yield tables.markdown(grid("rules", rules, 2))
        missing = report["sections"]["drafters"]["unavailable"].items()
        yield "\n".join(f"- Not measured: {name}: {why}" for name, why in missing if name not in measured)
