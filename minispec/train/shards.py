"""Shards: tensors that several processes write together, and that any number of processes reads.

This is `torch.distributed.checkpoint` with files of safetensors, so that nothing is ever unpickled. Each
process writes its part, and reads what it needs.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

# What checkpoints need takes a second to import, so only who writes or reads one imports it.


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors, [n, ...] each, to a folder, a file a process; OSError if it cannot."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    # A tied head and its embedding share memory; in the files each stands by itself.
    copies = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    writer.sync_files = False  # it takes long, and a killed process needs none
    with single_errors():
        dcp.save(copies, storage_writer=writer)


def read_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Reads tensors of a folder, by their names, into tensors that are there, [n, ...] each.

    Raises an error if one is not in the folder, or has another size.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    with single_errors():
        dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)))


@contextmanager
def single_errors() -> Iterator[None]:
    """Raises what went wrong in one of the processes by itself, and does not warn that there is only one."""
    from torch.distributed.checkpoint.api import CheckpointException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except CheckpointException as failure:
            error, _ = next(iter(failure.failures.values()))
            raise error from failure
