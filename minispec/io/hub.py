"""Models on a hub, through the library `huggingface_hub`: its cache, its progress bars, its settings.

It is asked for the files that are read here, and for no other: JSON, chat templates and safetensors.
"""

from pathlib import Path

from minispec.io.files import shorten

# Files of a model. A folder may hold its weights a second time, under other names.
FILES = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
]
# What the library's errors mean, by their names: to import them takes time that only a download has.
REASONS = {
    "GatedRepoError": "it is gated: accept its terms on its page, then log in with: hf auth login",
    "RepositoryNotFoundError": "there is no such folder here, and on the hub no such model, or it is private",
    "RevisionNotFoundError": "it has no such revision",
    "LocalEntryNotFoundError": "the hub cannot be reached, and not all of it is in the cache",
    "IncompleteSnapshotError": "the hub cannot be reached, and not all of it is in the cache",
}
OFFLINE = "HF_HUB_OFFLINE is set, and not all of it is in the cache"


def download(model: str, revision: str | None) -> Path:
    """Returns the folder of a model in the library's cache, downloaded where it is not there yet.

    Args:
        model: `owner/name`.
        revision: a branch, a tag or a commit; None: the newest.

    Returns:
        The folder. It is named by its commit.

    Raises:
        ValueError: if it cannot be had. What a download has left is used by the next.
    """
    from huggingface_hub import constants, snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except Exception as error:  # of several libraries
        message = shorten(" ".join(str(error).split()), max_length=300)
        reason = OFFLINE if constants.HF_HUB_OFFLINE else REASONS.get(type(error).__name__, message)
        name = model if revision is None else f"{model}@{revision}"
        raise ValueError(f"{name} cannot be had: {reason}") from error
