"""What several commands share: options, and how they are checked."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_origin, get_type_hints

import torch
import typer
from rich.console import Console

from minispec.io.checkpoint import Pair, load_pair
from minispec.io.files import read_table
from minispec.io.source import load_models
from minispec.native.backend import AUTO, BACKENDS, NATIVE, TORCH, Backend
from minispec.native.library import why_missing, will_be_built

PROMPT_LIMIT = 2**20  # bytes: the longest context that is read has 16,384 tokens, few of them 64 bytes long

HELP = read_table(__file__, "options.toml")


def with_options(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """Makes an option of every parameter of a command, or an argument where options.toml calls it one.

    There an option stands under the command, or `every` for what several share, and its name without dashes:
    as its help, or as a table of that and of more for `typer.Option`, such as `min`. A parameter is annotated
    with its type, and beside it may stand the names that are listed where the help says `{names}`.
    """
    entries = HELP["every"] | HELP.get(name, {})
    arguments = entries.get("arguments", {})
    hints = get_type_hints(command, include_extras=True)
    del hints["return"]
    for parameter, kind in hints.items():
        if parameter in arguments:
            declared = typer.Argument(help=arguments[parameter])
        else:
            names = kind.__metadata__[0] if get_origin(kind) is Annotated else ()
            option = parameter.removeprefix("as_").replace("_", "-")
            entry = entries[option]
            settings = entry if isinstance(entry, dict) else {"help": entry}
            text = " ".join(settings["help"].split()).format(names=", ".join(names))
            declared = typer.Option(f"--{option}", **settings | {"help": text})
        command.__annotations__[parameter] = Annotated[getattr(kind, "__origin__", kind), declared]
    return command


DTYPES = ("float32", "bfloat16", "float64", "int8")


def console(as_json: bool = False) -> Console:
    """Returns where people's text goes: standard output, or standard error beside JSON."""
    # Text comes from people and models: nothing in it is markup, and ":cat:" is five characters.
    return Console(file=sys.stderr if as_json else sys.stdout, highlight=False, markup=False, emoji=False)


def print_json(document: Any) -> None:
    """Prints one JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=True) + "\n")


def choose(value: str, options: Sequence[str], name: str) -> str:
    """Returns the value if it is one of the options."""
    if value not in options:
        raise ValueError(f"{name} {value!r} is unknown; choose {' or '.join(options)}")
    return value


def set_threads(threads: int | None) -> None:
    """Sets how many threads torch computes with."""
    if threads is not None:
        torch.set_num_threads(threads)


def check_device(device: str) -> torch.device:
    """Returns the device, if this machine has it."""
    kind = choose(device.split(":")[0], ("cpu", "cuda"), "--device")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch finds no GPU on this machine; use --device cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"--device {device!r} is unknown; choose cpu or cuda") from error


def find_backends(name: str) -> list[Backend]:
    """Returns the backend of a name, or for `auto` all that can be had here; a line says what cannot."""
    if choose(name, (*BACKENDS, AUTO), "--backend") == TORCH.name:
        return [TORCH]
    tell_of_build()
    reason = why_missing()
    if name == AUTO and reason is not None:
        print(f"computing with the torch backend: {reason}", file=sys.stderr)
        return [TORCH]
    if reason is not None:
        raise ValueError(reason)
    return list(BACKENDS.values()) if name == AUTO else [NATIVE]


def tell_of_build() -> None:
    """Says on standard error that the native library is built now, if it is."""
    if will_be_built():
        print("building the native backend, once: some seconds", file=sys.stderr)


def open_models(
    pair: str | None,
    target: str | None,
    draft: str | None,
    device: str,
    dtype: str,
    backend: str = TORCH.name,
) -> Pair:
    """Loads the pair that --pair names, by default `stories`, or the models of --target and --draft.

    For another backend than torch weights stay as they are stored: it converts them itself, once. A model on
    a hub is named on standard error with its commit, as it can be had again.
    """
    if target is None and draft is not None:
        raise ValueError("--draft names a draft for the model of --target: give that, too")
    if pair is not None and target is not None:
        raise ValueError("--pair and --target exclude each other: give the pair, or a model")
    location = check_device(device)
    weights = getattr(torch, choose(dtype, DTYPES, "--dtype"))
    kept = None if weights.is_floating_point and backend == TORCH.name else weights
    loaded = weights if kept is None else torch.float32 if backend == TORCH.name else None
    if target is None:
        models = load_pair("stories" if pair is None else pair, device=location, dtype=loaded)
    else:
        dequantised = weights if weights.is_floating_point else torch.float32
        models = load_models(target, draft, device=location, dtype=loaded, dequantised=dequantised)
        pinned = zip(("--target", "--draft"), (target, draft), models.info["sources"], strict=False)
        for option_name, given, name in pinned:
            if name != given:
                print(f"{option_name} {name}", file=sys.stderr)
    return replace(models, kept=kept)


def read_prompt(prompt: str | None) -> str:
    """Returns the prompt; `-` reads it from standard input."""
    if prompt is None:
        raise ValueError('there is no prompt; give one with --prompt "The cat"')
    try:
        content = standard_input(PROMPT_LIMIT) if prompt == "-" else prompt.encode("utf-8")
        if len(content) > PROMPT_LIMIT:
            raise ValueError(f"the prompt has more than {PROMPT_LIMIT:,} bytes; no context is so long")
        prompt = content.decode("utf-8")
    except (UnicodeDecodeError, UnicodeEncodeError) as error:  # the system may hand over what is no text
        raise ValueError(f"the prompt is not UTF-8: what stands at {error.start} cannot be read") from error
    if not prompt:
        raise ValueError('the prompt is empty; give at least one character, such as --prompt "The cat"')
    return prompt


def standard_input(limit: int) -> bytes:
    """Reads standard input, which may have no end: at most one byte more than the limit."""
    return sys.stdin.buffer.read(limit + 1) if sys.stdin else b""


def warn(problem: str, console: Console) -> None:
    """Says beside the results that something went wrong."""
    console.out(f"minispec: {problem}", style="bold #D55E00")
