"""GGUF files for tests, written by the library `gguf` as llama.cpp's converters do."""

import json

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType, dequantize, quantize
from gguf.quants import quant_shape_to_byte_shape

from minispec.core.model import GPT

FLOATS = ("F32", "F16", "BF16")
BLOCKS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")  # the library writes and reads them
READ_ONLY = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL")  # it reads them
NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def llama_cpp_name(name):
    """Returns llama.cpp's name of a weight of ours."""
    name, _, suffix = name.rpartition(".")
    if not name.startswith("layers."):
        return f"{NAMES[name]}.{suffix}"
    _, layer, part = name.split(".", 2)
    return f"blk.{layer}.{NAMES[part]}.{suffix}"


def permuted(rows, heads):
    """Puts the rows of each head into llama.cpp's order: pairs that are rotated stand side by side."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def stored(weight, kind):
    """Returns a weight as bytes of a kind, and the numbers that these stand for: of READ_ONLY, any bytes."""
    number = GGMLQuantizationType[kind]
    values = weight.float().numpy()
    if kind in READ_ONLY:
        shape = quant_shape_to_byte_shape(values.shape, number)
        raw = np.random.default_rng(values.size).integers(0, 48, shape, np.uint8)  # no scale is above 0.125
    else:
        raw = quantize(values, number)
    return raw, torch.from_numpy(np.array(dequantize(raw, number)))


def write_gguf(path, model, kind="F32", tokenizer=None, architecture="llama", edit=lambda writer: None):
    """Writes a model whose matrices are of a kind; returns a model of the weights that the file then holds.

    tokenizer: of `byte_level` or the like, told of the writer; edit: told of it at the end.
    """
    config = model.config
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(config.max_length)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    if tokenizer is not None:
        tokenizer(writer)
    weights = {}
    for name, weight in model.state_dict().items():
        if config.tied and name == "lm_head.weight":
            continue
        kind_of_weight = kind if weight.dim() == 2 else "F32"
        raw, weights[name] = stored(weight, kind_of_weight)
        if architecture == "llama":
            heads = {"q_proj": config.heads, "k_proj": config.kv_heads}
            raw = next((permuted(raw, n) for part, n in heads.items() if f".{part}." in name), raw)
        raw_dtype = GGMLQuantizationType[kind_of_weight]
        writer.add_tensor(llama_cpp_name(name), np.ascontiguousarray(raw), raw_dtype=raw_dtype)
    edit(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = GPT(config)
    read.load_state_dict(weights, strict=False)
    return read.eval().requires_grad_(False)


def byte_level(tokenizer, pre="gpt-2"):
    """Returns what tells a writer of a byte-level tokenizer of ours."""
    data = json.loads(tokenizer.library.to_str())
    vocab = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    special = {token["content"] for token in data["added_tokens"]}

    def describe(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(vocab)
        writer.add_token_types([TokenType.CONTROL if t in special else TokenType.NORMAL for t in vocab])
        writer.add_token_merges([" ".join(pair) for pair in data["model"]["merges"]])
        writer.add_eos_token_id(tokenizer.end_of_text)

    return describe


def sentencepiece(pieces):
    """Returns what tells a writer of sentencepiece's tokenizer: bytes, and pieces, the likeliest first."""
    bytes_of_pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_of_pieces, *pieces]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]

    def describe(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(pieces))])
        writer.add_token_types(kinds + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces))
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)

    return describe
