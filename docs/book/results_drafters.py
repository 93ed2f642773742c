"""What the results page says of ways to draft, from what was recorded of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from book import results_tables as tables
from book.results_tables import fill
from minispec.cli.bench_tables import by_pair, drafter_parts, grid

RULES = """With the draft model other lossless rules verify too, at temperature 1 and with the same seeds.
*token* is rejection sampling; the last columns are the speed relative to token verification: below 1 is
slower. On native only that one is in C++."""
BACKENDS = """To judge a method, read the last column on torch: there the target and every drafter run in
PyTorch or Python. The column *speed-up* asks another question: is it faster than the best that this machine
can do without a draft? There, rows of torch are divided by a target in C++, and are losses mostly for that
reason. On native the draft model and the exit also draft in C++. Medusa, EAGLE and the parallel drafter draft
in torch whatever decodes, and look-ups are Python. Beside a fast target such a draft is slow, however often
it is accepted, so these rows do not measure those methods."""


def of_drafters(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields what the page says of ways to draft."""
    if not reports:
        return
    yield "## Ways to draft"
    yield fill(
        "Each drafter on each backend that it has, at the K that suits it there, greedy (T = 0) and sampled "
        "(T = 1). All of them are lossless. Speed-ups are over the target alone on the backend where that is "
        "fastest; in the last column, over the target alone on the same backend. What was predicted is made "
        "of the seconds of a round and of prefill, measured alone, and of the tokens a target call on other "
        "prompts."
    )
    yield fill(BACKENDS)
    yield fill(
        "The second table of a pair shows where they are right: of the drafted tokens that were tested at "
        "the first position, the second and so on, the share that was kept, in percent, at the K of the "
        "first backend. Beside it what the drafter takes: seconds of training, parameters that the target "
        "does not have, and the bytes that it keeps of one text, its cache and states or its index."
    )
    measured = {report["pair"] for report in reports}
    for report in reports:
        yield f"### Drafters of {report['pair']}"
        machine, own = report["machine"], report["conditions"]
        yield fill(
            f"Measured on {report['date']}: {machine['gpu'] or machine['processor']}, {machine['cores']} "
            f"cores, torch {machine['torch']}, {own['dtype']}; {own['plan']['reporting']} prompts, "
            f"{own['plan']['new_tokens']} new tokens each."
        )
        rows = by_pair(report["drafters"])[report["pair"]]
        yield tables.drafters(rows)
        yield tables.markdown(drafter_parts(rows))
        if "rules" in report["sections"]:
            yield fill(RULES)
            yield tables.markdown(grid("rules", report["sections"]["rules"]["rows"], 2))
        missing = report["sections"]["drafters"]["unavailable"].items()
        yield "\n".join(f"- Not measured: {name}: {why}" for name, why in missing if name not in measured)
