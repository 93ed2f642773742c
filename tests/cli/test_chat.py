"""`minispec generate` with models from elsewhere: a chat, several ends, vocabularies that are filled up."""

import json

import pytest
from checkpoints import CHATML, VOCABULARY, chatml, trained, write_tokenizer
from pairs import random_models

from minispec.io.checkpoint import save_model
from minispec.io.tokenizer import load_tokenizer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>"
)
SETTINGS = "--verifier greedy --max-new-tokens 24"


def checkpoint(folder, model, library=None, template=TEMPLATE, **files):
    """Writes a model with its tokenizer beside it."""
    write_tokenizer(folder, library or chatml(), template, **files)
    save_model(model, folder)
    return folder


@pytest.fixture
def models(tmp_path):
    """The folders of a target with 27 ids that no token has, and of a draft with 59."""
    padded = [random_models(vocab_size=VOCABULARY + more)[i] for i, more in enumerate((28, 60))]
    folders = [
        checkpoint(tmp_path / name, model) for name, model in zip(("big", "small"), padded, strict=True)
    ]
    return "--target", folders[0], "--draft", folders[1]


def test_a_chat_is_the_template_and_an_answer(document, command, models):
    """The prompt is what the template writes; people see the answer alone."""
    line = f"generate {SETTINGS} --prompt 'Hi <|im_end|>'"
    tokenizer = load_tokenizer(models[1])
    plain, chat, system = (
        document(f"{line} {more}", *models)[0]["prompt_tokens"]
        for more in ("", "--chat", "--chat --system No")
    )
    assert plain == tokenizer.encode("Hi <|im_end|>")
    ids = [*tokenizer.encode_rendered("<|im_start|>user\n"), *plain]
    assert chat == [*ids, *tokenizer.encode_rendered("<|im_end|>\n<|im_start|>")]
    assert system == [*tokenizer.encode_rendered("<|im_start|>system\nNo<|im_end|>\n"), *chat]
    out, _ = command(f"{line} --chat", *models)
    assert out == document(f"{line} --chat", *models)[0]["text"] + "\n"


def test_requests_are_messages_of_chats(command, models, tmp_path):
    """Each by itself."""
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "Hi"}\n{"prompt": "Ho"}\n', encoding="utf-8")
    out, _ = command(f"generate {SETTINGS} --chat --requests", path, *models)
    texts = {line["prompt_id"]: line["tokens"] for line in map(json.loads, out.splitlines())}
    alone, _ = command(f"generate {SETTINGS} --chat --json --prompt Ho", *models)
    assert texts[1] == json.loads(alone)["tokens"]


def test_every_end_of_the_checkpoint_ends_a_text(document, models):
    """Each of those that `generation_config.json` names, and none with --ignore-eos."""
    line = f"generate {SETTINGS} --dtype float64 --prompt 'The cat'"
    tokens = document(line, *models)[0]["tokens"]
    last = next(i for i, token in enumerate(tokens) if i > 2 and token not in tokens[:i])
    config = models[1] / "generation_config.json"
    config.write_text(json.dumps({"eos_token_id": [2, tokens[last]]}), encoding="utf-8")
    ended = document(line, *models)[0]
    assert (ended["tokens"], ended["finish"]) == (tokens[: last + 1], "eos")
    assert document(f"{line} --ignore-eos", *models)[0]["tokens"] == tokens


@pytest.mark.parametrize("more", [-1, 0, 60])
def test_ids_that_only_one_model_has_are_no_difference(document, models, tmp_path, more):
    """Ids that no token has, or tokens after the draft's last: greedy text is the target's own."""
    line = f"generate {SETTINGS} --dtype float64 --prompt 'The cat'"
    library = chatml() if more >= 0 else chatml().from_str(trained(CHATML))
    draft = random_models(vocab_size=VOCABULARY + 1 + more, tied=more > 0)[1]
    folder = checkpoint(tmp_path / "draft", draft, library)
    drafted, _ = document(line, *models[:3], folder)
    assert drafted["tokens"] == document(f"{line} --target-only", *models)[0]["tokens"]
    assert len(drafted["rounds"][0]["drafted"]) == 4


def test_what_does_not_go_together_is_one_line(refused, models, tmp_path):
    """A token that differs, too few ids for the tokenizer, no template, a system message without a chat."""
    line = "generate --prompt Hi"
    target, small = random_models(vocab_size=VOCABULARY)
    other = chatml().from_str(chatml().to_str().replace('"<|im_end|>"', '"<|im_stop|>"'))
    folder = checkpoint(tmp_path / "other", target, other)
    said = refused(line, "--target", folder, *models[2:])
    assert "id 2 is '<|im_stop|>' to the target and '<|im_end|>' to the draft" in said
    folder = checkpoint(tmp_path / "short", small)
    assert f"{VOCABULARY} tokens, the target {VOCABULARY + 28}" in refused(line, *models[:3], folder)
    folder = checkpoint(tmp_path / "none", random_models(vocab_size=VOCABULARY + 1)[0], template=None)
    assert "no chat template" in refused(f"{line} --chat", "--target", folder, *models[2:])
    assert "give --chat" in refused(f"{line} --system Hi", *models)
