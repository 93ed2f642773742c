"""GGUF files: every kind of numbers, the config, the tokenizer; what is not ours or cannot be is refused."""

import struct
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from gguf_files import BLOCKS, FLOATS, READ_ONLY, byte_level, sentencepiece, write_gguf
from native_models import needs_compiler
from pairs import random_models, tiny_tokenizer
from refusals import refused

from minispec.core.model import GPT, GPTConfig, RopeScaling
from minispec.io.chat import chat_prompt
from minispec.io.gguf import open_gguf
from minispec.io.gguf_tokenizer import load_gguf_tokenizer
from minispec.io.source import load_model, load_models
from minispec.native.model import NativeGPT

SMALL = GPTConfig(64, 2, 64, 4, 2, 96, max_length=50, rope_theta=500.0)
WIDE = GPTConfig(64, 1, 256, 4, 2, 256, max_length=50)  # blocks of most kinds have 256 numbers
TEXT = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def random_model(config):
    torch.manual_seed(3)
    return GPT(config).eval().requires_grad_(False)


def same_weights(one, other):
    state = other.state_dict()
    return all(torch.equal(weight, state[name]) for name, weight in one.state_dict().items())


@pytest.mark.parametrize("kind", [*FLOATS, *BLOCKS, *READ_ONLY])
def test_every_kind_of_numbers_is_read(kind, tmp_path):
    """Weights and logits are those of the numbers that the file holds, in every type."""
    config = WIDE if kind in READ_ONLY else SMALL
    wanted = write_gguf(tmp_path / "model.gguf", random_model(config), kind)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        read = load_model(tmp_path / "model.gguf", dtype=dtype)
        assert read.config == config and read.dtype == dtype
        assert same_weights(read, wanted.to(dtype))
        assert torch.equal(read(TEXT), wanted(TEXT)) and bool(read(TEXT).isfinite().all())


@needs_compiler
@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": True}, {"head_size": 10}, {"norm_eps": 1e-6, "kv_heads": 4}, {"rope_theta": 1e6}],
    ids=str,
)
def test_the_config_is_read(changes, tmp_path):
    """Sizes, a tied head, heads of another size, and numbers that float32 rounds; native logits agree."""
    config = replace(SMALL, **changes)
    wanted = write_gguf(tmp_path / "model.gguf", random_model(config))
    read = load_model(tmp_path / "model.gguf")
    assert read.config == config
    torch.testing.assert_close(NativeGPT(read)(TEXT), wanted(TEXT), rtol=0, atol=1e-4)


FAMILIES = {
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True, "head_size": 32},
}


@pytest.mark.parametrize("architecture", FAMILIES)
def test_families_are_read(architecture, tmp_path):
    """Biases and norms have their places, and rows stand as they are."""
    config = replace(SMALL, **FAMILIES[architecture])
    model = random_model(config)
    for weight in model.parameters():
        if weight.dim() == 1:
            weight.copy_(torch.randn(weight.shape))
    wanted = write_gguf(tmp_path / "model.gguf", model, architecture=architecture)
    read = load_model(tmp_path / "model.gguf")
    assert read.config == config and torch.equal(read(TEXT), wanted(TEXT))


def test_scaled_positions_are_read(tmp_path):
    """Llama 3 has a tensor of divisors; divisors that come of no such scaling are refused."""
    scaling = RopeScaling(32.0, 1.0, 4.0, 8192)
    config = replace(SMALL, rope_theta=500_000.0, max_length=20_000, rope_scaling=scaling)
    frequency = 500_000.0 ** (-torch.arange(0, 16, 2) / 16)
    divisors = (frequency / scaling.scale(frequency)).numpy().astype(np.float32)
    path = tmp_path / "model.gguf"
    wanted = write_gguf(
        path, random_model(config), edit=lambda w: w.add_tensor("rope_freqs.weight", divisors)
    )
    read = load_model(path)
    assert read.config == config and torch.equal(read(TEXT), wanted(TEXT))
    for wrong in (divisors[:-1], divisors[::-1].copy(), divisors * np.nan):
        write_gguf(path, wanted, edit=lambda w, wrong=wrong: w.add_tensor("rope_freqs.weight", wrong))
        with refused("rope_freqs.weight that scale positions in another way|rope_scaling|factor", path):
            load_model(path)


def test_rows_of_queries_and_keys_are_put_in_order(tmp_path):
    """Without that, logits are others: the test above can fail."""
    model = random_model(SMALL)
    write_gguf(tmp_path / "model.gguf", model)
    swapped = load_model(tmp_path / "model.gguf")
    for layer in swapped.layers:
        weight = layer.self_attn.q_proj.weight
        layer.self_attn.q_proj.weight.copy_(weight.view(4, 2, -1, 64).transpose(1, 2).reshape(64, 64))
    assert (swapped(TEXT) - model(TEXT)).abs().max() > 1e-3


def test_a_tokenizer_is_read(tmp_path):
    """The ids, bytes and end of the one that was written; so is a pair of a file and itself."""
    target, _ = random_models(vocab_size=300)
    write_gguf(tmp_path / "model.gguf", target, tokenizer=byte_level(tiny_tokenizer()))
    pair = load_models(tmp_path / "model.gguf")
    assert pair.draft is pair.target and not pair.has_draft and pair.name == "model.gguf"
    text = "The cat's 1984 mats;  née\n\n猫 <|endoftext|>"
    assert pair.tokenizer.encode(text) == tiny_tokenizer().encode(text)
    for token in range(300):
        assert pair.tokenizer.bytes_of(token) == tiny_tokenizer().bytes_of(token)
    assert pair.tokenizer.end_of_text == tiny_tokenizer().end_of_text


def test_a_pair_has_the_type_that_is_asked_for(tmp_path):
    """Weights of a file come in `dtype` if there is one, and else in what numbers of blocks become."""
    target, _ = random_models(vocab_size=300)
    path = tmp_path / "model.gguf"
    write_gguf(path, target, tokenizer=byte_level(tiny_tokenizer()))
    for dtype, dequantised in product((None, torch.float64), (torch.float32, torch.bfloat16)):
        assert load_models(path, dtype=dtype, dequantised=dequantised).target.dtype == (dtype or dequantised)


PIECES = [
    "▁t",
    "he",
    "▁the",
    "▁ca",
    "ca",
    "at",
    "▁cat",
    "▁",
    "t",
    "h",
    "e",
    "c",
    "a",
    "s",
    "▁ts",
    "<",
    "/",
    ">",
    "</",
    "s>",
]


def test_pieces_are_merged_as_sentencepiece_does(tmp_path):
    """The likeliest neighbours first, bytes for what is in no piece; a space and BOS before."""
    write_gguf(tmp_path / "model.gguf", random_models()[0], tokenizer=sentencepiece(PIECES))
    tokenizer = load_gguf_tokenizer(open_gguf(tmp_path / "model.gguf"))

    def pieces(text):
        return [tokenizer.library.id_to_token(token) for token in tokenizer.encode(text)]

    assert pieces("the cat") == ["<s>", "▁the", "▁cat"]
    assert pieces("cats") == ["<s>", "▁cat", "s"]
    assert pieces("</s>é") == ["<s>", "▁", "</", "s>", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("the é cat")) == "the é cat"
    assert tokenizer.ends == (2,) and tokenizer.begin == (1,)


@pytest.mark.parametrize("pre", ["smollm", "llama-bpe", "qwen2"])
def test_texts_are_cut_as_the_pre_tokenizer_says(pre, tmp_path):
    """Digits one by one, or by three; a text has its own bytes again."""
    write_gguf(tmp_path / "model.gguf", random_models()[0], tokenizer=byte_level(tiny_tokenizer(), pre))
    tokenizer = load_gguf_tokenizer(open_gguf(tmp_path / "model.gguf"))
    parts = [part for part, _ in tokenizer.library.pre_tokenizer.pre_tokenize_str("in 12345, it's")]
    digits = ["123", "45"] if pre == "llama-bpe" else list("12345")
    assert [part for part in parts if part[-1].isdigit()] == digits and parts[-2:] == ["Ġit", "'s"]
    text = "The cat's 1984 mats;  née\n\n猫"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_several_ends_and_a_chat_template_are_read(tmp_path):
    """A text ends at the end of a turn, too."""

    def edit(writer):
        writer.add_eot_token_id(7)
        writer.add_chat_template("{{ messages[0].content }}!")

    write_gguf(tmp_path / "model.gguf", random_models()[0], tokenizer=byte_level(tiny_tokenizer()), edit=edit)
    tokenizer = load_models(tmp_path / "model.gguf").tokenizer
    assert tokenizer.ends == (tiny_tokenizer().end_of_text, 7)
    assert chat_prompt(tokenizer, "The cat") == tokenizer.encode("The cat!")


SAID = [  # a field, what is said of it, as what, and what the line names
    ("general.architecture", "gemma3", "string", "gemma3"),
    ("llama.rope.scaling.type", "yarn", "string", "rope.scaling.type 'yarn'"),
    ("llama.attention.sliding_window", 4096, "uint32", "sliding_window 4096"),
    ("llama.expert_count", 8, "uint32", "expert_count 8"),
    ("llama.rope.dimension_count", 8, "uint32", "dimension_count 8"),
    ("llama.block_count", 3, "uint32", "9 weights are missing"),
    ("llama.block_count", 10**6, "uint32", "num_hidden_layers 1000000"),
    ("llama.block_count", "two", "string", "num_hidden_layers 'two'"),
    ("llama.feed_forward_length", 25, "uint32", r"should be \[25, 16\]"),
    ("tokenizer.ggml.model", "t5", "string", "'t5'"),
    ("tokenizer.ggml.pre", "tekken", "string", "'tekken'"),
    ("tokenizer.ggml.eos_token_id", 300, "uint32", "eos_token_id 300"),
    ("tokenizer.ggml.merges", ["a b c"], "array", "tokenizer"),
    ("tokenizer.ggml.tokens", ["a", "b"], "array", "300 for 2 tokens"),
    ("tokenizer.ggml.tokens", ["a"] * 300, "array", "tokens are equal"),
    ("tokenizer.ggml.tokens", [1.5] * 300, "array", "of str each"),
]


@pytest.mark.parametrize(("key", "value", "how", "says"), SAID, ids=range(len(SAID)))
def test_what_is_not_ours_is_refused(key, value, how, says, tmp_path):
    """Another architecture, another kind of positions, experts, other tokenizers, what does not fit."""

    def edit(writer):
        writer.kv_data[0].pop(key, None)
        getattr(writer, f"add_{how}")(key, value)

    path = tmp_path / "model.gguf"
    write_gguf(path, random_models()[0], tokenizer=byte_level(tiny_tokenizer()), edit=edit)
    with refused(says, path):
        load_models(path)


def test_tensors_too_many_or_too_few_are_refused(tmp_path):
    path = tmp_path / "model.gguf"
    for edit, says in (
        (lambda writer: writer.add_tensor("more", np.zeros(4, np.float32)), "unknown, such as more"),
        (lambda writer: writer.tensors[0].pop("output_norm.weight"), "missing, such as norm.weight"),
    ):
        write_gguf(path, random_models()[0], edit=edit)
        with refused(says, path):
            load_model(path)


def test_numbers_that_nobody_reads_are_refused(tmp_path):
    """Weights that are 8-bit integers without a scale."""

    def edit(writer):
        shape = writer.tensors[0].pop("output.weight").shape
        writer.add_tensor("output.weight", np.zeros(shape, np.int8))

    write_gguf(tmp_path / "model.gguf", random_models()[0], edit=edit)
    with refused("has output.weight as I8, which the library gguf cannot read", tmp_path):
        load_model(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("place", "code", "value", "says"),
    [
        (0, "I", 0, r"it begins with b'\\x00\\x00\\x00\\x00', not with b'GGUF'"),
        (4, "I", 1, "it has version 1; minispec reads 2 and 3"),
        (8, "Q", 2**60, "it claims 1,152,921,504,606,846,976 of something; 65,536 at most are read"),
        (8, "Q", 10**4, "it ends within its header|there is no such type|not lie|cannot be read"),
        (16, "Q", 2**63, "it claims 9,223,372,036,854,775,808 of something"),
        (24, "Q", 2**63, "it ends within its header"),
    ],
)
def test_a_header_that_claims_too_much_is_refused(place, code, value, says, tmp_path):
    """Before anything of that size is taken or waited for."""
    path = tmp_path / "model.gguf"
    write_gguf(path, random_models()[0])
    data = bytearray(path.read_bytes())
    struct.pack_into(f"<{code}", data, place, value)
    path.write_bytes(data)
    with refused(says, path):
        load_model(path)


def test_tensors_that_overlap_are_refused(tmp_path):
    """Each lies where the one before it ends: so all together are no larger than the file."""
    path = tmp_path / "model.gguf"
    write_gguf(path, random_models()[0])
    data = bytearray(path.read_bytes())
    name = b"output_norm.weight"
    struct.pack_into("<Q", data, data.index(name) + len(name) + 4 + 8 + 4, 0)  # after dimensions and type
    path.write_bytes(data)
    with refused("'output_norm.weight' does not lie where a tensor of its size has to", path):
        load_model(path)


@pytest.mark.parametrize("end", [0, 3, 30, 700, -1])
def test_a_file_that_was_cut_is_refused(end, tmp_path):
    """Within the header, or within the last tensor."""
    path = tmp_path / "model.gguf"
    write_gguf(path, random_models()[0])
    path.write_bytes(path.read_bytes()[:end])
    with refused("cannot be read as GGUF: ", path):
        load_model(path)
