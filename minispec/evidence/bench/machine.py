"""The machine: what a reader must know of it to compare figures, and how many of its cores compute."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def describe_machine() -> dict[str, object]:
    """Returns what a reader needs to compare figures."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor() -> str:
    """Returns the processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def thread_counts() -> tuple[int, ...]:
    """Returns the numbers of threads to compare: one, and as many as torch uses."""
    return tuple(sorted({1, torch.get_num_threads()}))


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Computes with so many threads, 1 or more, for a while; None: with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
