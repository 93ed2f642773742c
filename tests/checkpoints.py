"""Checkpoints as they come from elsewhere, in small: their tokenizers, and the files beside them."""

import json
from functools import cache

from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Library

from minispec.io.files import write_json
from minispec.io.tokenizer import load_tokenizer
from minispec.train.stories import draw_stories

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LLAMA_3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
SENTENCEPIECE = ("<unk>", "<s>", "</s>")
VOCABULARY = 340


@cache
def trained(special):
    """Returns a byte-level tokenizer as JSON; its special tokens are the first ids."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator((story.text for story in draw_stories(60, seed=1)), trainer)
    return library.to_str()


def bos_before(library, bos):
    """Has the post-processor put BOS before a text, and nothing after it."""
    library.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, library.token_to_id(bos))]
    )


def chatml():
    """Returns a tokenizer such as SmolLM2's and Qwen's, with a token that was added and is not special."""
    library = Library.from_str(trained(CHATML))
    library.add_tokens([AddedToken("<think>", normalized=False)])
    return library


def llama_3():
    """Returns a tokenizer such as Llama 3's: byte-level, BOS before a text."""
    library = Library.from_str(trained(LLAMA_3))
    bos_before(library, LLAMA_3[0])
    return library


@cache
def merged():
    """Returns the vocabulary and merges of pieces that begin with the sign for a space."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=120, show_progress=False)
    library.train_from_iterator((story.text for story in draw_stories(60, seed=1)), trainer)
    model = json.loads(library.to_str())["model"]
    pieces = [*SENTENCEPIECE, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    return {piece: i for i, piece in enumerate(pieces)}, [tuple(pair) for pair in model["merges"]]


def sentencepiece(legacy=True):
    """Returns a tokenizer such as Llama 2's and Mistral's: bytes as tokens, a space before each text, BOS."""
    vocabulary, merges = merged()
    library = Library(
        models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    if legacy:
        library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    pieces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    library.decoder = decoders.Sequence(pieces)
    library.add_special_tokens(list(SENTENCEPIECE))
    bos_before(library, "<s>")
    return library


def write_tokenizer(folder, library, template=None, **files):
    """Writes `tokenizer.json`, and beside it what `files` says: objects by name, without `.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(library.to_str(), encoding="utf-8")
    if template is not None:
        files["tokenizer_config"] = {**files.get("tokenizer_config", {}), "chat_template": template}
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def tokenizer_of(folder, library, template=None, **files):
    """Writes a checkpoint's tokenizer and reads it."""
    return load_tokenizer(write_tokenizer(folder, library, template, **files))


def split(folder, files=3):
    """Spreads a model's weights over several files, with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = {name: f"model-{i % files + 1:05}-of-{files:05}.safetensors" for i, name in enumerate(weights)}
    for file in set(names.values()):
        save_file({name: weights[name] for name in names if names[name] == file}, folder / file)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": names})
