"""Samplers of real projects under the checks: what each emits, where it can be run.

A sampler is called unchanged, from an installed library or from a checkout of its repository. What it came to
when it was last run, of which version, is recorded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from subprocess import run

from minispec.core.verify import Verifier
from minispec.evidence.atlas import sampler_engines as engines
from minispec.evidence.atlas import sampler_kernels as kernels
from minispec.evidence.atlas import sampler_rules as rules
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.engine import check_engine
from minispec.evidence.checker.engine_report import EngineReport
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions, standard_instances, tree_instances
from minispec.evidence.checker.report import Report, about_instance
from minispec.io.checkpoint import Pair, load_pair
from minispec.io.files import read_json, write_whole

RECORD = Path(__file__).parents[1] / "recorded" / "samplers.json"
SMALL = 9  # exact checks take instances with at most so many drafts
ROUNDING = 1e-6  # of samplers that compute in float32
SAMPLES, TOKENS, SEEDS = 1024, 6, 3  # texts of an engine, their length, and how often it is checked
PROMPT = 8  # tokens of the pair's walk-through

Checked = Report | EngineReport


@dataclass(frozen=True)
class Sampler:
    """Something that other people wrote."""

    project: str  #: its name; by it a checkout is named
    rule: str  #: which of its functions, and how it is used
    package: str | None  #: in which it is installed, or None: it needs a checkout
    check: Callable[[Path], Sequence[Checked]]  #: puts it under a check; it gets the checkout
    checked: str  #: what was checked, and what was not


@dataclass(frozen=True)
class Judged:
    """What a sampler came to."""

    project: str  #: its name
    rule: str  #: as in the `Sampler`
    checked: str = ""  #: as in the `Sampler`
    version: str | None = None  #: of the package, or the checkout's commit; None if it was never run
    lossless: bool | None = None  #: whether no check failed; None if it did not run
    damage: float | None = None  #: the largest total variation where a check failed
    detects: float | None = None  #: what a check with samples is sure to see; None if it is exact
    instance: str | None = None  #: the smallest that shows what is wrong, or why it did not run
    recorded: str = ""  #: the day
    report: str = ""  #: the whole of it


def by_rule(rule: Verifier, instances: Sequence[Instance], tolerance: float = ROUNDING) -> Sequence[Checked]:
    """Checks a decision."""
    return [check_verifier(rule, instances=instances, tolerance=tolerance, samples=20_000)]


def by_kernel(
    make: Callable[..., Verifier], package: str, how: Mapping[str, bool], _: Path
) -> Sequence[Checked]:
    """Checks a decision of an installed package; two chains of three tokens, for a row takes milliseconds."""
    dists = [fractions(1, 2, 3), fractions(3, 0, 1)]
    chains = [Instance(p=((q[::-1],),) * 4, q=((q,),) * 3) for q in dists]
    rule = make(kernels.folder_of(package), **how)
    return [check_verifier(rule, instances=chains, tolerance=ROUNDING, samples=4_000)]


def by_texts(engine: engines.Engine, prompt: Sequence[int]) -> Sequence[Checked]:
    """Checks whole runs, with several seeds."""
    check = partial(check_engine, *engine, prompts=[prompt], tokens=TOKENS, samples=SAMPLES)
    return [check(seed=seed * 10**6) for seed in range(SEEDS)]


def on_pair(make: Callable[[Pair], engines.Engine], repeats: int = 1) -> Sequence[Checked]:
    """Checks whole runs on the shipped pair, after the beginning of its walk-through, said so many times."""
    pair = load_pair("stories")
    return by_texts(make(pair), pair.tokenizer.encode(pair.walkthrough or "")[:PROMPT] * repeats)


def small() -> list[Instance]:
    """Returns chains with few drafts, for rules that are enumerated row by row."""
    return [one for one in standard_instances() if one.vocab_size**one.k <= SMALL]


def of_length(k: int) -> list[Instance]:
    """Returns chains of k tokens."""
    return [one for one in standard_instances() if one.lengths == (k,)]


KERNEL = (
    "sampled, K = 3, in Triton's interpreter, log1p(x) as log(1 + x); not: on a GPU, how drafts are drawn"
)
SECOND = "rejection_sample of v1.worker.gpu.spec_decode"
CHAIN = "chain_speculative_sampling_triton"
KERNELS: Sequence[tuple[str, str, Callable[..., Verifier], Mapping[str, bool]]] = (
    ("vLLM", "rejection_sample of v1.sample", kernels.vllm_rule, {}),
    ("vLLM", SECOND, kernels.vllm_second_rule, {}),
    ("vLLM", f"{SECOND}, use_block_verification", kernels.vllm_second_rule, {"use_block_verification": True}),
    ("SGLang", CHAIN, kernels.sglang_rule, {}),
    ("SGLang", f"{CHAIN}, block_verification", kernels.sglang_rule, {"block_verification": True}),
)
EXACT = "each branch, on small instances, probabilities in float32"
SAMPLERS = (
    Sampler(
        *("transformers", "_speculative_sampling", "transformers"),
        lambda _: by_rule(rules.transformers_rule(), small()),
        f"{EXACT}; not: that u = 0 accepts what the target never says",
    ),
    Sampler(
        *("transformers", "_speculative_sampling, assistant_ensemble_weight=0.8", "transformers"),
        lambda _: by_rule(rules.transformers_rule(assistant_ensemble_weight=0.8), small()),
        f"{EXACT}; meant to be lossy",
    ),
    Sampler(
        *("transformers", "SinglePositionMultiTokenCandidateGenerator, do_sample=True", "transformers"),
        lambda _: by_rule(rules.transformers_single_position(), of_length(1)),
        f"{EXACT}; one token, a stand-in for the assistant; not: generate. For it 5.23.0 has to build a "
        "Gemma4AssistantForCausalLM, and raised ValueError (no layer makes the cache that its layers share)",
    ),
    Sampler(
        *("transformers", "generate with an assistant model", "transformers"),
        lambda _: on_pair(engines.transformers_engine),
        "texts of the pair stories, temperature 1; not: top-k, top-p",
    ),
    Sampler(
        *("transformers", "generate with prompt_lookup_num_tokens", "transformers"),
        lambda _: on_pair(partial(engines.transformers_engine, prompt_lookup_num_tokens=engines.K), 2),
        "texts of the pair stories, temperature 1; not: top-k, top-p",
    ),
    Sampler(
        *("lucidrains", "speculative_decoding, one row", "speculative-decoding"),
        lambda _: by_texts(engines.lucidrains_engine(1), (0, 1, 2)),
        "texts of tiny decoders, V = 3, without top-k",
    ),
    Sampler(
        *("lucidrains", "speculative_decoding, a batch of 8", "speculative-decoding"),
        lambda _: by_texts(engines.lucidrains_engine(8), (0, 1, 2)),
        "the same in a batch of equal prompts",
    ),
    Sampler(
        *("mlx-lm", "speculative_generate_step", "mlx-lm"),
        lambda _: on_pair(engines.mlx_engine),
        "texts of the pair stories in float32 on the processor; not: bfloat16, a quantised cache",
    ),
    Sampler(
        *("EAGLE", "evaluate_posterior", None),
        lambda at: by_rule(rules.eagle_rule(at), tree_instances("most probable"), 1e-10),
        "each branch of small trees with fixed candidates, in float64; not: the rest of a round",
    ),
    Sampler(
        *("DeepSpec", "verify_draft_tokens", None),
        lambda at: by_rule(rules.deepspec_rule(at), small()),
        f"{EXACT}; not: drafts drawn in bfloat16 (its issue 31)",
    ),
    Sampler(
        *("vllm-ascend", "rejection_sample without Triton", None),
        lambda at: by_rule(kernels.ascend_rule(at, block=False), small()[::8]),
        "sampled, in batches; not: its Triton kernels",
    ),
    Sampler(
        *("vllm-ascend", "rejection_sample, enable_block_verify, without Triton", None),
        lambda at: by_rule(kernels.ascend_rule(at, block=True), of_length(3)[::4]),
        "sampled, in batches, K = 3; its guide warns of minor precision degradation; not: its Triton kernels",
    ),
    *(
        Sampler(project, rule, project.lower(), partial(by_kernel, make, project.lower(), how), KERNEL)
        for project, rule, make, how in KERNELS
    ),
)
NOT_RUN = (  # project, rule, why
    (
        *("transformers", "MTPCandidateGenerator, DFlashTokenCandidateGenerator"),
        "they need models of their own; by reading 5.23.0, candidates are drawn from the logits returned",
    ),
    ("SGLang", "tree_speculative_sampling_target_only", "its kernel is CUDA's and needs a GPU"),
    (
        "gpt-fast",
        "speculative_decode",
        "at 32971d3 of 2024-09-15 it joins tensors of one and two dimensions, an error",
    ),
    ("TensorRT-LLM", "relaxed acceptance", "its kernels need a GPU"),
)


def run_samplers(checkouts: Mapping[str, Path], tell: Callable[[str], None] = print) -> list[Judged]:
    """Runs what can be run here, of packages or `checkouts` of projects; of all else the record comes."""
    before = {(one.project, one.rule): one for one in recorded_samplers()}
    found = []
    for sampler in SAMPLERS:
        project, rule, version = sampler.project, sampler.rule, version_of(sampler, checkouts)
        if version is None:
            unknown = Judged(project, rule, sampler.checked, instance="not run here")
            found.append(before.get((project, rule), unknown))
        else:
            tell(f"{project}: {rule}")
            found.append(judge(sampler, version, checkouts.get(project, Path())))
    return [*found, *(Judged(project, rule, instance=f"not run: {why}") for project, rule, why in NOT_RUN)]


def version_of(sampler: Sampler, checkouts: Mapping[str, Path]) -> str | None:
    """Returns which version of a sampler is here; None if there is none."""
    if sampler.package is not None:
        try:
            return metadata.version(sampler.package)
        except metadata.PackageNotFoundError:
            return None
    if sampler.project not in checkouts:
        return None
    command = ["git", "-C", str(checkouts[sampler.project]), "log", "-1", "--format=%h of %cs"]
    return run(command, capture_output=True, text=True, check=False).stdout.strip() or "a folder without git"


def judge(sampler: Sampler, version: str, checkout: Path) -> Judged:
    """Checks one sampler; if it raises an error, it is told and not judged."""
    today = date.today().isoformat()
    found = Judged(sampler.project, sampler.rule, sampler.checked, version, recorded=today)
    try:
        reports = sampler.check(checkout)
    except Exception as error:  # whatever somebody's code may raise
        what = str(error).partition("\n")[0]
        return replace(found, instance=f"it raised {type(error).__name__}: {what}")
    worst = next((one for one in reports if not one.passed), reports[0])
    return replace(
        found,
        lossless=worst.passed if worst.passed or worst.damage else None,  # one that raises is not judged
        damage=worst.damage.largest if worst.damage else None,
        detects=worst.detects,
        instance=None if worst.passed else in_words(worst),
        report=str(worst),
    )


def in_words(report: Checked) -> str:
    """Says what shows that a sampler is lossy, in a line."""
    case = report.counterexample
    lines = about_instance(case) if isinstance(case, Instance) else ()
    return "; ".join([*(line.strip() for line in lines), str(report.reason)])


def recorded_samplers() -> list[Judged]:
    """Returns what was recorded."""
    return [Judged(**one) for one in read_json(RECORD)["samplers"]]


def record(verdicts: Sequence[Judged], path: Path) -> None:
    """Writes verdicts down, for those who lack a library; a ValueError says if it cannot be written."""
    rows = {"samplers": [asdict(one) for one in verdicts]}
    write_whole(path, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
