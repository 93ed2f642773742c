"""Training: one loop for every model.

A pair takes three runs. The target and the draft learn the corpus by cross-entropy; then the draft learns
from the target, by the Kullback–Leibler divergence to its distributions (Hinton et al. 2015), on the corpus
and on what the target writes. The last run makes the draft agree with the target, and that is all that a
draft is for.

A run can be killed at any moment. What it needs to go on is the weights, the optimizers' state and the number
of the step; the batch of a step depends on the seed and the step alone. So a resumed run ends with the same
weights as one that was never disturbed.

Several processes can share a training (see `processes`), and another number of them can go on with it.
"""

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from minispec.core.model import GPT
from minispec.io.files import CannotWrite, read_json, write_json
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, batch, extended, gather, stage_key
from minispec.train.evaluate import mean_loss
from minispec.train.initialise import draw_weights
from minispec.train.processes import ALONE, Processes
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.shards import read_shards, write_shards
from minispec.train.teacher import STORED_BYTES, Teacher, write_sequences

WARM_UP = 50  # steps
DECAY = 0.35  # share of the steps, at the end
SAVE_EVERY = 100  # steps
REPORT_EVERY = 10  # steps
CLIP = 1.0


@dataclass(frozen=True)
class Progress:
    """What a training reports now and then."""

    model: str  #: `target`, `draft-plain` or `draft`
    step: int  #: optimizer steps done
    steps: int  #: of how many
    loss: float  #: of the last batch, in nats per token; for `draft`, the divergence from the target
    seconds: float  #: spent on this model so far, also before it was taken up again
    validation: float | None = None  #: nats per token on whole held-out documents, where measured

    def to_json(self) -> dict[str, Any]:
        """Returns it as `pair.json` has it, where `model` is called `stage`."""
        fields = asdict(self)
        return {"stage": fields.pop("model"), **fields}


@dataclass(frozen=True)
class Trained:
    """The outcome of one run."""

    model: GPT  #: with its last weights, float32
    steps: int  #: how many optimizer steps made it
    seconds: float  #: how long they took, also before the run was taken up again
    tokens: int  #: how many tokens it read


Reporter = Callable[[Progress], None]  # what is told how a training goes
Optimizers = Sequence[tuple[torch.optim.Optimizer, float]]  # each with its highest rate


def train_pair(
    recipe: Recipe,
    folder: Path,
    report: Reporter,
    device: torch.device | None = None,
    dataset: Dataset | None = None,
    processes: Processes = ALONE,
) -> tuple[Dataset, dict[str, Trained]]:
    """Trains a target, a draft, and the draft again from the target.

    Args:
        recipe: says what is trained, and how.
        folder: where the run keeps its state; a run of the same recipe in the same folder is resumed.
        report: gets the progress.
        device: where to train; by default the CPU.
        dataset: what `gather` made of the recipe; by default it is called here.
        processes: those that share the training; all call this.

    Returns:
        The dataset, and the three models by name: `target`, `draft-plain`, `draft`.

    Raises:
        ValueError: if the text is too short, the processes cannot share a batch, or the state cannot be
            written.
    """
    processes.check(recipe)
    device = device or torch.device("cpu")
    if dataset is None:
        with processes.in_turn():
            dataset = gather(recipe, folder=folder)
    # A text file may change under the same name, so what is in the corpus counts as well as the recipe.
    fingerprint = f"{recipe.fingerprint()}-{dataset.corpus.sha256[:16]}"
    runs = {
        "target": (recipe.target, recipe.target_stages),
        "draft-plain": (recipe.draft, recipe.draft_stages),
        "draft": (recipe.draft, recipe.distill_stages),
    }
    done: dict[str, Trained] = {}
    for index, (name, (config, stages)) in enumerate(runs.items()):
        torch.manual_seed(recipe.seed * 1000 + index)
        model = GPT(replace(config, vocab_size=dataset.tokenizer.vocab_size))
        model = for_training(draw_weights(model)).to(device)
        data = dataset
        teacher: Teacher | None = None
        started = perf_counter()
        if name == "draft":
            model.load_state_dict(done["draft-plain"].model.state_dict())
            if recipe.written:  # that takes a while
                report(Progress(name, 0, sum(stage.steps for stage in stages), math.nan, 0.0))
            teacher, data = prepare_distillation(recipe, done["target"].model, dataset)
        processes.shard(model)
        optimizers = make_optimizers(model, recipe, processes)
        state = State(folder / name, fingerprint, model, optimizers, processes)
        state.seconds += perf_counter() - started
        done[name] = train_model(name, state, stages, data, teacher, recipe.seed, report)
    return dataset, done


def prepare_distillation(recipe: Recipe, target: GPT, dataset: Dataset) -> tuple[Teacher, Dataset]:
    """Returns a target as a teacher, and the dataset with what it has written for its draft."""
    sequences = {stage_key(stage): dataset.sequences[stage_key(stage)] for stage in recipe.distill_stages}
    if recipe.written:
        for kind, corpus in sequences.items():
            written = write_sequences(target, corpus, recipe.written, recipe.seed)
            sequences[kind] = extended(corpus, written)
    reads = sum(stage.steps * stage.rows for stage in recipe.distill_stages)
    repeats = reads > sum(map(len, sequences.values()))  # else there are no logits to store
    data = replace(dataset, sequences={**dataset.sequences, **sequences})
    return Teacher(target, STORED_BYTES if repeats else 0), data


def train_model(
    name: str,
    state: "State",
    stages: Sequence[CurriculumStage],
    dataset: Dataset,
    teacher: Teacher | None,
    seed: int,
    report: Reporter,
) -> Trained:
    """Trains a model by a curriculum, from its state to the end: from texts, or also from a teacher."""
    model = cast(GPT, state.model).train()
    processes = state.processes
    averaged = processes.averaged(model)
    plan = [(stage, step) for stage in stages for step in range(stage.steps)]

    def loss(rows: Tensor) -> Tensor:
        with autocast(model.device):
            logits = averaged(rows[:, :-1])  # [B, window, V]
            target = None if teacher is None else teacher(rows[:, :-1])
        if target is None:
            return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        return divergence(target, logits)

    def losses(step: int) -> Iterator[Tensor]:
        stage, number = plan[step]
        rows = batch(dataset.sequences[stage_key(stage)], stage.rows, number, seed).to(model.device)
        parts = processes.parts(rows)
        for number, part in enumerate(parts, 1):
            with processes.averaging(averaged, number == len(parts)):
                yield loss(part) / len(parts)

    def report_with_validation(progress: Progress) -> None:
        if progress.step % max(len(plan) // 10, 1) < REPORT_EVERY or progress.step == len(plan):
            with autocast(model.device):
                validation = mean_loss(processes.whole(model), *dataset.held_out)
            progress = replace(progress, validation=validation)
        report(progress)

    report(Progress(name, state.step, len(plan), math.nan, state.seconds))
    descend(name, model, state.optimizers, len(plan), losses, report_with_validation, state)
    tokens = sum(stage.steps * stage.rows * stage.window for stage in stages)
    model = processes.whole(model).eval().requires_grad_(False)
    return Trained(model, len(plan), state.seconds, tokens)


class State:
    """How far the training of one model has come: kept in a folder, from which a killed run goes on."""

    def __init__(
        self,
        path: Path,
        fingerprint: str,
        model: nn.Module,
        optimizers: "Optimizers",
        processes: Processes = ALONE,
    ) -> None:
        """Takes up what an earlier run with this fingerprint has left, if it is there and whole.

        A state is in a folder beside `path`, with the number of its step after the name.
        """
        self.path = path
        self.fingerprint = fingerprint
        self.model = model
        self.optimizers = optimizers
        self.processes = processes
        self.step = 0  #: optimizer steps done
        self.seconds = 0.0  #: spent so far
        if folders := self.saved():
            self._start_optimizers()
            if not any(map(self._take_up, folders)):
                for optimizer, _ in optimizers:
                    optimizer.state.clear()

    def _start_optimizers(self) -> None:
        """Makes what optimizers remember, to be read into, by a step of no length with gradients of zero."""
        for optimizer, _ in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.0
                for weight in group["params"]:
                    weight.grad = torch.zeros_like(weight)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def saved(self) -> list[Path]:
        """Returns the folders of states that were saved, the latest first."""
        return sorted(self.path.parent.glob(f"{self.path.name}.step-*"), reverse=True)

    def save(self) -> None:
        """Writes weights, optimizers and counters, whole or not at all; ValueError if they cannot be written.

        What was saved before is removed when the new state is there.
        """
        part = self.path.with_name(f".{self.path.name}.part")
        is_first = self.processes.rank == 0
        try:
            if is_first:
                shutil.rmtree(part, ignore_errors=True)
            self.processes.wait()
            write_shards(part, self._tensors())
            if is_first:
                progress = {"fingerprint": self.fingerprint, "step": self.step, "seconds": self.seconds}
                write_json(part / "progress.json", progress | {"files": len(list(part.iterdir()))})
                old = self.saved()
                new = self.path.with_name(f"{self.path.name}.step-{self.step:08}")
                shutil.rmtree(new, ignore_errors=True)  # another recipe's
                part.rename(new)
                for folder in old:
                    if folder != new:
                        shutil.rmtree(folder)
        except OSError as error:
            raise CannotWrite(self.path, error) from error

    def _tensors(self) -> dict[str, Tensor]:
        """Returns weights and optimizers by name; a number of steps, [], as [1]."""
        tensors = {f"model.{name}": weight for name, weight in self.model.state_dict().items()}
        for number, (optimizer, _) in enumerate(self.optimizers):
            for index, state in optimizer.state_dict()["state"].items():
                for key, value in state.items():
                    tensors[f"optimizer.{number}.{index}.{key}"] = value[None] if key == "step" else value
        return tensors

    def _take_up(self, folder: Path) -> bool:
        """Goes on from a saved state, if it is whole and of this run; says whether it does."""
        try:
            progress = read_json(folder / "progress.json")
            files = len(list(folder.glob("*.safetensors")))
            if (progress["fingerprint"], progress["files"]) != (self.fingerprint, files):
                return False
            own = self._tensors()
            stored = {name: torch.zeros_like(tensor) for name, tensor in own.items()}
            read_shards(folder, stored)
        except (OSError, SafetensorError, ValueError, LookupError, RuntimeError, AssertionError):
            return False  # nothing usable is there
        for name, tensor in stored.items():
            own[name].copy_(tensor)
        self.step = progress["step"]
        self.seconds = progress["seconds"]
        return True


def make_optimizers(model: GPT, recipe: Recipe, processes: Processes = ALONE) -> Optimizers:
    """Returns Muon for the matrices inside the layers and AdamW for the rest, each with its highest rate."""
    parameters = dict(model.named_parameters())
    matrices = {n: w for n, w in parameters.items() if n.startswith("layers.") and w.dim() == 2}
    remaining = [weight for name, weight in parameters.items() if name not in matrices]
    muon = processes.muon()(matrices.values(), lr=recipe.learning_rate, weight_decay=0.01)
    adamw = torch.optim.AdamW(remaining, lr=recipe.other_rate, betas=(0.9, 0.95), weight_decay=0.0)
    return [(muon, recipe.learning_rate), (adamw, recipe.other_rate)]


def descend(
    name: str,
    module: nn.Module,
    optimizers: Optimizers,
    steps: int,
    losses: Callable[[int], Iterable[Tensor]],
    report: Reporter,
    state: State | None = None,
) -> None:
    """Takes steps down a loss, with gradients clipped; this is the loop of every training.

    Args:
        name: what is trained, for reports.
        module: what is trained.
        optimizers: of its weights, each with its highest rate.
        steps: how many there are, those of the state counted.
        losses: of the step of a number, counted from 0: [] each; it goes down their sum.
        report: gets the progress every `REPORT_EVERY` steps, and at the end.
        state: what is kept every `SAVE_EVERY` steps; None: nothing is.
    """
    first = state.step if state else 0
    processes = state.processes if state else ALONE
    started = perf_counter() - (state.seconds if state else 0.0)
    for step in range(first, steps):
        parts: list[Tensor] = []
        for loss in losses(step):
            loss.backward()
            parts.append(loss.detach())
        nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(step, steps)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        done = step + 1
        seconds = perf_counter() - started
        if state:
            state.step = done
            state.seconds = seconds
            if done % SAVE_EVERY == 0 or done == steps:
                state.save()
        if done % REPORT_EVERY == 0 or done == steps:
            report(Progress(name, done, steps, processes.mean(torch.stack(parts).sum()), seconds))


def divergence(target: Tensor, draft: Tensor) -> Tensor:
    """Returns the mean Kullback-Leibler divergence of distributions from logits: [B, n, V] twice -> []."""
    p, q = (logits.float().log_softmax(-1).flatten(0, 1) for logits in (target, draft))
    return F.kl_div(q, p, log_target=True, reduction="batchmean")


def schedule(step: int, steps: int) -> float:
    """Returns the share of the highest learning rate at a step: a warm-up, a plateau, a straight decline."""
    warm_up = (step + 1) / min(WARM_UP, max(steps // 5, 1))
    decline = (steps - step) / max(steps * DECAY, 1)
    return min(1.0, warm_up, decline)


def autocast(device: torch.device) -> torch.autocast:
    """Returns a context that computes in bfloat16 where the hardware has instructions for it."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported()
    else:
        capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        fast = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)
