"""The command line: `minispec demo | train | generate | bench`."""

from minispec.cli.main import main

__all__ = ["main"]
