"""llama.cpp: a model's weights in its file format, and its forward over one row.

A GGUF file is written with the package `gguf` and read through `llama-cpp-python`, llama.cpp's C functions.
llama.cpp rotates axes that are neighbours, and Llama's checkpoints pair the two halves of a head: the rows of
queries and keys are reordered, as `permute` of its own `convert_hf_to_gguf.py` does.

Needs the extra `llama-cpp`: in minispec's folder, `pip install -e '.[llama-cpp]'`, which compiles it in some
minutes.
"""

import logging
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from minispec.core.model import GPT
from minispec.evidence.bench.section import installed
from minispec.native.pack import side_by_side

EXTRA = "llama-cpp"
BLOCK = 64  # tokens at most in one forward


@torch.no_grad()
def write_gguf(model: GPT, path: Path) -> None:
    """Writes a model in float32 or bfloat16 without a tokenizer.

    Matrices keep its type; llama.cpp wants vectors in float32.

    Raises:
        ValueError: if gguf is not installed.
    """
    gguf, c = installed("gguf", "gguf", EXTRA), model.config
    writer, kinds = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType
    writer.add_tokenizer_model("no_vocab")
    sizes = {"vocab_size": c.vocab_size, "context_length": c.max_length, "embedding_length": c.width}
    sizes |= {"block_count": c.layers, "feed_forward_length": c.ffn, "rope_dimension_count": c.head_dim}
    sizes |= {"head_count": c.heads, "head_count_kv": c.kv_heads}
    for name, value in {**sizes, "layer_norm_rms_eps": c.norm_eps, "rope_freq_base": c.rope_theta}.items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, c.layers)
    for name, parameter in model.named_parameters():  # a tied head is the embedding, and is not repeated
        turned = "q_proj" in name or "k_proj" in name
        weight = side_by_side(parameter, c.head_dim) if turned else parameter
        array, kind = weight.float().contiguous(), kinds.F32
        if weight.dtype == torch.bfloat16 and weight.dim() == 2:  # NumPy has no bfloat16: its bytes
            array, kind = weight.contiguous().view(torch.uint8), kinds.BF16
        prefix = "" if name.startswith("lm_head") else "model."
        writer.add_tensor(names.get_name(prefix + name, (".weight",)), array.numpy(), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """llama.cpp on a CPU, called as our models are, for one row; it uses as many threads as torch.

    Its cache is in float32 for a float32 model, else in half precision, as it is by default.
    """

    def __init__(self, model: GPT, folder: Path) -> None:
        """Hands weights over, through a file in a folder; a ValueError says what is missing."""
        library, path = installed("llama_cpp", "llama-cpp-python", EXTRA), folder / "model.gguf"
        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)  # else it prints warnings
        self.library, self.config, self.vocab_size = library, model.config, model.vocab_size
        half = library.GGML_TYPE_F16
        self.cache_type = library.GGML_TYPE_F32 if model.dtype == torch.float32 else half
        write_gguf(model, path)
        how = library.llama_model_default_params()
        how.use_mmap, how.n_gpu_layers = False, 0
        self.model = library.llama_model_load_from_file(str(path).encode(), how)
        path.unlink()
        if not self.model:
            raise ValueError("llama.cpp cannot read the file that gguf has written")
        weakref.finalize(self, library.llama_model_free, self.model)

    def new_cache(self, rows: int) -> "Context":
        """Returns an empty cache for one row."""
        return Context(self)

    def __call__(self, tokens: Tensor, cache: "Context") -> Tensor:
        """Reads tokens [1, n]; returns logits [1, n, V], which are valid until the next call."""
        return cache.read(tokens[0].tolist())


class Context:
    """The keys and values of a row, and the memory in which llama.cpp computes."""

    def __init__(self, of: LlamaCpp) -> None:
        """Takes memory for a model's whole context."""
        self.of, self.length, library = of, 0, of.library
        how = library.llama_context_default_params()
        how.n_ctx, how.n_batch, how.n_ubatch = of.config.max_length, BLOCK, BLOCK
        how.type_k = how.type_v = of.cache_type
        how.flash_attn_type = of.cache_type != library.GGML_TYPE_F32  # it rounds to half precision
        self.context = library.llama_init_from_model(of.model, how)
        self.batch = library.llama_batch_init(BLOCK, 0, 1)
        weakref.finalize(self, library.llama_free, self.context)
        weakref.finalize(self, library.llama_batch_free, self.batch)

    def read(self, ids: Sequence[int]) -> Tensor:
        """Reads n tokens, 64 at most, after those that are there; returns the logits of all, [1, n, V]."""
        library, batch, threads = self.of.library, self.batch, torch.get_num_threads()
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, self.length + i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        library.llama_set_n_threads(self.context, threads, threads)
        if status := library.llama_decode(self.context, batch):
            raise ValueError(f"llama.cpp does not decode: status {status}")
        self.length += len(ids)
        logits = library.llama_get_logits(self.context)
        return torch.from_numpy(np.ctypeslib.as_array(logits, (1, len(ids), self.of.vocab_size)))

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forgets all but the first tokens."""
        (self.length,) = lengths
        memory = self.of.library.llama_get_memory(self.context)
        self.of.library.llama_memory_seq_rm(memory, 0, self.length, -1)
