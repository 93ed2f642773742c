"""llama.cpp: forwards at real sizes, its own and transformers' beside ours, with the same weights.

    python docs/peers/llama_cpp.py --output minispec/evidence/recorded/bench-real-sizes.json

It is the section `real-sizes` of `minispec bench` with two backends more. A GGUF file is written with the
package `gguf` and read through `llama-cpp-python`, llama.cpp's C functions. llama.cpp rotates axes that are
neighbours, and Llama's checkpoints pair the two halves of a head: the rows of queries and keys are reordered,
as `permute` of its own `convert_hf_to_gguf.py` does.

Needs the extras: in minispec's folder, `pip install -e '.[llama-cpp,peers]'`, which compiles it in some
minutes. What is not installed is left out, and the report says so.
"""

import logging
import sys
import weakref
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import typer
from torch import Tensor

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # here this file would be the library of its name

from minispec.cli.bench import run_shown
from minispec.core.model import GPT
from minispec.evidence.bench import real_sizes
from minispec.evidence.bench.section import BenchRun, Results, Section
from minispec.io.checkpoint import load_pair
from minispec.native.pack import side_by_side
from peers.transformers import TransformersGPT, installed

EXTRA = "llama-cpp"
BLOCK = 512  # tokens at most in one forward


@torch.no_grad()
def write_gguf(model: GPT, path: Path, in_8_bits: bool = False) -> None:
    """Writes a model in float32 or bfloat16 without a tokenizer.

    Matrices keep its type, or are rounded to 8 bits (Q8_0); llama.cpp wants vectors in float32.

    Raises:
        ValueError: if gguf is not installed.
    """
    gguf = installed("gguf", "gguf", EXTRA)
    writer = gguf.GGUFWriter(path, "llama")
    c = model.config
    about = {
        "tokenizer_model": "no_vocab",
        "vocab_size": c.vocab_size,
        "context_length": c.max_length,
        "embedding_length": c.width,
        "block_count": c.layers,
        "feed_forward_length": c.ffn,
        "rope_dimension_count": c.head_dim,
        "head_count": c.heads,
        "head_count_kv": c.kv_heads,
        "layer_norm_rms_eps": c.norm_eps,
        "rope_freq_base": c.rope_theta,
    }
    for name, value in about.items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, c.layers)
    for name, parameter in model.named_parameters():  # a tied head is the embedding, and is not repeated
        turned = "q_proj" in name or "k_proj" in name
        weight = (side_by_side(parameter, c.head_dim) if turned else parameter).contiguous()
        array = weight.float()
        kind = gguf.GGMLQuantizationType.F32
        if weight.dtype == torch.bfloat16 and weight.dim() == 2:  # NumPy has no bfloat16: its bytes
            array = weight.view(torch.uint8)
            kind = gguf.GGMLQuantizationType.BF16
        numbers = array.numpy()
        if in_8_bits and weight.dim() == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            numbers = gguf.quantize(numbers, kind)
        prefix = "" if name.startswith("lm_head") else "model."
        writer.add_tensor(names.get_name(prefix + name, (".weight",)), numbers, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """llama.cpp on a CPU, called as our models are, for one row; it uses as many threads as torch."""

    device = torch.device("cpu")

    def __init__(self, path: Path, context: int, whole: bool = False) -> None:
        """Reads a file; a ValueError says what is missing.

        Args:
            path: of the file.
            context: how many tokens a cache holds.
            whole: whether caches are in float32; else they are in half precision, as by default.
        """
        self.library = installed("llama_cpp", "llama-cpp-python", EXTRA)
        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)  # else it prints warnings
        self.context = context
        self.whole = whole
        how = self.library.llama_model_default_params()
        how.use_mmap = False
        how.n_gpu_layers = 0
        self.model = self.library.llama_model_load_from_file(str(path).encode(), how)
        if not self.model:
            raise ValueError(f"llama.cpp cannot read {path.name}")
        weakref.finalize(self, self.library.llama_model_free, self.model)
        self.vocab_size = self.library.llama_vocab_n_tokens(self.library.llama_model_get_vocab(self.model))

    def new_cache(self, rows: int) -> "Context":
        """Returns an empty cache for one row."""
        return Context(self)

    def hidden(self, tokens: Tensor, cache: "Context") -> Tensor:
        """Reads tokens [1, n], 512 at most; returns logits [1, n, V], which are valid until the next call.

        Its head is a part of its forward.
        """
        ids = tokens[0].tolist()
        cache.read(ids)
        logits = self.library.llama_get_logits(cache.context)
        return torch.from_numpy(np.ctypeslib.as_array(logits, (1, len(ids), self.vocab_size)))

    def head(self, hidden: Tensor) -> Tensor:
        """Returns the logits [1, n, V] as they are."""
        return hidden


class Context:
    """The keys and values of a row, and the memory in which llama.cpp computes."""

    def __init__(self, of: LlamaCpp) -> None:
        """Takes memory for a model's whole context."""
        self.library = of.library
        self.vocab_size = of.vocab_size
        self.length = 0
        how = self.library.llama_context_default_params()
        how.n_ctx = of.context
        how.n_batch = how.n_ubatch = BLOCK
        how.type_k = how.type_v = self.library.GGML_TYPE_F32 if of.whole else self.library.GGML_TYPE_F16
        how.flash_attn_type = not of.whole  # it rounds to half precision
        self.context = self.library.llama_init_from_model(of.model, how)
        self.batch = self.library.llama_batch_init(BLOCK, 0, 1)
        weakref.finalize(self, self.library.llama_free, self.context)
        weakref.finalize(self, self.library.llama_batch_free, self.batch)

    def best_after(self, ids: list[int]) -> int:
        """Reads any number of tokens; returns the likeliest next one."""
        for start in range(0, len(ids), BLOCK):
            self.read(ids[start : start + BLOCK], every=False)
        logits = self.library.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (self.vocab_size,)).argmax())

    def read(self, ids: list[int], every: bool = True) -> None:
        """Reads tokens after those that are there, for the logits after every one, or after the last."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i] = token
            batch.pos[i] = self.length + i
            batch.logits[i] = every or i == len(ids) - 1
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
        threads = torch.get_num_threads()
        self.library.llama_set_n_threads(self.context, threads, threads)
        if status := self.library.llama_decode(self.context, batch):
            raise ValueError(f"llama.cpp does not decode: status {status}")
        self.length += len(ids)

    def truncate(self, lengths: list[int]) -> None:
        """Forgets all but the first tokens."""
        (self.length,) = lengths
        memory = self.library.llama_get_memory(self.context)
        self.library.llama_memory_seq_rm(memory, 0, self.length, -1)


def with_weights(model: GPT, in_8_bits: bool = False) -> LlamaCpp:
    """Hands our weights over, through a file; a ValueError says what is missing."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_gguf(model, path, in_8_bits)
        return LlamaCpp(path, model.max_length, model.dtype == torch.float32 and not in_8_bits)


PEERS = {"transformers": TransformersGPT, "llama.cpp": with_weights}
IN_8_BITS = {"llama.cpp": partial(with_weights, in_8_bits=True)}


def measure(bench: BenchRun) -> Results:
    """Measures our backends and theirs; each row also has what theirs come to in the same place."""
    results = real_sizes.measure(bench, real_sizes.MAKERS | PEERS, real_sizes.IN_8_BITS | IN_8_BITS)
    where = itemgetter("shape", "dtype", "threads")
    speeds = {(where(row), row["backend"]): row["tokens_per_second"] for row in results["points"]}
    for row in results["points"]:
        for peer in PEERS:
            row[f"{peer.replace('.', '_')}_tokens_per_second"] = speeds.get((where(row), peer))
    return results


def main(output: Path | None = None) -> None:
    """Times forwards at real sizes."""
    more = [Section("real-sizes", measure)]
    run_shown(load_pair("stories"), output, sections=("real-sizes",), more=more)


if __name__ == "__main__":
    typer.run(main)
