"""Models on a hub, through the library `huggingface_hub`: its cache, its progress bars, its settings.

It is asked for the files that are read here, and for no other: JSON, chat templates and safetensors.
"""

from pathlib import Path

from minispec.io.files import read_table, shorten

HUB = read_table(__file__, "hub.toml")
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
        return Path(snapshot_download(model, revision=revision, allow_patterns=HUB["files"]))
    except Exception as error:  # of several libraries
        message = shorten(" ".join(str(error).split()), max_length=300)
        reason = OFFLINE if constants.HF_HUB_OFFLINE else HUB["reasons"].get(type(error).__name__, message)
        name = model if revision is None else f"{model}@{revision}"
        raise ValueError(f"{name} cannot be had: {reason}") from error
