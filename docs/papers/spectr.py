"""Sun et al. 2023 (SpecTr): several candidates from one q, by k-sequential selection or recursive rejection.

Both rules see every draft of every position of the atlas's family, and of recorded positions of the pair; the
optimum is that of an optimal transport. So all numbers are exact.
"""

from book.results_tables import table
from torch import Tensor

from minispec.evidence.atlas.family import candidates, positions, recorded
from minispec.evidence.atlas.measure import outcome
from minispec.evidence.atlas.optimum import by_subsets, set_probabilities
from minispec.verifiers.tree import verify_k_sequential, verify_tree
from papers.runs import Row, Rows

TITLE = "Sun et al. 2023, SpecTr: selecting among candidates"
CLAIM = """K-sequential selection accepts at least 1 − 1/e, 63 percent, of what the best rule can accept of
candidates that were drawn from one q (abstract)."""
VERDICT = "exact"
CANDIDATES = (2, 3)


def of(name: str, p: Tensor, q: Tensor, k: int) -> Row:
    """Returns what is accepted of k candidates: means over positions, p and q being [N, V]."""
    drafts = candidates(p, q, "with replacement", k)
    optimum = by_subsets(p, set_probabilities(drafts))
    recursive, sequential = (outcome(rule, drafts).accepted for rule in (verify_tree, verify_k_sequential))
    means = {"recursive": recursive, "sequential": sequential, "optimum": optimum}
    row = {"positions": name, "candidates": k} | {rule: float(each.mean()) for rule, each in means.items()}
    return row | {
        "least": float((sequential / optimum).min()),
        "better": float((sequential > recursive + 1e-9).double().mean()),
    }


def exact() -> Rows:
    """Returns all rows: on the family, and on the first positions of recorded drafts."""
    drafts = recorded()
    pair = drafts.target_probs[:, 0], drafts.draft.probs[:, 0]
    return [of(*where, k) for where in (("family", *positions()), ("pair", *pair)) for k in CANDIDATES]


measure = exact


def show(rows: Rows) -> str:
    """Writes what each rule accepts, and where the bound is met."""
    cells = [
        (row["positions"], f"{row['candidates']}", f"{row['recursive']:.3f}", f"{row['sequential']:.3f}")
        + (f"{row['optimum']:.3f}", f"{row['least']:.0%}", f"{row['better']:.0%}")
        for row in rows
    ]
    head = ("positions", "candidates", "recursive", "k-sequential", "optimum", "least of it", "better at")
    return (
        "Accepted at one position, on [the atlas's distributions](atlas.md). *Least of it*: k-sequential "
        "over the optimum where that is smallest. *Better at*: the share of positions where it accepts more "
        f"than recursive rejection.\n\n{table(head, cells, 1)}"
    )
