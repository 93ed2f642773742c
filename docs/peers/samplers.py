"""Samplers of real projects under the checks: what each emits, where it can be run.

    python docs/peers/samplers.py --checkout EAGLE=path --output minispec/evidence/recorded/samplers.json

A sampler is called unchanged, from an installed library or from a checkout of its repository. The record says
which there are, what of each is checked, and what it came to when it was last run, of which version. What is
here is run, and its row written anew; the others keep theirs. Of a row, `lossless` is whether no check failed
(null: not judged); `damage` the largest total variation where one did; `detects` what a check with samples is
sure to see; `instance` the smallest that shows what is wrong, or why it did not run; `report` all of it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from subprocess import run
from typing import Any, NamedTuple

import typer

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # other files here have names of libraries

from book.samplers import RECORD, verdict

from minispec.core.verify import Decide
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.engine import check_engine
from minispec.evidence.checker.engine_report import EngineReport
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions, standard_instances, tree_instances
from minispec.evidence.checker.report import Report, describe_instance
from minispec.io.files import read_json, write_json
from peers import engines, kernels, rules

PACKAGES = {  # in which projects are installed; all others need a checkout
    "transformers": "transformers",
    "lucidrains": "speculative-decoding",
    "mlx-lm": "mlx-lm",
    "vLLM": "vllm",
    "SGLang": "sglang",
}
SECOND = "rejection_sample of v1.worker.gpu.spec_decode"
CHAIN = "chain_speculative_sampling_triton"
Checked = Sequence[Report | EngineReport]


class Sampler(NamedTuple):
    """Something that other people wrote, as it is named in the record."""

    project: str  #: a key of `PACKAGES`, or the name of a checkout
    rule: str  #: which of its functions, and how it is used
    check: Callable[[Path], Checked]  #: puts it under a check; it gets the folder of the package or checkout


def by_rule(
    rule: Decide, instances: Sequence[Instance], tolerance: float = 1e-6, samples: int = 20_000
) -> Checked:
    """Checks a decision; the tolerance is for those that compute in float32."""
    return [check_verifier(rule, instances=instances, tolerance=tolerance, samples=samples)]


def by_kernel(rule: Decide) -> Checked:
    """Checks a decision in Triton on two chains of three tokens, for a row takes milliseconds."""
    dists = [fractions(1, 2, 3), fractions(3, 0, 1)]
    return by_rule(rule, [Instance(p=((q[::-1],),) * 4, q=((q,),) * 3) for q in dists], samples=4_000)


def by_texts(engine: engines.Engine) -> Checked:
    """Checks whole runs, with several seeds."""
    generate, logits, prompt = engine
    how = {"prompts": [prompt], "tokens": 6, "samples": 1024}

    def target(ids):
        return logits(ids).double().softmax(-1)

    return [check_engine(generate, target, seed=seed * 10**6, **how) for seed in range(3)]


def small() -> list[Instance]:
    """Returns chains with few drafts, for rules that are enumerated row by row."""
    return [chain for chain in standard_instances() if chain.vocab_size**chain.k <= 9]


def of_length(k: int) -> list[Instance]:
    """Returns chains of k tokens."""
    return [chain for chain in standard_instances() if chain.lengths == (k,)]


SAMPLERS = (
    Sampler("transformers", "_speculative_sampling", lambda _: by_rule(rules.transformers_rule(), small())),
    Sampler(
        "transformers",
        "_speculative_sampling, assistant_ensemble_weight=0.8",
        lambda _: by_rule(rules.transformers_rule(assistant_ensemble_weight=0.8), small()),
    ),
    Sampler(
        "transformers",
        "SinglePositionMultiTokenCandidateGenerator, do_sample=True",
        lambda _: by_rule(rules.transformers_single_position(), of_length(1)),
    ),
    Sampler(
        "transformers",
        "generate with an assistant model",
        lambda _: by_texts(engines.transformers_engine()),
    ),
    Sampler(
        "transformers",
        "generate with prompt_lookup_num_tokens",
        lambda _: by_texts(engines.transformers_engine(2, prompt_lookup_num_tokens=engines.K)),
    ),
    Sampler(
        "lucidrains",
        "speculative_decoding, one row",
        lambda _: by_texts(engines.lucidrains_engine(1)),
    ),
    Sampler(
        "lucidrains",
        "speculative_decoding, a batch of 8",
        lambda _: by_texts(engines.lucidrains_engine(8)),
    ),
    Sampler("mlx-lm", "speculative_generate_step", lambda _: by_texts(engines.mlx_engine())),
    Sampler(
        "EAGLE",
        "evaluate_posterior",
        lambda at: by_rule(rules.eagle_rule(at), tree_instances("most probable"), 1e-10),
    ),
    Sampler("DeepSpec", "verify_draft_tokens", lambda at: by_rule(rules.deepspec_rule(at), small())),
    Sampler(
        "vllm-ascend",
        "rejection_sample without Triton",
        lambda at: by_rule(kernels.ascend_rule(at, block=False), small()[::8]),
    ),
    Sampler(
        "vllm-ascend",
        "rejection_sample, enable_block_verify, without Triton",
        lambda at: by_rule(kernels.ascend_rule(at, block=True), of_length(3)[::4]),
    ),
    Sampler("vLLM", "rejection_sample of v1.sample", lambda at: by_kernel(kernels.vllm_rule(at))),
    Sampler("vLLM", SECOND, lambda at: by_kernel(kernels.vllm_second_rule(at))),
    Sampler(
        "vLLM",
        f"{SECOND}, use_block_verification",
        lambda at: by_kernel(kernels.vllm_second_rule(at, use_block_verification=True)),
    ),
    Sampler("SGLang", CHAIN, lambda at: by_kernel(kernels.sglang_rule(at))),
    Sampler(
        "SGLang",
        f"{CHAIN}, block_verification",
        lambda at: by_kernel(kernels.sglang_rule(at, block_verification=True)),
    ),
)


def run_samplers(
    checkouts: Mapping[str, Path], samplers: Sequence[Sampler] = SAMPLERS, record: Path = RECORD
) -> list[dict[str, Any]]:
    """Returns the rows of the record, written anew where a package or one of `checkouts` is here."""
    rows = {(row["project"], row["rule"]): row for row in read_json(record)["samplers"]}
    for sampler in samplers:
        version, folder = place_of(sampler.project, checkouts)
        if folder is not None:
            print(f"{sampler.project} {version}, {sampler.rule}")
            rows[sampler.project, sampler.rule] |= {"version": version} | judge(sampler, folder)
    return [*rows.values()]


def place_of(project: str, checkouts: Mapping[str, Path]) -> tuple[str, Path | None]:
    """Returns which version of a project is here, and where; None if there is none."""
    if project in PACKAGES:
        try:
            installed = metadata.distribution(PACKAGES[project])
        except metadata.PackageNotFoundError:
            return "", None
        return installed.version, Path(str(installed.locate_file("")))
    folder = checkouts.get(project)
    command = ["git", "-C", str(folder), "log", "-1", "--format=%h of %cs"]
    commit = run(command, capture_output=True, text=True, check=False).stdout.strip()
    return commit or "a folder without git", folder


def judge(sampler: Sampler, folder: Path) -> dict[str, Any]:
    """Checks one sampler; one that raises an error is not judged."""
    row: dict[str, Any] = dict.fromkeys(("lossless", "damage", "detects", "instance"))
    row |= {"recorded": date.today().isoformat(), "report": ""}
    try:
        reports = sampler.check(folder)
    except Exception as error:  # whatever somebody's code may raise
        what = str(error).partition("\n")[0]
        return row | {"instance": f"it raised {type(error).__name__}: {what}"}
    worst = next((report for report in reports if not report.passed), reports[0])
    row |= {"detects": worst.detects, "report": str(worst)}
    if worst.passed:
        return row | {"lossless": True}
    case = worst.counterexample
    lines = describe_instance(case) if isinstance(case, Instance) else ()
    row["instance"] = "; ".join([*(line.strip() for line in lines), str(worst.reason)])
    return row | ({"lossless": False, "damage": worst.damage.largest} if worst.damage else {})


def main(checkout: list[str] | None = None, output: Path | None = None) -> None:
    """Checks samplers of other projects, as far as they are here; a checkout is NAME=PATH."""
    folders = {}
    for text in checkout or ():
        name, _, path = text.partition("=")
        if not path or not Path(path).is_dir():
            raise typer.BadParameter(f"--checkout must be NAME=PATH of a folder, not {text!r}")
        folders[name] = Path(path)
    rows = run_samplers(folders)
    for row in rows:
        print(f"{row['project']} {row['version'] or ''}, {row['rule']}: {verdict(row)}")
        print(f"  {row['instance'] or row['checked']}")
    if output is not None:
        write_json(output, {"samplers": rows})


if __name__ == "__main__":
    typer.run(main)
