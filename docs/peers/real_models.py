"""A checkpoint that people use: our drafters, llama.cpp and transformers on the same prompts.

    python docs/peers/real_models.py FILE.gguf real-models.json

It is the section `real` of `minispec bench`, for several types of weights, with peers beside ours: the same
token ids, interleaved. llama.cpp reads the file as it comes, and its weights in bfloat16 and in Q8_0. Its
target alone is called through C functions, and once more by `Llama.generate`, which its look-up needs.
transformers gets the weights in the type that ours have.

What is measured of a type lies beside the report, in a file of its own; a run that was cut goes on after the
last kind of prompt that it has finished. `--dtype` measures some types, and reports all that are there;
`--kind` has only some kinds of prompt.

Needs the extras: in minispec's folder, `pip install -e '.[llama-cpp,peers]'`. What is not installed is left
out, and the report says so.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Annotated, Any

import torch
import typer

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # here this file's folder would be

from minispec.cli.bench import run_shown, with_prompts
from minispec.cli.options import open_models
from minispec.core.batch import Prompts
from minispec.drafters.choice import CHOICE
from minispec.evidence.bench import real
from minispec.evidence.bench.costs import measure_forwards
from minispec.evidence.bench.interleaved import Decodes, Run
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.real import ALONE, Side
from minispec.evidence.bench.section import CORE, DECODINGS, BenchRun, Results, Section
from minispec.evidence.checker.engine import check_engine
from minispec.io.checkpoint import Pair
from minispec.io.files import read_json, write_json
from minispec.io.trace import Statistics
from minispec.native.backend import Models
from peers.llama_cpp import EXTRA, LlamaCpp, write_gguf
from peers.transformers import TransformersGPT, continued, installed

DTYPES = ("bfloat16", "int8", "float32")
CONTEXT = 1024  # tokens: any prompt and what is decoded
LOOKED_UP = (10, 2)  # tokens of a look-up: by default, and what llama-cpp-python advises for processors
SETTLE = 0.05  # seconds: threads of another library may spin for a while after their last forward
TEXT = 5  # tokens of a sampled text


@dataclass(frozen=True, eq=False)
class Peer:
    """Another library that decodes one prompt greedily, as a setting of ours is run."""

    #: Continues a prompt by so many tokens; returns them, and how many calls of the target that took.
    decoded: Callable[[Sequence[int], int], tuple[list[int], int]]
    threads: int  #: of the processor

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Continues one prompt, and times it; no seed is used."""
        with using_threads(self.threads):
            started = perf_counter()
            text, calls = self.decoded(prompts[0], new_tokens)
            seconds = perf_counter() - started
        sleep(SETTLE)
        counts = Statistics(len(text), calls, calls, len(text) - calls, None, 0, {})
        return Run(seconds, (tuple(text),), counts)


@dataclass
class ByFunctions:
    """llama.cpp's target alone, through C functions."""

    model: LlamaCpp
    cache: Any = field(init=False)

    def __post_init__(self) -> None:
        self.cache = self.model.new_cache(1)

    def __call__(self, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], int]:
        """Continues a prompt."""
        self.cache.truncate([0])
        text: list[int] = []
        read = [*prompt]
        while len(text) < new_tokens:
            read = [self.cache.best_after(read)]
            text += read
        return text, len(text)


@dataclass
class ByLlama:
    """llama.cpp by `Llama.generate`, alone or with its prompt look-up."""

    llama: Any

    def __call__(self, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], int]:
        """Continues a prompt, of which nothing is remembered."""
        self.llama.reset()
        looked_up = self.llama.draft_model
        before = 0 if looked_up is None else looked_up.calls
        text = [*islice(self.llama.generate([*prompt], temp=0.0), new_tokens)]
        return text, len(text) if looked_up is None else looked_up.calls - before + 1


class CountedLookUp:
    """llama-cpp-python's prompt look-up, whose calls are counted: a call of the target follows each."""

    def __init__(self, library: Any, tokens: int) -> None:
        """Makes one that proposes so many tokens."""
        self._look_up = library.LlamaPromptLookupDecoding(num_pred_tokens=tokens)
        self.calls = 0

    def __call__(self, ids: Any, **settings: Any) -> Any:
        """Proposes what may follow."""
        self.calls += 1
        return self._look_up(ids, **settings)


@dataclass
class ByTransformers:
    """transformers' `generate`, alone or with its prompt look-up."""

    model: Any
    how: dict[str, Any]

    def __call__(self, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], int]:
        """Continues a prompt."""
        calls: list[None] = []
        hook = self.model.register_forward_hook(lambda *_: calls.append(None))
        text = continued(self.model, prompt, new_tokens, do_sample=False, **self.how)
        hook.remove()
        return text, len(calls)


def llama_sides(path: Path, weights: str, prompt: Sequence[int]) -> Iterator[Side]:
    """Yields llama.cpp with the weights of a file, alone and with look-ups, each with its best threads."""
    library = installed("llama_cpp", "llama-cpp-python", EXTRA)
    look_ups = installed("llama_cpp.llama_speculative", "llama-cpp-python", EXTRA)
    yield Side("llama.cpp", weights, ALONE, fastest([ByFunctions(LlamaCpp(path, CONTEXT))], prompt))
    names = {ALONE: None} | {f"look-up, {n}": CountedLookUp(look_ups, n) for n in LOOKED_UP}
    for name, looked_up in names.items():
        made = [
            library.Llama(
                str(path),
                n_ctx=CONTEXT,
                n_threads=threads,
                n_threads_batch=threads,
                flash_attn=True,
                draft_model=looked_up,
                logits_all=looked_up is not None,
                verbose=False,
            )
            for threads in thread_counts()
        ]
        yield Side("llama-cpp-python", weights, name, fastest([*map(ByLlama, made)], prompt))


def transformers_sides(pair: Pair, prompt: Sequence[int]) -> Iterator[Side]:
    """Yields transformers with a pair's target, alone and with its look-up."""
    model = TransformersGPT(pair.target)
    weights = str(pair.target.dtype).removeprefix("torch.")
    names = {ALONE: {}, f"look-up, {LOOKED_UP[0]}": {"prompt_lookup_num_tokens": LOOKED_UP[0]}}
    for name, how in names.items():
        decoded = ByTransformers(model.model, how)
        yield Side("transformers", weights, name, fastest([decoded], prompt))


def fastest(decoded: Sequence[Any], prompt: Sequence[int]) -> Decodes:
    """Returns a peer with the number of threads that suits it; one of `decoded` is for each, or for all."""
    counts = thread_counts()
    peers = [Peer(*each) for each in zip(decoded * (len(counts) // len(decoded)), counts, strict=True)]
    return min(peers, key=lambda peer: min(peer.decode([prompt], 0, 16).seconds for _ in range(2)))


@dataclass
class Beside:
    """What stands beside ours of one type, made when it is first asked for."""

    target: str
    folder: Path
    unavailable: dict[str, str] = field(default_factory=dict)
    _sides: list[Side] | None = None

    def sides(self, bench: BenchRun) -> list[Side]:
        """Returns the peers; `unavailable` says why others are not there."""
        if self._sides is None:
            bench.tell("peers")
            self._sides = []
            for name, make in self._makers(bench.pair).items():
                try:
                    self._sides += make()
                except ValueError as error:
                    self.unavailable[name] = str(error)
        return self._sides

    def _makers(self, pair: Pair) -> dict[str, Callable[[], Iterator[Side]]]:
        """Returns what makes the peers of a pair."""
        prompt = real.prompts_of(pair.tokenizer)["chat"][0]
        found: dict[str, Callable[[], Iterator[Side]]] = {}
        in_8_bits = pair.kept is not None
        if in_8_bits or pair.target.dtype == torch.bfloat16:
            weights = "Q8_0" if in_8_bits else "BF16"
            path = self.folder / f"{weights}.gguf"
            write_gguf(pair.target, path, in_8_bits)
            found[f"llama.cpp, {weights}"] = partial(llama_sides, path, weights, prompt)
        if not in_8_bits:
            found["transformers"] = partial(transformers_sides, pair, prompt)
            if pair.target.dtype == torch.bfloat16 and self.target.endswith(".gguf"):
                given = Path(self.target)
                weights = given.stem.rpartition(".")[2]  # as files are named
                found["llama.cpp, the file"] = partial(llama_sides, given, weights, prompt)
        return found


def sampled(bench: BenchRun, samples: int) -> Results:
    """Checks whether sampled texts of drafters that choose or were trained have the target's distribution."""
    models = real.fastest_models(bench)
    costs = measure_forwards(models.target, real.CACHED)
    sides = real.sides_of(bench.pair, models, costs, *DECODINGS[1])
    checked = [side for side in sides if side.drafter in (CHOICE.name, *real.TRAINED)]
    return {"sampled": [check_side(bench.pair, models, side, samples) for side in checked]}


def check_side(pair: Pair, models: Models, side: Side, samples: int) -> Results:
    """Checks the sampled texts of a drafter."""
    prompts = sorted(pair.tokenizer.encode_batch([*real.KINDS["chat"]]), key=len)[:2]

    def generate(prompt: Sequence[int], n: int, seed: int) -> Sequence[int]:
        return side.decodes.decode([[*prompt]], seed, n).texts[0]

    @torch.inference_mode()
    def after(ids: Sequence[int]) -> torch.Tensor:
        hidden = models.target.hidden(torch.tensor([[*ids]]), models.target.new_cache(1))
        return models.target.head(hidden)[0, -1].double().softmax(-1)

    report = check_engine(generate, after, prompts=prompts, tokens=TEXT, samples=samples)
    found = {"drafter": side.drafter, "passed": report.passed, "samples": report.samples}
    return found | {"detects": report.detects, "tokens": TEXT, "alarm": report.alarm}


def sections(target: str, folder: Path, kinds: Sequence[str], samples: int) -> list[Section]:
    """Returns a section for each of these kinds of prompt, one for forwards, and one for sampled texts."""
    beside = Beside(target, folder)

    def of_kind(kind: str, bench: BenchRun) -> Results:
        return real.measure(bench, beside.sides(bench), (kind,)) | {"unavailable": beside.unavailable}

    return [
        *(Section(kind, partial(of_kind, kind)) for kind in kinds),
        Section("forwards", lambda bench: real.forwards(bench, beside.sides(bench))),
        Section("sampled", partial(sampled, samples=samples)),
    ]


def merged(reports: Sequence[Results]) -> Results:
    """Returns the reports of several types as one."""
    found = [section for report in reports for section in report["sections"].values()]
    lists = {name: [*chain(*(one.get(name, ()) for one in found))] for name in (*real.LISTS, "sampled")}
    unavailable: dict[str, str] = {}
    for one in found:
        unavailable |= one.get("unavailable", {})
    seconds = {report["conditions"]["dtype"]: sum(report["seconds"].values()) for report in reports}
    return {**reports[0], **lists, "sections": {"real": {"unavailable": unavailable}}, "seconds": seconds}


def main(
    target: str,
    output: Path,
    dtype: Annotated[list[str], typer.Option()] = [*DTYPES],  # noqa: B006
    kind: Annotated[list[str], typer.Option()] = [*real.KINDS],  # noqa: B006
    prompts: int = 8,
    repeats: int = 5,
    new_tokens: int = 128,
    samples: int = 512,
) -> None:
    """Measures a checkpoint; all but the first type with a quarter of the prompts, in one pass."""
    full = replace(CORE, reporting=prompts, repeats=repeats, new_tokens=new_tokens)
    less = replace(full, reporting=(prompts + 3) // 4, repeats=1)
    for name in dtype:
        path = output.with_suffix(f".{name}.json")
        if path.is_file():
            continue
        pair = open_models(None, target, None, "cpu", name)
        pair = with_prompts(pair, real.all_prompts(pair.tokenizer))
        with TemporaryDirectory() as folder:
            more = sections(target, Path(folder), kind, samples)
            names = [section.name for section in more if section.name != "sampled" or name == DTYPES[0]]
            plan = full if name == DTYPES[0] else less
            run_shown(pair, path, sections=names, plan=plan, more=more)
    paths = (output.with_suffix(f".{name}.json") for name in DTYPES)
    write_json(output, merged([read_json(path) for path in paths if path.is_file()]))


if __name__ == "__main__":
    typer.run(main)
