"""Patterns fit code by its structure: names and layout do not matter; all else does."""

import ast

import pytest

from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import patch_of
from minispec.evidence.zoo.patterns import replacements, replacements_in_cpp

IN_PYTHON = [mutant for mutant in MUTANTS if not mutant.is_native]


@pytest.mark.parametrize(
    ("source", "old", "new", "wanted"),
    [
        ("x = f(\n    a,\n    k=1)\n", "f($a, k=$k)", "g($k)", ["x = g(1)\n"]),
        ("a / b\nc / d\n", "$p / $q", "$q / $p", ["b / a\nc / d\n", "a / b\nd / c\n"]),
        ("a * (b - c)\n", "$x * $y", "$y.abs()", ["(b - c).abs()\n"]),
        ("2 * f(x)\n", "f($x)", "$x + 1", ["2 * (x + 1)\n"]),
        ("f(x[0], x[0])\nf(x[0], x[1])\n", "f($x, $x)", "$x", ["x[0]\nf(x[0], x[1])\n"]),
        (
            "if a:\n    x = 1\n    x += 1\n",
            "$x = 1\n$x += 1",
            "$x = 2\n$x += 2",
            ["if a:\n    x = 2\n    x += 2\n"],
        ),
        ("if a:\n    b = 'é', f(c)\n", "f($c)", "$c", ["if a:\n    b = 'é', c\n"]),
        ("f(a)\n", "f($a)", "pass", ["pass\n"]),
        ("f(a)\n", "f($a, $b)", "$a", []),
    ],
)
def test_a_pattern_fits_what_has_its_structure(source, old, new, wanted):
    """Each place gives one text; what is put in keeps its meaning; all around stays as it was."""
    assert replacements(source, old, new) == wanted


def test_in_cpp_words_count_and_spaces_do_not():
    """Inside the function alone."""
    source = "int f(int a) {\n    return g( a,\n b );\n}\n\nint h(int a) {\n    return g(a, b);\n}\n"
    (changed,) = replacements_in_cpp(source, "f", "g($x, $y)", "g($y, $x)")
    assert changed == source.replace("g( a,\n b )", "g(b, a)")
    for function, old in (("f", "g($x, $x)"), ("f", "return g($x,"), ("nowhere", "g($x, $y)")):
        assert len(replacements_in_cpp(source, function, old, "")) == (old == "return g($x,")


class Renaming(ast.NodeTransformer):
    """Gives other names to local variables, and to attributes that begin with an underscore."""

    def __init__(self, function):
        arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
        nodes = [node for part in function.body for node in ast.walk(part)]
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inner = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        self.names = (stored | inner | {node.arg for node in nodes if isinstance(node, ast.arg)}) - arguments

    def renamed(self, source):
        return ast.unparse(self.visit(ast.parse(source)))

    def generic_visit(self, node):
        super().generic_visit(node)
        for field, value in ast.iter_fields(node):
            if isinstance(node, ast.Attribute):
                private = field == "attr" and value[0] == "_" != value[1] and value != "_replace"
            else:
                private = field in ("id", "arg", "name") and value in self.names
            if private and not isinstance(node, ast.keyword):
                setattr(node, field, f"{value}_renamed")
        if isinstance(node, ast.Nonlocal):
            node.names = [f"{name}_renamed" for name in node.names]
        return node


@pytest.mark.parametrize("mutant", IN_PYTHON, ids=lambda mutant: mutant.name)
def test_every_bug_applies_whatever_private_names_are_and_however_code_is_laid_out(mutant):
    """With all private names changed and all lines written anew it is the same bug.

    A pattern that names one of them fits no longer; a replacement that does has a name that is nowhere else.
    """
    _, source, faulty = patch_of(mutant)
    renaming = Renaming(ast.parse(source).body[0])
    assert renaming.names or "_" in source
    (found,) = replacements(renaming.renamed(source), mutant.old, mutant.new)
    assert ast.unparse(ast.parse(found)) == renaming.renamed(faulty)
