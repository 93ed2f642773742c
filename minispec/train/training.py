"""Training: one loop for every model.

A pair takes three runs. The target and the draft learn the corpus by cross-entropy; then the draft learns
from the target, by the Kullback–Leibler divergence to its distributions (Hinton et al. 2015), on the corpus
and on what the target writes. The last run makes the draft agree with the target, and that is all that a
draft is for.

A run can be killed at any moment. What it needs to go on is the weights, the optimizers' state and the number
of the step; the batch of a step depends on the seed and the step alone. So a resumed run ends with the same
weights as one that was never disturbed.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from minispec.core.model import GPT
from minispec.io.files import write_tensors
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, batch, gather, kind_of
from minispec.train.evaluate import mean_loss
from minispec.train.initialise import draw_weights
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.teacher import KEPT, Teacher, write_sequences

WARM_UP = 50  # steps
DECAY = 0.35  # share of the steps, at the end
SAVE_EVERY = 100  # steps
TELL_EVERY = 10  # steps
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


Tell = Callable[[Progress], None]  # what is told how a training goes
Optimizers = Sequence[tuple[torch.optim.Optimizer, float]]  # each with its highest rate


def train_pair(
    recipe: Recipe,
    folder: Path,
    report: Tell,
    device: torch.device | None = None,
    dataset: Dataset | None = None,
) -> tuple[Dataset, dict[str, Trained]]:
    """Trains a target, a draft, and the draft again from the target.

    Args:
        recipe: says what is trained, and how.
        folder: where the run keeps its state; a run of the same recipe in the same folder is resumed.
        report: gets the progress.
        device: where to train; by default the CPU.
        dataset: what `gather` made of the recipe; by default it is called here.

    Returns:
        The dataset, and the three models by name: `target`, `draft-plain`, `draft`.

    Raises:
        ValueError: if the text is too short, or the state cannot be written.
    """
    device = device or torch.device("cpu")
    dataset = dataset or gather(recipe)
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
        teacher, data, started = None, dataset, perf_counter()
        if name == "draft":
            model.load_state_dict(done["draft-plain"].model.state_dict())
            if recipe.written:  # that takes a while
                report(Progress(name, 0, sum(stage.steps for stage in stages), math.nan, 0.0))
            teacher, data = prepare_distillation(recipe, done["target"].model, dataset)
        run = TrainingRun(recipe, name, model, teacher, stages, folder / f"{name}.safetensors", fingerprint)
        run.seconds += perf_counter() - started
        done[name] = run.finish(data, report)
    return dataset, done


def prepare_distillation(recipe: Recipe, target: GPT, dataset: Dataset) -> tuple[Teacher, Dataset]:
    """Returns a target as a teacher, and the dataset with what it has written for its draft."""
    sequences = {kind_of(stage): dataset.sequences[kind_of(stage)] for stage in recipe.distill_stages}
    if recipe.written:
        for kind, found in sequences.items():
            own = write_sequences(target, found, recipe.written, recipe.seed)
            sequences[kind] = torch.cat([found, own])
    reads = sum(stage.steps * stage.rows for stage in recipe.distill_stages)
    again = reads > sum(map(len, sequences.values()))  # else there is nothing to keep logits for
    data = replace(dataset, sequences={**dataset.sequences, **sequences})
    return Teacher(target, KEPT if again else 0), data


@dataclass
class TrainingRun:
    """The training of one model: the model, its optimizers, and how far they have come."""

    recipe: Recipe
    name: str
    model: GPT
    teacher: Teacher | None
    stages: Sequence[CurriculumStage]
    path: Path  #: of its state; what an earlier run with this fingerprint has left there is taken up
    fingerprint: str

    def __post_init__(self) -> None:
        self.model.train()
        self.optimizers = make_optimizers(self.model, self.recipe)
        self.steps = sum(stage.steps for stage in self.stages)
        self.step, self.seconds = 0, 0.0
        self._resume()

    def finish(self, dataset: Dataset, report: Tell) -> Trained:
        """Runs all steps that are left."""
        started = perf_counter() - self.seconds
        report(Progress(self.name, self.step, self.steps, math.nan, self.seconds))
        plan = [(stage, step) for stage in self.stages for step in range(stage.steps)]
        for stage, step in plan[self.step :]:
            loss = self._advance(batch(dataset.sequences[kind_of(stage)], stage.rows, step, self.recipe.seed))
            self.step += 1
            self.seconds = perf_counter() - started
            last = self.step == self.steps
            if self.step % SAVE_EVERY == 0 or last:
                self._save()
            if self.step % TELL_EVERY == 0 or last:
                check = self.step % max(self.steps // 10, 1) < TELL_EVERY or last
                measured = mean_loss(self.model, *dataset.held_out, bf16=True) if check else None
                report(Progress(self.name, self.step, self.steps, float(loss), self.seconds, measured))
        tokens = sum(stage.steps * stage.rows * stage.window for stage in self.stages)
        return Trained(self.model.eval().requires_grad_(False), self.steps, self.seconds, tokens)

    def _advance(self, rows: Tensor) -> Tensor:  # [B, window + 1] -> []
        rows = rows.to(self.model.device)
        with autocast(self.model.device):
            logits = self.model(rows[:, :-1])  # [B, window, V]
        loss = self._loss(logits.float(), rows)
        descend(loss, self.model, self.optimizers, schedule(self.step, self.steps))
        return loss.detach()

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        if self.teacher is None:
            return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        with autocast(self.model.device):
            target = self.teacher(rows[:, :-1])
        p, q = (scores.log_softmax(-1).flatten(0, 1) for scores in (target.float(), logits))
        return F.kl_div(q, p, log_target=True, reduction="batchmean")

    def _save(self) -> None:
        """Writes weights, optimizers and counters to one file."""
        tensors = {f"model.{name}": weight for name, weight in self.model.state_dict().items()}
        for number, (optimizer, _) in enumerate(self.optimizers):
            for index, state in optimizer.state_dict()["state"].items():
                for key, value in state.items():
                    tensors[f"optimizer.{number}.{index}.{key}"] = torch.as_tensor(value)
        progress = {"fingerprint": self.fingerprint, "step": self.step, "seconds": self.seconds}
        write_tensors(self.path, tensors, {"progress": json.dumps(progress)})

    def _resume(self) -> None:
        """Takes up a saved state, if there is one and it is of this recipe."""
        try:
            with safe_open(self.path, framework="pt") as file:
                progress = json.loads((file.metadata() or {}).get("progress", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError, RecursionError):
            return  # nothing usable is there: begin at the beginning
        if not isinstance(progress, dict) or progress.get("fingerprint") != self.fingerprint:
            return
        weights: dict[str, Tensor] = {}
        states: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.optimizers]
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = tensor
            else:
                number, index, key = rest.split(".")
                states[int(number)].setdefault(int(index), {})[key] = tensor
        self.model.load_state_dict(weights)
        for (optimizer, _), state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        self.step, self.seconds = progress["step"], progress["seconds"]


def make_optimizers(model: GPT, recipe: Recipe) -> Optimizers:
    """Returns Muon for the matrices inside the layers and AdamW for the rest, each with its highest rate."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        (matrices if name.startswith("layers.") and weight.dim() == 2 else others).append(weight)
    muon = torch.optim.Muon(
        matrices, lr=recipe.learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.9, 0.95), weight_decay=0.0)
    return [(muon, recipe.learning_rate), (adamw, recipe.other_rate)]


def descend(loss: Tensor, module: nn.Module, optimizers: Optimizers, scale: float) -> None:
    """Takes a step down a loss, [], with gradients clipped, at a share of each optimizer's highest rate."""
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), CLIP)
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * scale
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def schedule(step: int, steps: int) -> float:
    """Returns the share of the highest learning rate at a step: a warm-up, a plateau, a straight decline."""
    up = (step + 1) / min(WARM_UP, max(steps // 5, 1))
    down = (steps - step) / max(steps * DECAY, 1)
    return min(1.0, up, down)


def autocast(device: torch.device) -> torch.autocast:
    """Returns a context that computes in bfloat16 where the hardware has instructions for it."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported()
    else:
        found: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        fast = bool(found.get("avx512_bf16") or found.get("amx_bf16"))
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)
