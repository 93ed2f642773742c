"""Where the package can be mutated, and how: one small change of the syntax tree at a time.

A site is an expression or a statement inside a function; what only types or messages see is left out.
"""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "argmax": "argmin",
    "minimum": "maximum",
    "maximum": "minimum",
    "ones": "zeros",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "tril": "triu",
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str  #: from the root of the repository
    line: int
    column: int  #: in bytes, as `ast` counts
    end_line: int
    end_column: int
    old: str
    new: str
    is_statement: bool  #: left out, where others are replaced

    def overlaps(self, other: "Mutant") -> bool:
        """Whether both change the same characters."""
        mine = (self.line, self.column), (self.end_line, self.end_column)
        theirs = (other.line, other.column), (other.end_line, other.end_column)
        return self.path == other.path and mine[0] < theirs[1] and theirs[0] < mine[1]

    def __str__(self) -> str:
        """Names the place and the change, in one line."""
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.path}:{self.line}  {old}  ->  {new}"


def draw(root: Path, seed: str, count: int) -> list[Mutant]:
    """Draws mutants of `minispec`, the packages in turn; at most two a file, and none overlap."""
    rng = random.Random(seed)
    packages = sorted(path for path in (root / "minispec").iterdir() if (path / "__init__.py").is_file())
    pools = [
        [mutant for path in sorted(package.rglob("*.py")) for mutant in mutants_of(root, path)]
        for package in packages
    ]
    for pool in pools:
        rng.shuffle(pool)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(pools):
        for pool in pools:
            while pool and len(chosen) < count:
                mutant = pool.pop()
                in_file = sum(mutant.path == other.path for other in chosen)
                if in_file < 2 and not any(map(mutant.overlaps, chosen)):
                    chosen.append(mutant)
                    break
    return chosen


def mutants_of(root: Path, path: Path) -> Iterator[Mutant]:
    """Yields every mutant of a file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    inside = {id(node) for function in functions for node in ast.walk(function) if node is not function}
    inside -= unseen(tree)
    for node in ast.walk(tree):
        if id(node) in inside and (change := changed(node)):
            place, new = change
            yield Mutant(
                path.relative_to(root).as_posix(),
                place.lineno,
                place.col_offset,
                place.end_lineno,
                place.end_col_offset,
                ast.get_source_segment(source, place),
                new,
                isinstance(place, ast.stmt),
            )


def unseen(tree: ast.AST) -> set[int]:
    """Returns the nodes that are left out: annotations, decorators, defaults, messages, imports."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            roots += [
                *node.decorator_list,
                *node.args.defaults,
                *filter(None, [*node.args.kw_defaults, node.returns]),
            ]
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            roots.append(node.annotation)
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            roots.append(node)
    return {id(node) for root in roots for node in ast.walk(root)}


def changed(node: ast.AST) -> tuple[ast.expr | ast.stmt, str] | None:
    """Returns what of a node is replaced, and by what source; None if it is no site."""
    new: ast.expr
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            new = ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
        case ast.BinOp() if type(node.op) in OPERATORS and not is_text(node.left):
            new = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.BoolOp():
            new = ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            new = node.operand
        case ast.Constant(value=bool()):
            new = ast.Constant(not node.value)
        case ast.Constant(value=int()):
            new = ast.Constant(node.value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            new = ast.Call(ast.Name(FUNCTIONS[name]), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(attr=name)) if name in FUNCTIONS:
            new = ast.Call(ast.Attribute(node.func.value, FUNCTIONS[name]), node.args, node.keywords)
        case ast.Expr(value=ast.Call()):
            return node, "pass"
        case ast.IfExp():
            new = ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.If(test=ast.Name() | ast.Call() | ast.Attribute()) | ast.While(test=ast.Name() | ast.Call()):
            return node.test, f"(not {ast.unparse(node.test)})"
        case _:
            return None
    return node, f"({ast.unparse(new)})"


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a string, which `%` would format."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def behind_a_switch(source: str, mutants: list[tuple[int, Mutant]]) -> str:
    """Returns a file's source with mutants inside it; number n acts where `is_planted(n)` says so."""
    lines = [line.encode() for line in source.split("\n")]
    for number, mutant in sorted(mutants, key=lambda each: (each[1].line, each[1].column), reverse=True):
        if mutant.is_statement:
            new = f"if not is_planted({number}):\n{' ' * (mutant.column + 4)}{mutant.old}"
        else:
            new = f"({mutant.new} if is_planted({number}) else ({mutant.old}))"
        first, last = mutant.line - 1, mutant.end_line - 1
        before, after = lines[first][: mutant.column], lines[last][mutant.end_column :]
        lines[first : last + 1] = [before + new.encode() + after]
    text = b"\n".join(lines).decode()
    first = [each for each in ast.parse(text).body if not is_future(each)][1]  # [0] is the docstring
    whole = text.split("\n")
    whole.insert(first.lineno - 1, "from minispec.planted import is_planted")
    return "\n".join(whole)


def is_future(statement: ast.stmt) -> bool:
    """Whether a statement must come before all others."""
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
