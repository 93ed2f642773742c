"""What a source imports, by reading it."""

import ast


def imported(source):
    """Returns the full names of all that a source imports, wherever in it: `from a import b` is a and a.b."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = "." * node.level + (node.module or "")
            names += [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
    return names
