"""What measures other projects: how they are called, counterexamples by hand, the record and its page.

The projects need not be here. A stand-in in another project's manner takes their place, and tests of the real
ones are skipped where there is none.
"""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from book.samplers import RECORD, page
from peers import engines, kernels, llama_cpp, rules, samplers

from minispec.core.model import GPTConfig
from minispec.evidence.bench import real_sizes
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions, one_token, standard_instances
from minispec.io.files import read_json

HALF = fractions(1, 1)
SURE = fractions(1, 0)
# In the manner of other projects: what is imported is not here, or is another file.
THEIRS = """
import a_library_that_is_not_installed as absent
import torch
from theirs.helpers import helper

@absent.fast
def unused(p: absent.Type | None): ...

def emit(tokens, q, p):
    n = tokens.shape[1]
    ratio = (p[0, :n] / q[0]).gather(1, tokens[0, :, None])[:, 0]
    kept = int(((torch.rand_like(ratio) > ratio).cumsum(0) == 0).sum())
    left = (p[0, kept] - q[0, kept]).clamp(min=0) if kept < n else p[0, n]
    return torch.cat([tokens[0, :kept], helper(left[None])])
"""


ROWS = read_json(RECORD)["samplers"]


def rule_of(text, folder):
    """Loads the stand-in as the adapters load a project."""
    path = folder / "theirs.py"
    path.write_text("import torch\ndef helper(p): return torch.multinomial(p, num_samples=1)[0]")
    helpers = rules.load_file(path)
    path.write_text(text)
    theirs = rules.load_file(path, helpers=helpers)

    def emit(draft, p, rng):
        theirs.torch = helpers.torch = rules.scripted_torch(rng)
        return theirs.emit(draft.tokens, draft.probs, p)

    return rules.row_by_row(emit)


FAULTS = {
    "residual": ("- q[0, kept]", ""),
    "ratio": ("> ratio", "> ratio.sqrt()"),
    "bonus": ("p[0, n]", "p[0, n - 1]"),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_sampler_that_draws_from_torch_is_enumerated(fault, tmp_path):
    """Exactly, in batches, ragged rows too: no branch is drawn, and a fault in it is found."""
    text = THEIRS.replace(*FAULTS[fault]) if fault else THEIRS
    some = [one for one in standard_instances() if one.vocab_size**one.k <= 4][::24]
    report = check_verifier(rule_of(text, tmp_path), instances=some)
    assert report.method == "exact" and report.passed == (fault is None) == (text == THEIRS)
    assert report.passed or report.damage.largest > 0.05


@pytest.mark.parametrize("right", [True, False])
def test_rows_in_one_list_are_sampled(right):
    """Also rows that propose nothing. A right one fails in 1 of 10^6 runs; 0.25 off passes as seldom."""

    def in_one_list(tokens, counts, most, ends, q, logits, bonus, sampling):
        """`rejection_sample` in vLLM's manner: tokens of all rows in one list, -1 where nothing comes."""
        q = q if right else q.flip(0)
        p = logits.exp()
        emitted = torch.full((len(counts), most + 1), -1)
        for row, (count, end) in enumerate(zip(counts, ends.tolist(), strict=True)):
            emitted[row, count] = bonus[row]
            for i, at in enumerate(range(end - count, end)):
                emitted[row, i] = token = tokens[at]
                if torch.rand(()) * q[at, token] >= p[at, token]:
                    emitted[row, i] = torch.multinomial((p[at] - q[at]).clamp(min=0), 1)
                    emitted[row, i + 1 :] = -1
                    break
        return emitted

    cases = [one for one in standard_instances() if one.lengths == (0, 1, 2)][:1]
    cases += [Instance(p=((fractions(1, 2),),) * 3, q=((fractions(2, 1),),) * 2)]
    report = check_verifier(kernels.rule_of_list(in_one_list), instances=cases, samples=1000)
    assert report.passed == right and report.method == "sampled" and report.detects < 0.25


def folder_of(sampler):
    """Returns where a sampler is: its package, or a checkout that the environment names; else None."""
    name = f"MINISPEC_{sampler.project.upper().replace('-', '_')}"
    checkouts = {sampler.project: Path(os.environ[name])} if name in os.environ else {}
    return samplers.place_of(sampler.project, checkouts)[1]


HERE = [number for number, sampler in enumerate(samplers.SAMPLERS) if folder_of(sampler) is not None]


@pytest.mark.evidence
@pytest.mark.parametrize("number", HERE)
def test_what_is_here_is_judged_as_it_is_recorded(number):
    """Whatever its version, with the folder of a checkout in MINISPEC_ and its name."""
    sampler = samplers.SAMPLERS[number]
    found = samplers.judge(sampler, folder_of(sampler))
    assert found["lossless"] is ROWS[number]["lossless"], found["instance"]


WEIGHT = {"assistant_ensemble_weight": 0.8}


@pytest.mark.parametrize(
    ("rule", "p", "q", "first"),
    [
        (rules.transformers_single_position, HALF, HALF, (1, 0)),
        (rules.transformers_single_position, HALF, fractions(2, 1), (3 / 4, 1 / 4)),
        (partial(rules.transformers_rule, **WEIGHT), SURE, SURE[::-1], (0.8, 0.2)),
    ],
)
def test_transformers_by_hand(rule, p, q, first):
    """An argmax that is tested as a draw, with p/q; a candidate that is kept with 1 − w at least."""
    pytest.importorskip("transformers", reason="needs the extra `peers`")
    report = check_verifier(rule(), instances=[one_token(p, q)], tolerance=1e-6)
    emitted = [sum(one.actual for one in report.failure.texts if one.text[0] == token) for token in (0, 1)]
    assert emitted == pytest.approx(first, abs=1e-6)


@pytest.mark.evidence
def test_products_of_uniform_numbers_accept_too_often():
    """A prefix is kept where the product of i uniform numbers is at most the product of its ratios.

    p = (1/2, 1/2) and q = (1, 0) at first, then p = q = (1, 0): the draft is 0 0 0, its ratios 1/2, 1, 1. All
    of it stays where u₁u₂u₃ ≤ 1/2, whatever the first two products are. −log of the product is a sum of three
    exponential numbers, so that has the probability c·(1 + l + l²/2), c = 1/2, l = log 2, which is 0.967.
    """
    u = torch.rand(100_000, 3, generator=torch.Generator().manual_seed(0))
    # Off by 0.005 once in 10^17 seeds: nearly nine standard deviations.
    assert float((u.prod(-1) <= 0.5).double().mean()) == pytest.approx(0.967, abs=0.005)


@pytest.mark.evidence
def test_lucidrains_rows_of_a_batch():
    """At temperature 0 a row emits something else beside another row than alone; logits are 3.7 apart."""
    library = pytest.importorskip("speculative_decoding", reason="needs the package speculative-decoding")
    target, draft = (engines.lucidrains_decoder(library, depth) for depth in (2, 1))
    how = {"seq_len": 7, "gamma": 2, "temperature": 1e-6, "filter_thres": 0.0}
    for prompts, texts in (
        ([[0]], [[0] * 6]),
        ([[1]], [[1] * 6]),
        ([[0], [1]], [[0, 0, 2, 1, 1, 0], [1] * 6]),
    ):
        ids = library.speculative_decoding(target, draft, torch.tensor(prompts), **how)[0]
        assert ids.tolist() == texts
    best = target(torch.tensor([[0, 0, 0]]))[0, -1].topk(2).values
    assert float(best[0] - best[1]) > 3.7


def test_the_record_is_whole_and_the_page_is_made_of_it():
    """A row for each sampler; a lossy one has damage and an instance, one that ran a version and a day."""
    names = [(row["project"], row["rule"]) for row in ROWS]
    assert names[: len(samplers.SAMPLERS)] == [(one.project, one.rule) for one in samplers.SAMPLERS]
    text = page(ROWS)
    for row in ROWS:
        assert f"`{row['rule']}`" in text
        assert (f"**{row['project']}, `{row['rule']}`**\n\n" in text) is (row["lossless"] is False)
        assert row["lossless"] is not False or (row["damage"] > 0 and row["instance"])
        assert row["lossless"] is None or (row["version"] and row["recorded"] and row["report"])


@pytest.mark.evidence
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", real_sizes.TOLERANCES)
@pytest.mark.parametrize(("peer", "package"), [("llama.cpp", "llama_cpp"), ("transformers", "transformers")])
def test_peers_compute_the_same(peer, package, dtype, tied):
    """Their logits are ours, in several blocks, after forgetting tokens too."""
    pytest.importorskip(package, reason="needs the extras `llama-cpp` and `peers`")
    makers = llama_cpp.IN_8_BITS if dtype == "int8" else llama_cpp.PEERS
    if peer not in makers:
        pytest.skip("it keeps no weights in 8 bits")
    config = GPTConfig(50, layers=2, width=32, heads=4, kv_heads=2, ffn=64, max_length=96, tied=tied)
    model = real_sizes.random_model(config, dtype)
    theirs = makers[peer](model)
    ids = (7 * torch.arange(20) + 3)[None] % 50
    wanted = real_sizes.random_model(config, dtype).float()(ids)
    cache = theirs.new_cache(1)
    with torch.inference_mode():
        first = theirs.head(theirs.hidden(ids[:, :12], cache))
        assert real_sizes.difference(first, wanted[:, :12]) < real_sizes.TOLERANCES[dtype]
        theirs.hidden(ids[:, :6] + 1, cache)
        cache.truncate([12])
        rest = theirs.head(theirs.hidden(ids[:, 12:], cache))
        assert real_sizes.difference(rest, wanted[:, 12:]) < real_sizes.TOLERANCES[dtype]
