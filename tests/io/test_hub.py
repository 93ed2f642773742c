"""Models on a hub, here on the loopback: what is downloaded, what is kept, and what a line says."""

import os
import subprocess
import sys

import pytest
import torch
from loopback_hub import COMMIT, MODEL, Hub, forget_library, serving, settings_of
from pairs import files_below, random_models, tiny_tokenizer
from refusals import refused

from minispec.io.checkpoint import save_model, weights_hash
from minispec.io.source import find_source, load_model, load_models

READ = {"config.json", "model.safetensors", "tokenizer.json"}
UNREAD = ("pytorch_model.bin", "consolidated.safetensors", "README.md", "modeling.py")
ONLY_DOWNLOAD = f"from minispec.io.hub import download; print(download({MODEL!r}, None))"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with a model, and files beside it that nobody needs; nothing is in the cache."""
    folder = tmp_path / "hub"
    folder.mkdir()
    save_model(random_models()[0], folder, torch.float32)
    tiny_tokenizer().save(folder / "tokenizer.json")
    for name in UNREAD:
        (folder / name).write_bytes(b"no")
    hub = Hub(folder)
    with serving(hub) as address:
        hub.settings = settings_of(address, tmp_path / "home")
        for name, value in hub.settings.items():
            monkeypatch.setenv(name, value)
        forget_library(monkeypatch)
        yield hub


def test_a_model_is_downloaded_once(hub):
    """Only the files that are read; the second time they are in the cache; its name has the commit."""
    source = find_source(MODEL)
    assert source.name == f"{MODEL}@{COMMIT}" and {path.name for path in source.path.iterdir()} == READ
    assert weights_hash(load_model(MODEL)) == weights_hash(load_model(hub.folder))
    hub.asked.clear()
    pair = load_models(source.name, MODEL)
    assert pair.name == f"llama@{COMMIT} + llama@{COMMIT}" and pair.info["sources"] == [source.name] * 2
    assert not any("/resolve/" in path for path in hub.asked)


def test_a_revision_is_asked_for(hub):
    """A tag, a commit; one that is not there is a line."""
    for revision in ("v1", COMMIT):
        assert find_source(f"{MODEL}@{revision}").name == f"{MODEL}@{COMMIT}"
    with refused("tiny/llama@v2 cannot be had: it has no such revision"):
        find_source(f"{MODEL}@v2")


def test_offline_the_cache_is_read(hub, monkeypatch):
    """What is in it can be had; what is not is a line that says why."""
    commit = find_source(MODEL).path.name
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    forget_library(monkeypatch)
    hub.asked.clear()
    assert find_source(MODEL).path.name == commit and load_model(f"{MODEL}@{commit}").vocab_size == 300
    with refused("tiny/other cannot be had: HF_HUB_OFFLINE is set, and not all of it is in the cache"):
        find_source("tiny/other")
    assert hub.asked == []


def test_what_lies_here_comes_first(hub, tmp_path, monkeypatch):
    """A folder of the same name is the folder, and nobody asks the hub."""
    monkeypatch.chdir(tmp_path)
    save_model(random_models()[1], tmp_path / MODEL)
    assert find_source(MODEL).path == (tmp_path / MODEL).relative_to(tmp_path) and hub.asked == []


@pytest.mark.parametrize(
    ("name", "refuses", "says"),
    [
        ("tiny/none", None, "no such folder here, and on the hub no such model, or it is private"),
        (MODEL, (401, "GatedRepo"), "it is gated: accept its terms"),
        (MODEL, (403, "GatedRepo"), "it is gated: accept its terms"),
        (MODEL, (401, "RepoNotFound"), "or it is private"),
        (MODEL, (500, "Broken"), "the hub cannot be reached, and not all of it is in the cache"),
    ],
)
def test_what_cannot_be_had_is_one_line(hub, name, refuses, says):
    """A model that is not there, or may not be seen; a hub that is out of order."""
    hub.refuses = refuses
    with refused(f"{name} cannot be had: .*{says}"):
        find_source(name)


def test_a_hub_that_is_not_there_is_one_line(hub, monkeypatch):
    """No server listens."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    forget_library(monkeypatch)
    with refused("the hub cannot be reached"):
        find_source(MODEL)


def test_a_full_disk_is_one_line(hub, monkeypatch):
    """The system's words; with space again, the model is whole."""
    import huggingface_hub.file_download

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(huggingface_hub.file_download, "http_get", full)
        with refused("tiny/llama cannot be had: .*No space left on device"):
            find_source(MODEL)
    assert load_model(MODEL).vocab_size == 300


def test_a_download_that_breaks_off_is_one_line_and_goes_on_later(hub, monkeypatch):
    """The server closes in the middle of the weights, and is then out of order; later all is well."""
    import huggingface_hub.file_download

    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda _: None)
    hub.breaks_off_after = 20_000
    hub.on_break = lambda: setattr(hub, "refuses", (500, "Broken"))
    with refused("tiny/llama cannot be had: "):
        find_source(MODEL)
    hub.refuses = hub.breaks_off_after = None
    assert weights_hash(load_model(MODEL)) == weights_hash(load_model(hub.folder))


@pytest.mark.evidence
@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_download_that_is_killed_damages_nothing(hub):
    """SIGKILL in the middle of the weights, after more of them each time; then the model is whole."""
    size = (hub.folder / "model.safetensors").stat().st_size
    for share in (0.3, 0.6, 0.9):
        child = subprocess.Popen(
            [sys.executable, "-c", ONLY_DOWNLOAD], env=os.environ | hub.settings, stderr=subprocess.DEVNULL
        )
        hub.breaks_off_after = int(size * share)
        hub.on_break = child.kill
        assert child.wait(60) == -9
    hub.breaks_off_after = None
    source = find_source(MODEL)
    original = files_below(hub.folder)
    assert files_below(source.path) == {name: original[name] for name in READ}


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "a/b@", "/nothing/here", "a/..", "../x"])
def test_what_is_no_name_is_refused(name, hub, tmp_path, monkeypatch):
    """Neither here, nor a name that a hub could have; nobody is asked."""
    monkeypatch.chdir(tmp_path)
    with refused("there is no folder or file .*, and on a hub names have the form owner/name"):
        find_source(name)
    assert hub.asked == []
