"""Cells of notebooks as trees: which names they need, and how to run some of them in this process."""

import ast
from functools import cache

from notebook_rules import code_cells, is_solution, read_text, tags, texts

NOTEBOOKS = {int(text.name[:2]): text for text in texts() if not is_solution(text)}


@cache
def trees(notebook):
    """Returns each code cell of a notebook, by its number, as a tree with its tags."""
    return [(ast.parse(cell.source), tags(cell)) for _, cell in code_cells(read_text(NOTEBOOKS[notebook]))]


def run(trees, names):
    for tree in trees:
        exec(compile(tree, "<cell>", "exec"), names)


def needed(cells, index, skipped=("exercise",)):
    """Returns the trees of those cells before one that define what it uses, step by step.

    cells: pairs of a tree and its tags; those with a tag of `skipped` are left out.
    """
    chosen = []
    wanted = Names(cells[index][0]).free
    for tree, of_cell in reversed(cells[:index]):
        names = Names(tree)
        if wanted & names.bound and not {*skipped} & {*of_cell}:
            wanted = (wanted - names.bound) | names.free
            chosen.insert(0, tree)
    return chosen


def left_blank(cells):
    """Returns the functions that readers are to write, by name, as they stand there for them."""
    names = {}
    for tree, of_cell in cells:
        if "exercise" in of_cell:
            run([ast.Module([node for node in tree.body if isinstance(node, ast.FunctionDef)], [])], names)
    return names


class Names(ast.NodeVisitor):
    """The names that a cell binds, and those that it takes from cells before it: read before they are bound.

    What is read is visited before what is bound. What a function binds is its own. So is what a comprehension
    binds; here it counts as bound by the cell, which is enough.
    """

    READ_FIRST = ("generators", "value", "iter", "target", "targets", "ifs", "key", "elt")

    def __init__(self, tree):
        self.bound = set()
        self.free = set()
        self.visit(tree)

    def generic_visit(self, node):
        for name in sorted(node._fields, key=lambda name: (*self.READ_FIRST, name).index(name)):
            value = getattr(node, name)
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    self.visit(part)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            self.bound.add(node.id)
        elif node.id not in self.bound:
            self.free.add(node.id)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Name) and node.target.id not in self.bound:
            self.free.add(node.target.id)
        self.generic_visit(node)

    def visit_arg(self, node):
        self.bound.add(node.arg)

    def visit_alias(self, node):
        self.bound.add((node.asname or node.name).partition(".")[0])

    def visit_FunctionDef(self, node):
        self.bound.add(node.name)
        inside = Names(ast.Module([node.args, *node.body], []))
        self.free |= inside.free - self.bound

    def visit_ClassDef(self, node):
        self.bound.add(node.name)
        self.generic_visit(node)
