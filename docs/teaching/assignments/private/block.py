"""Private tests of assignment 1, block verification. `hand_out.py` puts a student's own seed into them.

Whether texts come out as the target's is enumerated, every branch, so that luck plays no part.
"""

from random import Random

import torch
from otter.test_files import test_case

from minispec.classroom.batches import follows_scripts, row_by_row, rows_that_influence
from minispec.classroom.running import read_tensor, time_limit, value_of
from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundPlan, RoundRng, SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.guard import OutOfTime
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.proof.enumeration import NotScripted
from minispec.verifiers.block import verify_block

OK_FORMAT = False
SEED = "practice"
name = "block"

SECONDS = 60
PADDING = 7.0  # no probability, nor the logarithm of one


def draw_instance(rng, size, lengths):
    """Returns an instance whose distributions differ after every beginning; rows draft so many tokens."""

    def tables(count):
        return tuple(tuple(map(draw_weights, [rng] * size**i, [size] * size**i)) for i in range(count))

    k = max(lengths)
    return Instance(tables(k + 1), tables(k), lengths)


def draw_weights(rng, size):
    """Returns a distribution in which an id may have probability 0."""
    return fractions(rng.randrange(1, 10), *(rng.randrange(10) for _ in range(size - 1)))


def telling_instance(rng):
    """Returns an instance where it matters that w is below 1 after one first token, and two ids are left."""
    order = rng.sample(range(3), 3)
    share = rng.randrange(4, 7)

    def table(*weights):
        return (fractions(*(weights[i] for i in order)),)

    p = (table(3, 3, 4), table(1, share, 9 - share), table(2, 3, 5))
    return Instance(p, (table(5, 3, 2), table(8, 1, 1)))


def form_of(seed):
    """Returns the form in which a student is given a batch, and gives the answer."""
    rng = Random(f"{seed} form")
    return {
        "layout": rng.choice(("packed", "right-aligned")),
        "given": rng.choice(("probabilities", "logarithms")),
        "counted": rng.choice(("kept", "thrown away")),
    }


def ragged(values, lengths, layout, padding):
    """Lays out rows of values [B, n, …], of which the first ones count, as many as are said for each."""
    rows = [row[:length] for row, length in zip(values, lengths, strict=True)]
    if layout == "packed":
        return torch.cat(rows)
    laid_out = torch.full_like(values, padding)
    for b, row in enumerate(rows):
        laid_out[b, values.shape[1] - len(row) :] = row
    return laid_out


def in_form(form, draft, target_probs):
    """Returns tokens, q, p and lengths as a student gets them."""
    lengths = draft.lengths.tolist()
    q, p = draft.probs.double(), target_probs.double()
    if form["given"] == "logarithms":
        q, p = q.log(), p.log()
    return (
        ragged(draft.tokens, lengths, form["layout"], -1),
        ragged(q, lengths, form["layout"], PADDING),
        ragged(p, [length + 1 for length in lengths], form["layout"], PADDING),
        draft.lengths.clone(),
    )


def parameters(seed):
    """Returns the form, and an example in it."""
    form = form_of(seed)
    drafts = draw_instance(Random(f"{seed} example"), 3, (2, 1, 0)).drafts()
    rows = [int((drafts.draft.lengths == length).nonzero()[0]) for length in (2, 1, 0)]
    values = in_form(form, *drafts.rows(torch.tensor(rows)))
    names = ("tokens", "q", "p", "lengths")
    example = {part: rounded(value.tolist()) for part, value in zip(names, values, strict=True)}
    return form | {"example": example}


def rounded(value):
    """Returns nested lists with short numbers."""
    return [*map(rounded, value)] if isinstance(value, list) else round(max(value, -99), 4)


def rule_of(verify):
    """Returns a verifier that asks a student's function, in the student's form."""
    form = form_of(SEED)

    def decide(draft, target_probs, rng):
        counts, token = verify(*in_form(form, draft, target_probs), rng)
        counts = torch.as_tensor(counts)
        kept = counts if form["counted"] == "kept" else draft.lengths - counts
        return Verdict(kept.long(), torch.as_tensor(token).long())

    return Verifier("yours", decide, stops_at_first_rejection=False)


RNG = Random(f"{SEED} tests")
WHOLE = [telling_instance(RNG), *(draw_instance(RNG, size, (k,)) for size, k in ((3, 1), (3, 2), (2, 3)))]
SHORT = [draw_instance(RNG, size, lengths) for size, lengths in ((2, (1, 2)), (3, (0, 2)), (2, (0, 1, 3)))]


def limited(ask):
    """Returns what an enumeration returns, within a time."""
    try:
        with time_limit(SECONDS):
            return ask()
    except OutOfTime:
        raise AssertionError(f"It had not come to an end after {SECONDS} seconds.") from None
    except NotScripted:
        raise AssertionError("Draw with rng, a decision for each row, and in no other way.") from None
    except Broken as broken:
        raise AssertionError(str(broken)) from None


def require_lossless(rule, instances, words):
    """Raises AssertionError if texts do not come out as the target's."""
    report = limited(lambda: check_verifier(rule, instances=instances))
    assert report.passed and report.method == "exact", f"{words}: {report}"


def kept(rule, instance):
    """Returns how many tokens a rule keeps on average."""
    leaves = limited(lambda: enumerate_rule(rule, instance.drafts()))
    return sum(leaf.last * leaf.weight for leaf in leaves.values())


@test_case(name="form", points=1)
def form(verify):
    """A draft that is certain for both models is kept, whatever is drawn."""
    certain = torch.eye(4).double()[None, [1, 2, 3]]
    draft = Draft(torch.tensor([[1, 2]]), certain[:, :2])
    rng = RoundRng(SeededRng(0), RoundPlan.unlimited(1, certain.device))
    said = value_of(verify, *in_form(form_of(SEED), draft, certain), rng)
    assert isinstance(said, tuple) and len(said) == 2, "A pair is wanted: counts [B], token [B]."
    counts, token = (read_tensor(part, (1,)).tolist() for part in said)
    counted = form_of(SEED)["counted"]
    assert counts == [2 if counted == "kept" else 0], f"Tokens that are {counted} are to be counted."
    assert token == [3], "Where all is kept, the next token comes from the last distribution of p."


@test_case(name="one row, lossless", points=3)
def lossless(verify):
    """Rows one by one, that draft as many tokens as there is room for."""
    require_lossless(row_by_row(rule_of(verify)), WHOLE, "Not the target's distribution")


@test_case(name="one row, as much as can be kept", points=3)
def keeps(verify):
    """As many tokens as block verification keeps, on average."""
    rule = row_by_row(rule_of(verify))
    for instance in WHOLE:
        mine, block = (kept(judge, instance) for judge in (rule, verify_block))
        words = f"It keeps {mine:.4f} of {instance.k} tokens on average, and block verification {block:.4f}"
        assert mine > block - 1e-9, f"{words}: is each token judged alone?"
        assert mine < block + 1e-9, f"{words}: no rule that is lossless keeps more."


@test_case(name="short rows", points=3)
def short(verify):
    """Rows one by one, that draft fewer tokens than there is room for."""
    words = "Where all rows draft equally many it may be right; where they do not, it is not"
    rule = row_by_row(rule_of(verify))
    require_lossless(rule, SHORT, words)
    for instance in SHORT:
        mine, block = (kept(judge, instance) for judge in (rule, verify_block))
        assert abs(mine - block) < 1e-9, f"A short row keeps {mine:.4f} tokens on average, not {block:.4f}."


@test_case(name="batches", points=2)
def batches(verify):
    """Rows of one batch do not change each other."""
    rule = rule_of(verify)
    words = "Each row alone may be right; in a batch it is not"
    if limited(lambda: follows_scripts(rule, SHORT)):
        require_lossless(rule, SHORT, words)
    else:
        found = limited(lambda: rows_that_influence(rule, SHORT))
        assert not found, f"{words}: {found}"
