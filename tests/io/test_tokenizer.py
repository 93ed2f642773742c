"""The tokenizer: any text comes back, and the words of the stories are whole; those of other checkpoints."""

import json
import re

import pytest
from checkpoints import VOCABULARY, chatml, llama_3, sentencepiece, tokenizer_of, write_tokenizer
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused
from tokenizers import decoders

from minispec.io.stream import TextStream
from minispec.io.tokenizer import END_OF_TEXT, Tokenizer, first_difference, load_tokenizer, train_tokenizer
from minispec.io.tokenizer_config import TokenizerConfig
from minispec.train.stories import draw_stories

STORIES = [story.text for story in draw_stories(4000, seed=7)]
TOKENIZERS = {"bpe": train_tokenizer(STORIES), "characters": train_tokenizer([], "characters")}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=st.text())
@example(text=END_OF_TEXT)
@example(text=f"a{END_OF_TEXT}b {END_OF_TEXT} ")
@example(text="  double  spaces\r\n\ttab\0 nul")
@example(text="e\u0301 \u00e9 👩‍👩‍👧 \ufffd \ufeff \U0010ffff")
def test_any_text_comes_back(kind, text):
    """Encoding and decoding any text gives that text, and never the end-of-text token."""
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.end_of_text not in ids
    assert all(0 <= i < tokenizer.vocab_size for i in ids)


@given(text=st.text())
def test_a_character_tokenizer_has_one_id_per_byte(text):
    """`characters` merges nothing: as many ids as the text has bytes in UTF-8."""
    assert len(TOKENIZERS["characters"].encode(text)) == len(text.encode())


def test_a_story_is_its_words():
    """In a story the tokens are exactly its words and full stops, so that pictures show words."""
    tokenizer = TOKENIZERS["bpe"]
    for text in STORIES[:400]:
        assert [tokenizer.piece(i) for i in tokenizer.encode(text)] == re.findall(r" ?\w+|[^\w ]", text)
    assert tokenizer.vocab_size <= 512


def test_end_of_text_is_no_text(tokenizer):
    """The end-of-text id decodes to nothing, and pictures show a sign for it."""
    ids = tokenizer.encode("cat")
    assert tokenizer.decode([*ids, tokenizer.end_of_text]) == "cat"
    assert tokenizer.piece(tokenizer.end_of_text) == "⏹"
    assert 0 <= tokenizer.end_of_text < tokenizer.vocab_size


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path):
    """A tokenizer read from its file encodes alike, and still takes typed end-of-text for text."""
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    text = f"The cat sat, naïvely. {END_OF_TEXT}"
    assert again.encode(text) == tokenizer.encode(text) and again.end_of_text not in again.encode(text)
    assert (again.vocab_size, again.end_of_text) == (tokenizer.vocab_size, tokenizer.end_of_text)


def test_unusable_settings_are_refused():
    """An unknown kind, and a vocabulary too small for all bytes and end-of-text."""
    with refused("'words' is unknown; choose bpe or characters"):
        train_tokenizer(["a"], "words")
    with refused("at least 257, not 256"):
        train_tokenizer(["a"], "bpe", 256)
    assert train_tokenizer(["a"], "bpe", 257).vocab_size == 257


# Tokenizers of other checkpoints.

MADE = {
    "chatml": chatml,
    "llama 3": llama_3,
    "llama 2": sentencepiece,
    "mistral": lambda: sentencepiece(False),
}
OTHERS = {name: Tokenizer(make()) for name, make in MADE.items()}
KINDS = pytest.mark.parametrize("kind", OTHERS)


def streamed(tokenizer, ids):
    """Returns the text of ids that come one by one."""
    text = TextStream(tokenizer)
    return "".join(map(text.push, ids)) + text.flush()


@KINDS
@given(text=st.text())
@example(text="<s>a</s><unk><|im_start|><|begin_of_text|><|endoftext|>")
@example(text="<0x41>a<0x0A>")
@example(text="two  spaces\n\n\tand é 猫 😀")
def test_any_text_comes_back_from_other_tokenizers(kind, text):
    """What a person types is text, special tokens too; whole and token by token it comes back."""
    text = text.replace("▁", "_")  # the one character that sentencepiece takes for another
    if kind == "mistral":
        text = text.lstrip(" ")  # its tokenizer writes no second space before a text
    tokenizer = OTHERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text == streamed(tokenizer, ids)
    assert tokenizer.library.decode(ids) == text
    assert [token for token in ids if token in tokenizer.special] == list(tokenizer.begin)


@KINDS
@given(dice=st.randoms(use_true_random=False))
def test_pieces_of_any_ids_join_to_their_text(kind, dice):
    """Bytes that are no UTF-8, special tokens, ids beyond the vocabulary: nothing fails, nothing is lost."""
    tokenizer = OTHERS[kind]
    ids = [dice.randrange(tokenizer.vocab_size + 9) for _ in range(dice.randrange(12))]
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)
    known = [token for token in ids if token < tokenizer.vocab_size]
    assert tokenizer.decode(ids) == tokenizer.decode(known)
    if "\ufffd" not in tokenizer.decode(known):
        continued = tokenizer.decode([*tokenizer.encode("a"), *known])
        assert continued == tokenizer.library.decode([*tokenizer.encode("a"), *known])


@KINDS
def test_text_that_continues_a_prompt_keeps_its_space(kind):
    """A space before the first token is the text's, unless BOS stands before it."""
    tokenizer = OTHERS[kind]
    whole = tokenizer.encode("The cat sat")
    prompt = tokenizer.encode("The cat")
    assert whole[: len(prompt)] == prompt
    assert tokenizer.decode(whole[len(prompt) :]) == streamed(tokenizer, whole[len(prompt) :]) == " sat"


def test_without_bos_a_text_begins_at_its_first_token():
    """As the library decodes it."""
    tokenizer = Tokenizer(sentencepiece(), TokenizerConfig(add_bos=False))
    ids = tokenizer.encode("The cat")
    assert tokenizer.begin == () and tokenizer.decode(ids) == streamed(tokenizer, ids) == "The cat"


def test_special_tokens_are_read_where_a_template_wrote_them():
    """And as text afterwards, as before; an added token that is not special is a token in both."""
    tokenizer = OTHERS["chatml"]
    text = "<|im_start|>user\nhi<think><|im_end|>"
    ids = tokenizer.encode_rendered(text)
    think = tokenizer.library.token_to_id("<think>")
    assert (ids[0], ids[-1]) == (1, 2) and think in ids
    typed = tokenizer.encode(text)
    assert not {1, 2} & {*typed} and think in typed and tokenizer.decode(typed) == text
    assert tokenizer.decode(ids) == "user\nhi<think>" and tokenizer.piece(1) == "<|im_start|>"


def test_what_stands_before_a_prompt():
    """The post-processor's tokens before the text, not those after it, or what the checkpoint says."""
    library = llama_3()
    assert OTHERS["llama 3"].encode("a")[0] == 0 and OTHERS["chatml"].begin == ()
    assert OTHERS["llama 3"].encode_batch(["a", ""]) == [OTHERS["llama 3"].encode(text) for text in ("a", "")]
    assert OTHERS["llama 3"].encode_rendered("a") == OTHERS["llama 3"].encode("a")[1:]
    names = {"bos_token": "<|end_of_text|>"}
    assert Tokenizer(llama_3(), TokenizerConfig(add_bos=False)).begin == ()
    assert Tokenizer(llama_3(), TokenizerConfig(names, add_bos=True)).begin == (1,)
    assert Tokenizer(llama_3(), TokenizerConfig(names)).begin == (0,)
    ends = json.loads(library.to_str())
    ends["post_processor"]["single"].append({"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}})
    both = Tokenizer(type(library).from_str(json.dumps(ends)))
    assert both.library.encode("a").ids[-1] == 0 and both.encode("a") == OTHERS["llama 3"].encode("a")


ENDS = {
    "generation's list": (
        {"generation_config": {"eos_token_id": [2, 0]}, "config": {"eos_token_id": 1}},
        (2, 0),
    ),
    "generation's one": ({"generation_config": {"eos_token_id": 2}}, (2,)),
    "the model's": ({"generation_config": {}, "config": {"eos_token_id": 1}}, (1,)),
    "the tokenizer's": ({"tokenizer_config": {"eos_token": "<|im_end|>"}}, (2,)),
    "the tokenizer's, as an object": ({"tokenizer_config": {"eos_token": {"content": "<|im_end|>"}}}, (2,)),
    "nobody's": ({"tokenizer_config": {"eos_token": None}}, (0,)),
}


@pytest.mark.parametrize(("files", "ends"), ENDS.values(), ids=ENDS)
def test_what_ends_a_text(files, ends, tmp_path):
    """The first file that says so; ends decode to nothing, and pictures show a sign for each."""
    tokenizer = tokenizer_of(tmp_path, chatml(), **files)
    assert (tokenizer.ends, tokenizer.end_of_text) == (ends, ends[0])
    assert tokenizer.decode(ends) == "" and {*map(tokenizer.piece, ends)} == {"⏹"}


def test_a_text_may_have_no_end():
    """Decoding then goes on to the cap; training needs one."""
    tokenizer = OTHERS["llama 2"]
    assert tokenizer.ends == ()
    with refused("no token that ends a text"):
        tokenizer.end_of_text  # noqa: B018


def test_a_prompt_is_neither_cut_nor_filled_up():
    """Whatever its file says: such settings are for training."""
    library = chatml()
    library.enable_truncation(3)
    library.enable_padding(length=50)
    text = "The cat sat on the mat and looked at it."
    assert Tokenizer(library).encode(text) == OTHERS["chatml"].encode(text)


def test_another_decoder_is_refused(tmp_path):
    """One of words, or none: what a token stands for would be a guess."""
    for decoder in (decoders.WordPiece(), decoders.CTC()):
        library = chatml()
        library.decoder = decoder
        write_tokenizer(tmp_path, library)
        with refused("byte-level or sentencepiece", tmp_path):
            load_tokenizer(tmp_path)
    data = json.loads(chatml().to_str()) | {"decoder": None}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    with refused("byte-level or sentencepiece", tmp_path):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "decoder"])
def test_a_tokenizer_that_fills_the_memory_is_refused(part, tmp_path):
    """One that doubles a text forty times."""
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    if part != "pre_tokenizer":
        step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    key = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}[part]
    data = json.loads(chatml().to_str()) | {part: {"type": "Sequence", key: [step] * 40}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    with refused("more than 64 times longer", tmp_path):
        load_tokenizer(tmp_path)


def test_the_first_difference_of_two_tokenizers():
    """The first id that is another token; ids after the other's last are none."""
    one = OTHERS["chatml"]
    longer = chatml()
    longer.add_special_tokens(["<|more|>"])
    assert first_difference(one, one) is None
    assert first_difference(one, Tokenizer(longer)) is None is first_difference(Tokenizer(longer), one)
    changed = chatml().to_str().replace('"<|im_end|>"', '"<|im_stop|>"')
    difference = first_difference(one, Tokenizer(longer.from_str(changed)))
    assert difference == "id 2 is '<|im_end|>' to the target and '<|im_stop|>' to the draft"
    gap = json.loads(chatml().to_str())
    last = max(gap["model"]["vocab"], key=gap["model"]["vocab"].get)
    gap["model"]["vocab"][last] += 1000
    difference = first_difference(one, Tokenizer(longer.from_str(json.dumps(gap))))
    assert difference == f"id {VOCABULARY - 1} is {last!r} to the target and no token to the draft"
