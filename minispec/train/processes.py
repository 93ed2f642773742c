"""Processes: a training that several share, which `torchrun` starts; one process needs nothing of it.

Each process computes a part of every batch. The gradients are averaged, so that all take the step that one
process takes with the whole batch. With `ddp` each process holds all weights (Li et al. 2020). With `fsdp` it
holds a part of each weight and of what the optimizers know of it, and gathers those of a layer while it
computes that layer (Zhao et al. 2023).
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from minispec.core.model import GPT
from minispec.io.checkpoint import fill
from minispec.train.muon import Muon
from minispec.train.recipes import Recipe

PARALLEL = ("ddp", "fsdp")
PATIENCE = timedelta(hours=24)  # that processes wait: the first may have a long text to tokenize


@dataclass(frozen=True)
class Processes:
    """The processes of a training, as one of them sees them."""

    parallel: str | None = None  #: `ddp`, `fsdp`, or None for a single process
    rank: int = 0  #: this process's number, from 0
    count: int = 1  #: how many there are
    accumulate: int = 1  #: parts of a batch that a process computes one after the other

    def check(self, recipe: Recipe) -> None:
        """Raises ValueError if a batch of a recipe cannot be cut into equal parts."""
        parts = self.count * self.accumulate
        for stage in (*recipe.target_stages, *recipe.draft_stages, *recipe.distill_stages):
            if stage.rows % parts:
                raise ValueError(
                    f"a step of this recipe has {stage.rows} sequences, which cannot be cut into {parts} "
                    f"equal parts: the number of processes is {self.count}, --accumulate {self.accumulate}"
                )

    def parts(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Returns the parts of a batch [B, W] that this process computes; no row is in two."""
        first = self.rank * self.accumulate
        return rows.chunk(self.count * self.accumulate)[first : first + self.accumulate]

    def shard(self, model: GPT) -> None:
        """Leaves a part of each weight in this process, with `fsdp`, before there are optimizers."""
        if self.parallel == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh("cpu", (self.count,))
            for module in (*model.layers, model):
                fully_shard(module, mesh=mesh)

    def averaged(self, model: GPT) -> nn.Module:
        """Returns what computes as a model does, and averages gradients over the processes."""
        return DistributedDataParallel(model) if self.parallel == "ddp" else model

    def averaging(self, module: nn.Module, now: bool) -> AbstractContextManager[None]:
        """Returns a context for a part of a batch: with `ddp` only the last averages gradients, `now`."""
        if isinstance(module, DistributedDataParallel) and not now:
            return module.no_sync()
        return nullcontext()

    def muon(self) -> type[Muon]:
        """Returns the class of the optimizer of matrices."""
        return ShardedMuon if self.parallel == "fsdp" else Muon

    def whole(self, model: GPT) -> GPT:
        """Returns the model with all weights in this process; all processes must ask for it."""
        if self.parallel != "fsdp":
            return model
        weights = {name: gathered(weight) for name, weight in model.state_dict().items()}
        with torch.device("meta"):
            whole = GPT(model.config)
        return fill(whole, weights, model.device, None)

    def mean(self, value: Tensor) -> float:
        """Returns the mean over the processes of a number, []."""
        if self.count > 1:
            dist.all_reduce(value)
        return float(value) / self.count

    def wait(self) -> None:
        """Waits until all processes have come here."""
        if self.count > 1:
            dist.barrier()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Lets the first process go through a block, and then the others, who find the files it has made."""
        if self.rank:
            self.wait()
        yield
        if not self.rank:
            self.wait()


ALONE = Processes()


@contextmanager
def joined(parallel: str | None, accumulate: int) -> Iterator[Processes]:
    """Gives the processes that torchrun has started, which talk through gloo until the block ends.

    Raises:
        ValueError: if it has started none for `parallel`, or several without it; or if another one ends.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if parallel is None:
        if count > 1:
            raise ValueError(
                f"{count} processes were started: say with --parallel {' or '.join(PARALLEL)} "
                f"how they share the training"
            )
        yield Processes(accumulate=accumulate)
        return
    if "RANK" not in os.environ:
        raise ValueError(
            f"--parallel {parallel} needs processes to share the training: start them with "
            f"torchrun --nproc-per-node 2 -m minispec train --parallel {parallel}"
        )
    dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield Processes(parallel, dist.get_rank(), dist.get_world_size(), accumulate)
    except RuntimeError as error:
        if " peer" not in str(error):
            raise
        raise ValueError("another process of this training has ended") from error
    finally:
        dist.destroy_process_group()


def gathered(tensor: Any) -> Tensor:
    """Returns all of a tensor, [n, ...], of which each process holds a part."""
    whole: Tensor = tensor.full_tensor()
    return whole


def scattered(whole: Tensor, like: Any) -> Tensor:
    """Returns this process's part of a tensor, [n, ...], which is cut as another is."""
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


class ShardedMuon(Muon):
    """Muon where each process holds a part of each weight and momentum: a momentum is gathered to be used."""

    def direction(self, momentum: Tensor) -> Tensor:
        """Returns this process's part of the whole momentum, [rows, columns], orthogonalized."""
        return scattered(super().direction(gathered(momentum)), momentum)
