"""The playground's scripts beside its pages, and the shipped pair as one of them."""

from pathlib import Path

from book.playground import PLAYGROUND, write_playground

from minispec.io.checkpoint import load_pair


def bring(app, failed):
    """Writes what the pages load into the built book."""
    if not failed and app.builder.format == "html":
        write_playground(Path(app.outdir) / PLAYGROUND.name, load_pair())


def setup(app):
    app.connect("build-finished", bring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
