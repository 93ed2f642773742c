"""Text as it comes: no half characters, nothing lost, and an end at a stop text."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minispec import stream, train_tokenizer
from minispec.io.stream import TextStream, before_stop, until

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


@pytest.mark.parametrize(
    ("text", "stops", "shown"),
    [
        ("hello world!", ["!", " w", "zzz"], "hello"),
        ("hi!", ["!", " w"], "hi"),
        ("nothing", ["zzz"], None),
        ("nothing", [], None),
        ("aab", ["ab"], "a"),
        ("abcd", ["b", "abcd"], "a"),  # the first to be complete, however the text comes
        ("abcd", ["bc", "abc"], ""),  # of two that end together, the longer
        ("wait", ["waiting"], None),
        ("wörld 😀", ["😀"], "wörld "),
    ],
)
def test_a_text_ends_before_the_first_stop(text, stops, shown):
    """Tokens, text and stream agree, in rounds of any size."""
    tokens = CHARACTERS.encode(text)
    kept = text if shown is None else shown
    assert before_stop(tokens, CHARACTERS, stops) == (CHARACTERS.encode(kept), kept, shown is not None)
    for sizes in ([], [1] * (len(tokens) - 1), [2]):
        assert "".join(stream(in_rounds(tokens, sizes), CHARACTERS, 1, stops)) == kept


def reference(tokens, tokenizer, stops):
    """Returns tokens and text before the first stop, by the bytes of the text and of each token."""
    text = tokenizer.decode(tokens)
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            text = text[: min(starts)]
            break
    size = len(text.encode())
    kept = [n for n in range(len(tokens) + 1) if len(b"".join(map(tokenizer.bytes_of, tokens[:n]))) <= size]
    return tokens[: max(kept)], text


LETTERS = st.text("abé😀", max_size=12)
STOPS = st.lists(st.text("abé😀", min_size=1, max_size=4), max_size=3)
SPELLING = train_tokenizer(["ab aé 😀b éa abab " * 9], "bpe", 275)


@given(
    LETTERS,
    st.lists(st.text("abé😀", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 3), max_size=5),
)
def test_any_stop_texts_end_any_text(text, stops, sizes):
    """Inside a token, across tokens, several at once: by another way to find them, and in rounds of any size.

    And the stream shows nothing that it would have to take back.
    """
    for tokenizer in (CHARACTERS, SPELLING):
        tokens = tokenizer.encode(text)
        kept, shown = reference(tokens, tokenizer, stops)
        assert before_stop(tokens, tokenizer, stops)[:2] == (kept, shown)
        rounds = in_rounds(tokens, sizes if sum(sizes) <= len(tokens) else [])
        assert "".join(stream(until(rounds, tokenizer, stops, 1), tokenizer, 1, stops)) == shown


def test_an_empty_stop_text_is_refused():
    for end in (until, stream):
        with pytest.raises(ValueError, match="stop text"):
            list(end([], CHARACTERS, stops=["a", ""]))
    with pytest.raises(ValueError, match="stop text"):
        before_stop([], CHARACTERS, [""])


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


def test_a_stream_holds_back_what_may_become_a_stop_text():
    """As much as that and no more: it comes once the text goes on otherwise, or ends."""
    tokens = CHARACTERS.encode("so sto stop")
    assert list(stream(in_rounds(tokens, []), CHARACTERS, 1, ["stop"])) == ["so", " ", "sto "]
    assert list(stream(in_rounds(tokens[:6], []), CHARACTERS, 1, ["stop"])) == ["so", " ", "sto"]
