"""Building: from a module to a package of machine code, and back from the file.

PyTorch's exporter records the operations, its inductor writes C++, and the system's compiler builds it. All
of them talk a lot; a person sees one line if it fails.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

COMPILERS = ("g++", "clang++")
# Weights become constants, laid out for kernels that are tried out on this machine.
OPTIONS: dict[str, Any] = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
}


def find_compiler() -> str:
    """Returns the path of a C++ compiler.

    Raises:
        ValueError: if there is none.
    """
    for name in (os.environ.get("CXX"), *COMPILERS):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise ValueError(
        "this path needs a C++ compiler and found none; install g++ or clang, or use the lean path"
    )


def build_package(module: nn.Module, example: tuple[Any, ...], dynamic: tuple[Any, ...], path: Path) -> None:
    """Compiles a module and writes the package; the file appears when it is complete.

    Args:
        module: what to compile.
        example: arguments for it.
        dynamic: for each argument, which sizes may vary, as `torch.export.export` takes it.
        path: of the package, `….pt2`.

    Raises:
        ValueError: if there is no compiler, the folder cannot be written, or the build fails.
    """
    find_compiler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder, quiet():
            with torch.no_grad(), torch.inference_mode(False):
                program = torch.export.export(module, example, dynamic_shapes=dynamic)
                made = torch._inductor.aoti_compile_and_package(
                    program, package_path=str(Path(folder) / path.name), inductor_configs=OPTIONS
                )
            os.replace(made, path)
    except Exception as error:  # whatever the tool chain throws
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise ValueError(f"the compiled path could not be built ({reason}); use the lean path") from error


def load_package(path: Path) -> Callable[[list[Tensor]], list[Tensor]]:
    """Loads a package.

    Args:
        path: of a file that `build_package` has written on this machine.

    Returns:
        A function from all tensors of the arguments, in one list in their order, to the list of the results,
        such as logits [n, V]. The list of arguments is emptied.
    """
    with quiet():
        # The model's own call would first walk through all arguments, which takes longer than a small model.
        return torch._inductor.aoti_load_package(str(path)).loader.boxed_run


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what tools say to themselves: warnings, logs, tables of what was tried."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
