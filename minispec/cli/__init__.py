"""The command line: a file per command."""

from minispec.cli.main import main

__all__ = ["main"]
