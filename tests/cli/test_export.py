"""`minispec export`: a pair for transformers and engines, and the line that starts one of them."""

import json
import shlex
from pathlib import Path


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
