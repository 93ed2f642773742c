"""Makes anew what the book shows: `cd docs && python -m book --help`."""

import sys
from pathlib import Path

import typer

from book import atlas, papers, reports, results, samplers
from book.contexts import record_contexts
from book.draft_sizes import train_drafts
from book.features import record_features
from book.handouts import handouts, sheet_of, write_handouts
from book.playground import write_engine
from book.record_positions import record_positions
from book.record_walkthroughs import write_walkthroughs
from book.rounding import record_rounding
from minispec.cli.main import print_error
from minispec.io.checkpoint import load_pair
from minispec.io.files import read_json, write_text_file

DOCS = Path(__file__).parents[1]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)


@app.command("pages")
def write_pages(folder: Path = DOCS) -> None:
    """Write the pages of numbers from what is recorded: results.md, atlas.md, samplers.md and papers.md."""
    found = {
        "results": results.page(reports.saved_reports(), reports.saved_drafters(), reports.saved_real()),
        "atlas": atlas.page(read_json(atlas.RECORDED)),
        "samplers": samplers.page(read_json(samplers.RECORD)["samplers"]),
        "papers": papers.page(papers.recorded()),
    }
    for name, text in found.items():
        write_text_file(folder / f"{name}.md", text)


@app.command("results")
def write_results(page: Path, report: list[Path]) -> None:
    """Write a results page from reports of your own, by `minispec bench --full --output REPORT.json`."""
    write_text_file(page, results.page([reports.load_report(path) for path in report]))


@app.command("handouts")
def print_handouts(pdf: Path) -> None:
    """Write the handouts, one a page; the answers come last."""
    write_handouts(pdf, map(sheet_of, handouts()))


@app.command()
def drafts(pair: str = "stories") -> None:
    """Train drafts of several sizes for a target, which `minispec bench --section drafts` compares."""
    for name, draft in train_drafts(load_pair(pair)).items():
        print(f"{name}: {draft.parameters_count:,} parameters")


@app.command()
def features(pair: str = "english") -> None:
    """Train drafters that read different things of one target, and record how many tokens are kept."""
    record_features(load_pair(pair))


@app.command()
def walkthroughs(pair: str = "stories") -> None:
    """Record a pair's walkthroughs, beside it."""
    chosen = load_pair(pair)
    write_walkthroughs(chosen, chosen.folder)


@app.command()
def engine() -> None:
    """Compile the playground's engine, after a change of C++; needs the package ziglang."""
    write_engine()


app.command("contexts")(record_contexts)
app.command("measurements")(reports.save_measurements)
app.command("positions")(record_positions)
app.command("rounding")(record_rounding)
app.command("papers")(papers.record_papers)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; what a person can cause is one line on standard error, and exit status 2."""
    try:
        app(arguments)
    except ValueError as error:
        sys.exit(print_error(str(error)))


if __name__ == "__main__":
    main()
