"""Sun et al. 2024: how many more tokens of a draft block verification accepts than token verification.

On chains that are small enough every draft is enumerated. On the pair drafts are drawn, and what each rule
accepts of a draft is then computed from its coins: both rules judge the same drafts, so even a small gain can
be seen.
"""

import torch
from book.results_tables import table

from minispec import ModelDrafter, verify_rejection
from minispec.evidence.atlas.atlas import chain_means
from minispec.evidence.atlas.measure import expected_accepted
from minispec.evidence.checker.instance import PossibleDrafts
from minispec.verifiers.block import verify_block
from papers.runs import Row, Rows, mean, run, shipped

TITLE = "Sun et al. 2024: block verification"
CLAIM = """With p = (1/3, 2/3) and q = (2/3, 1/3) token verification accepts 10/9 of two drafted tokens,
block verification 11/9 (section 2); on average no rule that knows p and q along the draft accepts more
(theorem 2). In time it gains 5 to 8 percent (abstract)."""
VERDICT = "exact and measured; its times are not reproducible here, as its models are not public"
KS = (4, 8)


def exact() -> Rows:
    """Returns what both rules accept of the atlas's chains, by enumeration."""
    found = chain_means()
    return [{"drafts": one.name, "k": one.k, "token": one.token, "block": one.block} for one in found]


def measured(k: int) -> Row:
    """Returns what both rules accept of drafts of the pair, and the standard error of the difference."""
    pair = shipped()
    accepted = []
    for r in run(pair, ModelDrafter(pair.draft), k):
        whole = (r.draft.lengths == k) & torch.tensor(r.live)
        if not bool(whole.any()):
            break  # all texts are about to end
        drafts = PossibleDrafts(r.draft, r.target_probs, r.block, torch.ones(len(r.block)))
        both = [expected_accepted(rule, drafts)[whole] for rule in (verify_rejection, verify_block)]
        accepted.append(torch.stack(both))
    token, block = torch.cat(accepted, dim=1)
    gain = mean((block - token).tolist())
    means = {"token": float(token.mean()), "block": float(block.mean())}
    return {"drafts": "sampled", "k": k} | means | {"error": gain["error"], "calls": gain["calls"]}


def measure() -> Rows:
    """Enumerates chains, and judges drafts of the pair."""
    return exact() + [measured(k) for k in KS]


def show(rows: Rows) -> str:
    """Writes what both accept, and the gain in tokens a call."""
    cells = []
    for row in rows:
        gain = (row["block"] + 1) / (row["token"] + 1) - 1
        error = f" ± {row['error'] / (row['token'] + 1):.2%}" if "error" in row else ""
        numbers = f"{row['token']:.3f}", f"{row['block']:.3f}", f"{gain:.2%}{error}"
        cells.append((row["drafts"], f"{row['k']}", *numbers))
    head = ("drafts", "K", "token", "block", "more tokens a call")
    return (
        "Accepted tokens of a draft. The first three lines are enumerated [for the atlas](atlas.md#chains). "
        f"*Sampled* are {rows[-2]['calls']:,} and {rows[-1]['calls']:,} drafts of the pair stories, each "
        f"judged by both rules. A good draft leaves little to gain.\n\n{table(head, cells, 1)}"
    )
