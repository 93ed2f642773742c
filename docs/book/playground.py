"""What the playground runs: the native backend as WebAssembly, and a pair as a script that a page can load.

A page that was opened as a file may fetch nothing. So all that the engine needs comes as text, with a hash of
each part. The compiled file is kept, with a hash of what it is made of: to build the book needs no compiler.
"""

import base64
import ctypes
import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch

from minispec.io.files import write_json
from minispec.native.library import SOURCE
from minispec.native.pack import packed_block, packed_gain, packed_matrix, packed_rotations
from minispec.native.structs import ADDRESS, ENUM, FUNCTIONS, INT, RECORDS, TYPES

DOCS = Path(__file__).resolve().parents[1]
PLAYGROUND = DOCS / "playground"
WASM = PLAYGROUND / "minispec.wasm"
RECORD = PLAYGROUND / "minispec.wasm.json"
PAGE = PLAYGROUND / "page.cpp"
CALLED = ("model_new", "matrix_new", "read", "multiply", "distributions", "choose", "decide")
EXPORTED = (*(f"ms_{name}" for name in CALLED), "page_hash", "page_number", "malloc", "free")
FLAGS = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-msimd128"),  # a library, with vectors
    *("-O3", "-std=c++17", "-s", "-fexceptions", "-fignore-exceptions"),
    *(f"-Wl,--export={name}" for name in EXPORTED),
)
KEPT = torch.bfloat16  # the type of the weights, as they are published
NAMES = {INT: "BigInt64", ctypes.c_double: "Float64", ADDRESS: "Uint32", ENUM: "Uint32"}  # as a DataView says
SIZES = {INT: 8, ctypes.c_double: 8, ADDRESS: 4, ENUM: 4}  # bytes, where addresses have 32 bits
COMMAND = "cd docs && python -m book engine"


def sources_hash():
    """Returns the SHA-256 of the sources, and of what the compiler is told."""
    digest = hashlib.sha256("\n".join(FLAGS).encode())
    for path in (*sorted(SOURCE.parent.iterdir()), PAGE):
        digest.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def can_compile():
    """Whether the compiler is at hand."""
    return find_spec("ziglang") is not None


def compiled():
    """Returns the backend as WebAssembly; the first time the compiler builds a standard library too.

    Raises:
        ValueError: if there is no compiler, or it fails.
    """
    if not can_compile():
        raise ValueError("the engine is compiled by the package ziglang: pip install ziglang")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / WASM.name
        command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, "-o", path, SOURCE, PAGE]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise ValueError(f"the engine could not be compiled: {result.stderr.strip()[:500]}")
        return path.read_bytes()


def write_engine():
    """Compiles the engine, and writes it and its hashes."""
    WASM.write_bytes(compiled())
    write_json(RECORD, {"sources": sources_hash(), "wasm": sha256(WASM.read_bytes())})


def sha256(data):
    """Returns the SHA-256 of bytes, as text."""
    return hashlib.sha256(data).hexdigest()


def arrays(model):
    """Yields what the library reads of a model: its head, then all weights in the order of `ms_model_new`.

    None stands for the head among the weights, and for what a layer does not have.
    """
    yield packed_matrix(model.lm_head.weight, KEPT)
    yield packed_matrix(model.embed_tokens.weight, KEPT)
    for block in model.layers:
        yield from packed_block(block, model.config, KEPT)
    yield None
    yield packed_gain(model.norm.weight, KEPT)
    yield packed_rotations(model.config)


@torch.no_grad()
def packed(model):
    """Returns a model's weights in a row, and a description: sizes, and where each array begins."""
    c = model.config
    data = bytearray()
    places = []
    for array in arrays(model):
        places.append(None if array is None else len(data))
        if array is not None:
            data += array.contiguous().view(torch.uint8).numpy().tobytes()
            data += bytes(-len(data) % 8)  # a double begins at a multiple of 8
    sizes = [c.vocab_size, c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.max_length]
    return bytes(data), {"sizes": sizes, "normEps": c.norm_eps, "places": places}


def layout(record):
    """Returns the type of each field of a record, and its place: a multiple of its size, as in C."""
    fields = {}
    end = 0
    for name, kind in RECORDS[record]:
        place = end + -end % SIZES[kind]
        fields[name] = [NAMES[kind], place]
        end = place + SIZES[kind]
    return fields


def in_base64(data):
    """Writes bytes in base64."""
    return base64.b64encode(data).decode()


def script(pair):
    """Returns the text of `data.js`: each part and its SHA-256, in base64.

    Raises:
        ValueError: if the engine was compiled from other sources.
    """
    if json.loads(RECORD.read_text(encoding="utf-8"))["sources"] != sources_hash():
        raise ValueError(f"{WASM.name} was compiled from other sources: {COMMAND}")
    models = {"target": packed(pair.target), "draft": packed(pair.draft)}
    about = {
        "type": TYPES[KEPT],
        "models": {name: description for name, (_, description) in models.items()},
        "records": {name: layout(name) for name in ("ms_block", "ms_warp", "ms_source", "ms_decision")},
        "functions": {f"ms_{name}": [NAMES[kind] for kind in FUNCTIONS[f"ms_{name}"][1]] for name in CALLED},
    }
    parts = {
        "about": json.dumps(about).encode(),
        "tokenizer": (pair.folder / "tokenizer.json").read_bytes(),
        "wasm": WASM.read_bytes(),
        **{name: data for name, (data, _) in models.items()},
    }
    entries = {
        name: {"sha256": in_base64(hashlib.sha256(part).digest()), "base64": in_base64(part)}
        for name, part in parts.items()
    }
    return f"globalThis.MINISPEC_DATA = {json.dumps(entries, indent=0)};\n"


def write_playground(folder, pair):
    """Writes into a folder what the pages of the playground load: scripts, styles, and `data.js`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(PLAYGROUND.iterdir()):
        if path.suffix in (".js", ".css"):
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "data.js").write_text(script(pair), encoding="utf-8")
