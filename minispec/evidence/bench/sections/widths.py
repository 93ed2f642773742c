"""Widths: the speed-up at every K, greedy and sampled. K is chosen on one half and reported on the other."""

from __future__ import annotations

from collections.abc import Mapping

from minispec.evidence.bench.interleaved import Key, Setting, Turn, Way, take_turns
from minispec.evidence.bench.sections.section import Bench, Found, points_of, setting_name

LAWS = (("greedy", 0.0), ("rejection", 1.0))


def measure(bench: Bench) -> Found:
    """Measures both verifiers at every K on the choosing half, and at the best K on the other."""
    sweep, settings = [], []
    for part, (verifier, temperature) in enumerate(LAWS):
        base = bench.alone(verifier, temperature)
        ways = {k: bench.way(k, verifier, temperature) for k in bench.plan.widths}
        tried, best, turns = choose_and_report(bench, {"": base}, {"": ways}, (part / 2, 0.5), verifier)
        for k in bench.plan.widths:
            sweep.append(_row(bench, verifier, temperature, k, tried["", k]))
        settings.append(_row(bench, verifier, temperature, best[""], turns[""]))
    return {
        "baseline": bench.found["target-only"]["baseline"],
        "path": bench.found["target-only"]["speculative"],
        "sweep": sweep,
        "settings": settings,
    }


def _row(bench: Bench, verifier: str, temperature: float, k: int, turns: list[Turn]) -> Found:
    setting = Setting(bench.pair.name, verifier, temperature, k, turns)
    return {"setting": setting_name(verifier, temperature, k)} | setting.to_json()


def choose_and_report(
    bench: Bench,
    base: Mapping[Key, Way],
    ways: Mapping[Key, Mapping[int, Way]],
    part: tuple[float, float] = (0.0, 1.0),
    what: str = "",
) -> tuple[dict[tuple[Key, int], list[Turn]], dict[Key, int], dict[Key, list[Turn]]]:
    """Chooses K for each of several things on the choosing half, and measures it there on the other.

    Args:
        bench: prompts and plan.
        base: the target alone, for each thing.
        ways: for each thing, a way for every K.
        part: where this begins in the section, and what share of it this is, for the progress bar.
        what: is measured, for people.

    Returns:
        The turns of the choosing half by thing and K; the best K; the turns of the reporting half.
    """
    start, share = part
    plan, flat = bench.plan, {(name, k): way for name, of in ways.items() for k, way in of.items()}
    tried = take_turns(
        {key: base[key[0]] for key in flat},
        flat,
        points_of(bench.prompts.choosing),
        bench.seed,
        plan.new_tokens,
        lambda done, key: bench.tell(start + share * 0.6 * done, f"{what} choosing K, {key}"),
    )
    best = {
        name: max(of, key=lambda k: Setting("", "", 0, k, tried[name, k]).speedup)
        for name, of in ways.items()
    }
    turns = take_turns(
        {name: base[name] for name in ways},
        {name: ways[name][best[name]] for name in ways},
        points_of(bench.prompts.reporting) * plan.repeats,
        bench.seed + 1000,
        plan.new_tokens,
        lambda done, key: bench.tell(start + share * (0.6 + 0.4 * done), f"{what} the best K"),
    )
    return tried, best, turns
