"""The tokenizer: any text comes back, and the words of the stories are whole."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused

from minispec.io.tokenizer import END_OF_TEXT, load_tokenizer, train_tokenizer
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


def test_a_batch_is_its_texts(tokenizer):
    """Texts encoded together give the ids of each alone, unpadded."""
    texts = ["The cat", "", "sat on the mat."]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_training_is_the_same_each_time():
    """The same texts give the same tokenizer; a run that is resumed depends on it."""
    first, second = (train_tokenizer(STORIES[:300], "bpe", 320).library.to_str() for _ in range(2))
    assert first == second


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path):
    """A tokenizer read from its file encodes alike, and still takes typed end-of-text for text."""
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    text = f"The cat sat, naïvely. {END_OF_TEXT}"
    assert again.encode(text) == tokenizer.encode(text) and again.end_of_text not in again.encode(text)
    assert (again.vocab_size, again.end_of_text) == (tokenizer.vocab_size, tokenizer.end_of_text)


WHOLE = TOKENIZERS["bpe"].library.to_str()
DAMAGED = {
    "none": None,
    "empty": b"",
    "not UTF-8": b"\xff\xfe\x00",
    "truncated": WHOLE[: len(WHOLE) // 2].encode(),
    "other JSON": b'{"model": 1}',
    "a list": b"[]",
    "without end-of-text": WHOLE.replace(END_OF_TEXT, "</s>").encode(),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_or_missing_file_is_refused(data, tmp_path):
    """A file that is no tokenizer with an end-of-text token is refused by its name, or its folder's."""
    path = tmp_path / "tokenizer.json"
    if data is not None:
        path.write_bytes(data)
    for where in (path, tmp_path):
        with refused("is not a tokenizer file", path):
            load_tokenizer(where)


def test_unusable_settings_are_refused():
    """An unknown kind, and a vocabulary too small for all bytes and end-of-text."""
    with refused("'words' is unknown; choose bpe or characters"):
        train_tokenizer(["a"], "words")
    with refused("at least 257, not 256"):
        train_tokenizer(["a"], "bpe", 256)
    assert train_tokenizer(["a"], "bpe", 257).vocab_size == 257


def test_half_a_character_decodes_to_the_replacement(tokenizer):
    """Ids that stop inside a character do not fail."""
    ids = TOKENIZERS["characters"].encode("é")
    assert len(ids) == 2 and TOKENIZERS["characters"].decode(ids[:1]) == "\ufffd"
    assert tokenizer.decode([]) == ""
