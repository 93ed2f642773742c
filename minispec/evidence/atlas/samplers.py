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
from minispec.evidence.atlas import sampler_rules as rules
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.engine import check_engine
from minispec.evidence.checker.engine_report import EngineReport
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import standard_instances, tree_instances
from minispec.evidence.checker.report import Report, about_instance
from minispec.io.checkpoint import load_pair
from minispec.io.files import read_json, write_whole

RECORD = Path(__file__).parents[1] / "recorded" / "samplers.json"
SMALL = 9  # exact checks take instances with at most so many drafts
ROUNDING = 1e-6  # of samplers that compute in float32
SAMPLES, TOKENS, SEEDS = 1024, 6, 3  # texts of an engine, their length, and how often it is checked
PROMPT = 8  # tokens of the pair's walk-through

Checked = Report | EngineReport


@dataclass(frozen=True)
class Sampler:
    """Something that other people wrote.

    Attributes:
        project: its name; by it a checkout is named.
        rule: which of its functions, and how it is used.
        package: in which it is installed, or None: it needs a checkout.
        check: puts it under a check; it gets the checkout.
        checked: what was checked, and what was not.
    """

    project: str
    rule: str
    package: str | None
    check: Callable[[Path], Sequence[Checked]]
    checked: str


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


def by_rule(
    make: Callable[..., Verifier],
    instances: Callable[[], Sequence[Instance]],
    tolerance: float,
    checkout: Path,
) -> Sequence[Checked]:
    """Checks a decision; `make` gets the checkout if it takes one."""
    return [check_verifier(make(checkout), instances=instances(), tolerance=tolerance, samples=20_000)]


def by_texts(
    make: Callable[[Path], engines.Engine], prompt: Sequence[int], checkout: Path
) -> Sequence[Checked]:
    """Checks whole runs, with several seeds."""
    generate, target = make(checkout)
    return [
        check_engine(generate, target, prompts=[prompt], tokens=TOKENS, samples=SAMPLES, seed=seed * 10**6)
        for seed in range(SEEDS)
    ]


def on_pair(make: Callable[..., engines.Engine], repeats: int, checkout: Path) -> Sequence[Checked]:
    """Checks whole runs on the shipped pair, after the beginning of its walk-through, said so many times."""
    pair = load_pair("stories")
    prompt = pair.tokenizer.encode(pair.walkthrough or "")[:PROMPT] * repeats
    return by_texts(lambda _: make(pair), prompt, checkout)


def small() -> list[Instance]:
    """Returns chains with few drafts, for rules that are enumerated row by row."""
    return [one for one in standard_instances() if one.vocab_size**one.k <= SMALL]


def one_position() -> list[Instance]:
    """Returns chains of one token."""
    return [one for one in standard_instances() if one.k == 1 and one.lengths == (1,)]


def long() -> list[Instance]:
    """Returns some chains of three tokens."""
    return [one for one in standard_instances() if one.lengths == (3,)][::4]


def every_fourth() -> list[Instance]:
    """Returns some of the small chains."""
    return small()[::8]


EXACT = "each branch, on small instances, probabilities in float32"
SAMPLERS = (
    Sampler(
        *("transformers", "_speculative_sampling", "transformers"),
        partial(by_rule, lambda _: rules.transformers_rule(), small, ROUNDING),
        f"{EXACT}; not: that u = 0 accepts what the target never says",
    ),
    Sampler(
        *("transformers", "_speculative_sampling, assistant_ensemble_weight=0.8", "transformers"),
        partial(by_rule, lambda _: rules.transformers_rule(0.8), small, ROUNDING),
        f"{EXACT}; meant to be lossy",
    ),
    Sampler(
        *("transformers", "SinglePositionMultiTokenCandidateGenerator, do_sample=True", "transformers"),
        partial(by_rule, lambda _: rules.transformers_single_position(), one_position, ROUNDING),
        f"{EXACT}; one token, a stand-in for the assistant; not: generate. For it 5.23.0 has to build a "
        "Gemma4AssistantForCausalLM, and raised ValueError (no layer makes the cache that its layers share)",
    ),
    Sampler(
        *("transformers", "generate with an assistant model", "transformers"),
        partial(on_pair, lambda pair: engines.transformers_engine(pair, look_up=False), 1),
        "texts of the pair stories, temperature 1; not: top-k, top-p",
    ),
    Sampler(
        *("transformers", "generate with prompt_lookup_num_tokens", "transformers"),
        partial(on_pair, lambda pair: engines.transformers_engine(pair, look_up=True), 2),
        "texts of the pair stories, temperature 1; not: top-k, top-p",
    ),
    Sampler(
        *("lucidrains", "speculative_decoding, one row", "speculative-decoding"),
        partial(by_texts, lambda _: engines.lucidrains_engine(1), (0, 1, 2)),
        "texts of tiny decoders, V = 3, without top-k",
    ),
    Sampler(
        *("lucidrains", "speculative_decoding, a batch of 8", "speculative-decoding"),
        partial(by_texts, lambda _: engines.lucidrains_engine(8), (0, 1, 2)),
        "the same in a batch of equal prompts",
    ),
    Sampler(
        *("mlx-lm", "speculative_generate_step", "mlx-lm"),
        partial(on_pair, engines.mlx_engine, 1),
        "texts of the pair stories in float32 on the processor; not: bfloat16, a quantised cache",
    ),
    Sampler(
        *("EAGLE", "evaluate_posterior", None),
        partial(by_rule, rules.eagle_rule, partial(tree_instances, "most probable"), 1e-10),
        "each branch of small trees with fixed candidates, in float64; not: the rest of a round",
    ),
    Sampler(
        *("DeepSpec", "verify_draft_tokens", None),
        partial(by_rule, rules.deepspec_rule, small, ROUNDING),
        f"{EXACT}; not: drafts drawn in bfloat16 (its issue 31)",
    ),
    Sampler(
        *("vllm-ascend", "rejection_sample without Triton", None),
        partial(by_rule, partial(rules.ascend_rule, block=False), every_fourth, ROUNDING),
        "sampled, in batches; not: its Triton kernels",
    ),
    Sampler(
        *("vllm-ascend", "rejection_sample, enable_block_verify, without Triton", None),
        partial(by_rule, partial(rules.ascend_rule, block=True), long, ROUNDING),
        "sampled, in batches, K = 3; its guide warns of minor precision degradation; not: its Triton kernels",
    ),
    Sampler(
        *("gpt-fast", "speculative_decode", None),
        partial(by_texts, engines.gpt_fast_engine, (0, 1)),
        "rounds on tables, V = 3",
    ),
)
NOT_RUN = (  # project, rule, why
    (
        *("transformers", "MTPCandidateGenerator, DFlashTokenCandidateGenerator"),
        "they need models of their own; by reading 5.23.0, candidates are drawn from the logits returned",
    ),
    ("vLLM", "rejection_sampler", "its kernels are Triton's and C++"),
    ("SGLang", "chain and tree sampling", "its kernels need a GPU"),
    ("TensorRT-LLM", "relaxed acceptance", "its kernels need a GPU"),
)


def run_samplers(
    checkouts: Mapping[str, Path], only: Sequence[str] = (), tell: Callable[[str], None] = print
) -> list[Judged]:
    """Runs what can be run here; of all else the recorded verdict comes.

    Args:
        checkouts: the folders of projects, by their names.
        only: projects; by default all.
        tell: is told what is run.
    """
    before = {(one.project, one.rule): one for one in recorded_samplers()}
    found = []
    for sampler in SAMPLERS:
        names = sampler.project, sampler.rule
        version = version_of(sampler, checkouts)
        if version is None or (only and sampler.project not in only):
            unknown = Judged(*names, sampler.checked, instance="not run here")
            found.append(before.get(names, unknown))
        else:
            tell(f"{sampler.project}: {sampler.rule}")
            found.append(judge(sampler, version, checkouts.get(sampler.project, Path())))
    return [*found, *(Judged(name, rule, instance=f"not run: {why}") for name, rule, why in NOT_RUN)]


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
        return replace(found, instance=f"it raised {type(error).__name__}: {str(error).splitlines()[0]}")
    worst = next((one for one in reports if not one.passed), reports[0])
    return replace(
        found,
        lossless=worst.passed,
        damage=worst.damage.largest if worst.damage else None,
        detects=worst.detects,
        instance=None if worst.passed else in_words(worst),
        report=str(worst),
    )


def in_words(report: Checked) -> str:
    """Says what shows that a sampler is lossy, in a line."""
    if isinstance(report, EngineReport):
        case = report.counterexample
        return f"{case.event}: probability {case.expected:.3g}, came in {case.found:.3g}" if case else ""
    lines = about_instance(report.counterexample) if report.counterexample else iter(())
    return "; ".join([*(line.strip() for line in lines), str(report.reason)])


def recorded_samplers() -> list[Judged]:
    """Returns what was recorded."""
    return [Judged(**one) for one in read_json(RECORD)["samplers"]] if RECORD.exists() else []


def record(verdicts: Sequence[Judged], path: Path) -> None:
    """Writes verdicts down, for those who lack a library.

    Raises:
        ValueError: if it cannot be written.
    """
    write_whole(
        path, json.dumps({"samplers": [asdict(one) for one in verdicts]}, indent=1, ensure_ascii=False) + "\n"
    )
