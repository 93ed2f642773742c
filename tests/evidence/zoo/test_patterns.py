"""Patterns fit code by its structure: names and layout do not matter; all else does."""

import pytest

from minispec.evidence.zoo.patterns import replacements, replacements_in_cpp


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
