"""The API pages, written from the code: what `minispec` exports, every package's modules, and the commands.

A page in docs/api holds a comment where its list belongs, such as `<!-- package: core -->`. The list stands
nowhere else, so a new module cannot be forgotten.
"""

import re

import typer
from import_tables import modules, package_imports
from typer.cli import get_docs_for_click

import minispec

OPTION = re.compile(r"Annotated\[([^,]*), <typer[^>]*>\]")
MARK = re.compile(r"^<!-- (exported|package|commands)(?:: ([\w.]+))? -->$", re.MULTILINE)


def fill(app, docname, source):
    """Puts the lists in place of their comments, when Sphinx reads an API page."""
    if docname.startswith("api/"):
        source[0] = MARK.sub(lambda mark: WRITERS[mark[1]](mark[2]), source[0])


def exported(_):
    """Everything that can be imported from `minispec` itself, package by package, in a line each."""
    parts = []
    for package in package_imports():
        names = [name for name in minispec.__all__ if home(name).startswith(f"minispec.{package}.")]
        if names:
            parts.append(f"## From [`minispec.{package}`]({package}.md)\n\n| name | what it is |\n|---|---|")
            for name in sorted(names, key=str.lower):
                says = documented(name).__doc__.strip().splitlines()[0].replace("|", "\\|")
                parts.append(f"| {{py:obj}}`~{home(name)}.{name}` | {says} |")
            parts.append("")
    return "\n".join(parts)


def home(name):
    """Returns the module in which an exported object stands."""
    return documented(name).__module__


def documented(name):
    """Returns what says where an exported object stands, and what it is: of a verifier its rule."""
    thing = getattr(minispec, name)
    return thing.decide if isinstance(thing, minispec.Verifier) else thing


def resolve_exported(app, env, node, contnode):
    """Lets pages refer to `minispec.speculate`, which stands under its full name on its package's page."""
    first, _, name = node.get("reftarget", "").partition(".")
    name, dot, rest = name.partition(".")
    if node.get("refdomain") != "py" or first != "minispec" or name not in minispec.__all__:
        return None
    target = f"{home(name)}.{name}{dot}{rest}"
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)


def escape_bars(app, what, name, thing, options, lines):
    """Docstrings are written to be read in the code, where |p − q| needs no escape."""
    for i, line in enumerate(lines):
        pieces = re.split(r"(`[^`]*`)", line)  # what stands between backticks is left alone
        lines[i] = "".join(p if p.startswith("`") else p.replace("|", "\\|") for p in pieces)


def without_options(app, what, name, thing, options, signature, returned):
    """What Typer says of an argument stands under the command; in the signature it would be an address."""
    return signature and OPTION.sub(r"\1", signature), returned


def package(name):
    """A package's modules, those in its folder first, each with everything public in it."""
    prefix = f"minispec.{name}."
    inside = [module for module in modules() if module.startswith(prefix)]
    folders = {module.rpartition(".")[0] for module in inside}
    parts = []
    for module in sorted({*inside} - folders, key=lambda module: module.rsplit(".", 1)):
        # Sphinx's own directives are in reStructuredText.
        parts.append(f"## `{module}`\n\n````{{eval-rst}}\n.. automodule:: {module}\n````\n")
    return "\n".join(parts)


def every_command(_):
    """What each command says of itself when asked with --help."""
    from minispec.cli.main import app  # only this page needs every package to be whole

    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="minispec")
    return get_docs_for_click(obj=group, ctx=context, name="minispec").partition("\n## ")[2].join(["## ", ""])


WRITERS = {"exported": exported, "package": package, "commands": every_command}


def setup(app):
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after Napoleon, who may write some
    app.connect("autodoc-process-signature", without_options)
    app.connect("missing-reference", resolve_exported)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
