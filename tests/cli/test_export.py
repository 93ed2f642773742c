"""`minispec export`: a pair for transformers and engines, and the line that starts one of them."""

import json
import os
import shlex
from pathlib import Path

import pytest
from pairs import build_pair, tiny_config

from minispec.core.model import GPT


def test_the_line_for_vllm_names_what_was_written(document, command, pair, tmp_path):
    """In the document and where people read; a folder with blanks and quotes is one argument."""
    folder = tmp_path / "to here" / "it's"
    report, err = document("export", pair, folder)
    program, verb, target, option, settings = shlex.split(report["vllm"])
    assert (program, verb, option) == ("vllm", "serve", "--speculative-config")
    draft = json.loads(settings)
    assert draft == {"model": draft["model"], "num_speculative_tokens": 4, "method": "draft_model"}
    assert [Path(target), Path(draft["model"])] == [folder / "target", folder / "draft"]
    assert all(Path(path, "model.safetensors").is_file() for path in (target, draft["model"]))
    assert report["vllm_was_run"] is False and report["folder"] == str(folder) and err == ""
    printed, _ = command("export", pair, tmp_path / "again")
    assert printed.splitlines()[-1].startswith("vllm serve ") and "not run" in printed
    assert "had size 4, and have 32 by zeros" in printed


def test_zeros_are_told_of_only_where_there_are_some(command, tmp_path):
    """Heads of 32 numbers are written as they are."""
    model = GPT(tiny_config(1, head_size=32))
    folder = build_pair(tmp_path / "pair", model, model)
    assert "by zeros" not in command("export", folder, tmp_path / "out")[0]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind everybody")
def test_a_folder_that_cannot_be_written(refused, pair, tmp_path):
    """One line."""
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refused("export", pair, tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)
