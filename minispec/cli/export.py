"""`minispec export`: a pair as folders that transformers and engines read."""

from pathlib import Path

from minispec.cli import options
from minispec.io.checkpoint import load_pair
from minispec.io.export import export_pair
from minispec.io.files import printable_line


def export(
    pair: str,
    folder: Path,
    as_json: bool = False,
) -> None:
    """Write a pair as folders that transformers and vLLM read, with a model card."""
    report = export_pair(load_pair(pair, dtype=None), folder)
    if as_json:
        options.print_json(report)
        return
    lines = [
        f"{report['pair']} is in {report['folder']}: target, draft, and a model card, README.md",
        *(
            f"heads of the {name} had size {size['trained']}, and have {size['written']} by zeros, for vLLM"
            for name, size in report["head_dim"].items()
            if size["written"] != size["trained"]
        ),
        "for vLLM, by the documentation of its version 0.25, not run here:",
        report["vllm"],
    ]
    console = options.console()
    for line in lines:
        console.out(printable_line(line))
