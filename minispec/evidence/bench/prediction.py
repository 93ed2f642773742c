"""Prediction: the speed-up of every setting that is going to be measured, written down before it is.

It is made of the costs of the parts, measured alone, and of how often tokens of target-only texts would have
been accepted; these texts continue prompts that nothing is measured on. Batches are not predicted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from minispec.core.warp import Warp
from minispec.drafters.costs import Costs
from minispec.evidence.bench.costs import costs_of, median_costs
from minispec.evidence.bench.interleaved import Setting
from minispec.evidence.bench.section import BenchRun, Results
from minispec.evidence.bench.sections import SWEEPS, settings_of
from minispec.evidence.theory.acceptance import acceptance_probabilities, target_only_texts
from minispec.evidence.theory.predict import Text, predict_speed_up

PASSES = 5  # over all costs: a slow moment of the machine spoils one of them, and the median counts
COST_TOKENS = 64  # tokens of the short runs
MEASURED = (  # sections, and where in them speed-ups stand
    ("widths", "sweep"),
    ("widths", "settings"),
    ("temperature", "points"),
    ("drafts", "points"),
    ("batch", "points"),
)
TEXTS = 24  # target-only texts at least, where sampling can give as many


def measure(bench: BenchRun) -> Results:
    """Predicts the settings of all selected sections that vary K."""
    bench.tell("texts of the target alone")
    sections = [name for name in SWEEPS if name in bench.selected]
    sweeps = [(name, settings) for name in sections for settings in settings_of(bench, name)]
    costs = all_costs(bench, [setting for _, (setting, *_) in sweeps])
    predicted = []
    for section, settings in sweeps:
        acceptance_probs = acceptance_probs_of(bench, settings[0])
        part_costs = costs[cost_request(settings[0])]
        predictions = (predict(bench, setting, part_costs, acceptance_probs) for setting in settings)
        predicted += [{"section": section} | prediction for prediction in predictions]
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "prompts": len(bench.prompts.learning),
        "settings": predicted,
    }


def predict(bench: BenchRun, setting: Setting, costs: Costs, acceptance_probs: Sequence[Text]) -> Results:
    """Returns what a setting with a K should come to, by exact counts of rounds and by theorem 3.8.

    `costs` are those of the setting, `acceptance_probs` those of target-only texts.
    """
    results = bench.results["target-only"]
    rates = {
        (row["path"], row["threads"]): row["target_only"]
        for row in results["rows"]
        if row["verifier"] == setting.verifier
    }
    fastest, same_backend = (rates[*results[side].values()] for side in ("baseline", "speculative"))
    faster = fastest / same_backend
    expected = predict_speed_up(costs, acceptance_probs, setting.k, faster=faster)
    return {
        "setting": setting.name,
        "k": setting.k,
        "c": costs.c * faster,
        "speedup": expected.speed_up,
        "simple": expected.simple,
        "alpha": expected.alpha,
        "tokens_per_target_call": expected.tokens_per_target_call,
    }


def cost_request(setting: Setting) -> Setting:
    """Returns a setting that costs as much: how far above 0 the temperature is changes nothing, nor K."""
    return replace(setting, k=1, temperature=float(setting.temperature > 0))


def all_costs(bench: BenchRun, settings: Iterable[Setting]) -> dict[Setting, Costs]:
    """Measures the costs of settings, several times over, by their cost requests."""
    repetition = {
        "tokens": range(1, 18),
        "new_tokens": min(COST_TOKENS, bench.plan.new_tokens),
        "repeats": max(bench.plan.latencies // PASSES, 2),
    }
    passes: dict[Setting, list[Costs]] = {cost_request(setting): [] for setting in settings}
    for number in range(PASSES):
        bench.tell(f"costs of the parts, {number + 1} of {PASSES}")
        for request, measured_costs in passes.items():
            measured_costs.append(costs_of(request, bench.prompts.learning[0], **repetition))
    return {request: median_costs(measured_costs) for request, measured_costs in passes.items()}


def acceptance_probs_of(bench: BenchRun, setting: Setting) -> list[Text]:
    """Returns acceptance probabilities of target-only texts, on prompts that nothing is measured on."""
    prompts = bench.prompts.learning
    warp = Warp(setting.temperature)
    repeats = -(-TEXTS // len(prompts)) if setting.temperature > 0 else 1  # at 0 all texts are the same
    rows = prompts * repeats
    models = setting.models
    rng = models.backend.rng(bench.seed)
    texts = target_only_texts(models.target, rows, bench.plan.new_tokens, warp, rng)
    return [*acceptance_probabilities(models.target, models.draft, rows, texts, warp)]


def compare(results: Mapping[str, Results]) -> Results:
    """Compares what was predicted with what came out, over all settings that were measured.

    Returns a row per measurement, and the errors of both predictions; {} where nothing can be compared.
    """
    predicted = {row["setting"]: row for row in results.get("prediction", {}).get("settings", [])}
    rows: list[Results] = []
    for row in measured(results):
        if prediction := predicted.get(row["setting"]):
            said = prediction["speedup"]
            errors = {"predicted": said, "simple": prediction["simple"], "error": said / row["measured"] - 1}
            rows.append(row | errors)
    if not rows:
        return {}
    compared: Results = {"rows": rows}
    for name, prefix in (("predicted", ""), ("simple", "simple_")):
        relative = [abs(row[name] / row["measured"] - 1) for row in rows]
        compared |= {f"{prefix}median_error": median(relative), f"{prefix}worst_error": max(relative)}
    return compared


def measured(results: Mapping[str, Results]) -> Iterator[Results]:
    """Yields all that was measured: section, half of prompts, setting, speed-up, quartiles and limit."""
    for section, key in MEASURED:
        for row in results.get(section, {}).get(key, []):
            low, high = row.get("speedup_quartiles") or (row["low"], row["high"])
            yield {
                "section": section,
                "setting": row["setting"],
                "prompts": "choosing" if key == "sweep" else "reporting",
                "measured": row.get("speedup") or row["gain"],
                "low": low,
                "high": high,
                "limit": row.get("limit"),
            }
