"""Text as it comes: no half characters, nothing lost, and an end at a stop text."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minispec import stream, train_tokenizer
from minispec.io.stream import TextStream, cut, until

REPLACEMENT = "\ufffd"

TEXT = "héllo wörld 😀 naïve 日本語!"
CHARACTERS = train_tokenizer([TEXT], "characters")
BPE = train_tokenizer([TEXT, "the cat sat on the mat 😀😀 " * 9], "bpe", 300)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [CHARACTERS, BPE], ids=["characters", "bpe"])


def pieces(tokenizer, tokens):
    """Returns what each token brought, and what was left at the end."""
    text = TextStream(tokenizer)
    return [text.push(token) for token in tokens], text.flush()


def in_rounds(tokens, sizes):
    """Returns rounds, as far as a stream reads them: so many tokens each, the rest in the last."""
    rounds = []
    start = 0
    for size in [*sizes, len(tokens) - sum(sizes)]:
        rounds.append(SimpleNamespace(prompt_ids=(0, 1), emitted=((), tuple(tokens[start : start + size]))))
        start += size
    return rounds


BYTE_IDS = {CHARACTERS.bytes_of(token): token for token in range(CHARACTERS.vocab_size)}


def test_a_character_comes_with_its_last_byte():
    """Of four byte tokens the first three bring nothing, the fourth the whole character."""
    assert pieces(CHARACTERS, CHARACTERS.encode("a😀é")) == (["a", "", "", "", "😀", "", "é"], "")


@given(st.text(max_size=20))
@example("\ufffd😀")
def test_the_pieces_of_any_text_join_to_it(text):
    """Whatever a person may type comes out as it went in, replacement characters included."""
    for tokenizer in (CHARACTERS, BPE):
        got, rest = pieces(tokenizer, tokenizer.encode(text))
        assert "".join(got) + rest == text


@given(
    st.lists(st.sampled_from([0xFF, 0xC3, 0xA9, 0xE6, 0x97, 0xA5, 0xF0, 0x9F, 0x98, 0x80, 0x61]), max_size=12)
)
@example([0xFF, 0xF0, 0x9F, 0x98, 0x80])
@example([0xF0, 0x9F, 0xF0, 0x9F, 0x98, 0x80])
@example([0xEF, 0xBF, 0xBD, 0xF0, 0x9F, 0x98, 0x80])
def test_the_pieces_of_any_bytes_join_to_their_decoding(data):
    """A model may say bytes that are no UTF-8; the pieces are still those of the whole text."""
    tokens = [BYTE_IDS[bytes([byte])] for byte in data]
    got, rest = pieces(CHARACTERS, tokens)
    assert "".join(got) + rest == CHARACTERS.decode(tokens) == bytes(data).decode("utf-8", "replace")


@TOKENIZERS
def test_rounds_stream_as_text(tokenizer):
    """Rounds that end inside characters give pieces that are whole, none empty; end-of-text brings none."""
    tokens = [*tokenizer.encode("🦊" + TEXT), tokenizer.end_of_text]
    got = list(stream(in_rounds(tokens, [3, 1, 2, 0, 4, 1]), tokenizer, 1))
    assert "".join(got) == "🦊" + TEXT
    assert "" not in got
    assert not any(REPLACEMENT in piece for piece in got)


# Stop texts.


def test_a_text_is_cut_before_the_first_stop():
    """Of several stops the one that comes first in the text counts; no stops cut nothing."""
    stops = ["!", " w", "zzz"]
    assert cut("hello world!", stops) == "hello"
    assert cut("hi!", stops) == "hi"
    assert cut("nothing", stops) == cut("nothing", []) == "nothing"


def test_rounds_end_with_the_one_that_holds_the_stop():
    """It counts what the text says, whatever tokens spell it; rounds after that are not asked for."""
    rounds = in_rounds(CHARACTERS.encode("hello world"), [3, 2, 1, 3, 2])
    source = iter(rounds)
    assert list(until(source, CHARACTERS, ["lo w"], 1)) == rounds[:4]
    assert list(source) == rounds[4:]
    for stops in (["lox"], []):
        assert list(until(rounds, CHARACTERS, stops, 1)) == rounds


def test_a_stream_that_breaks_off_ends_with_what_there_is():
    """Half a character at the very end is shown as such, not swallowed."""
    tokens = CHARACTERS.encode("aé")[:2]
    assert list(stream(in_rounds(tokens, [1]), CHARACTERS, 1)) == ["a", REPLACEMENT]
