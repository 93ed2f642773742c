"""The command line: a file per command.

What a person got wrong is a ValueError, whose message is one line; `main` prints it.
"""

from minispec.cli.main import main

__all__ = ["main"]
