"""The field guide to bugs: prose from the page, facts from the zoo.

    ```{bug} correction-from-p
    **Symptom.** …
    ```

shows a bug of the zoo: what it does, where it was planted, the damage that was recorded, who found it, where
it was seen, and the patch itself. `` ```{bug-table} DRAFT `` lists one family, `` ```{check-table} `` all
checks, and `` {bug}`correction-from-p` `` links to a bug from any page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole
from walk_nodes import table

from minispec.evidence.bench.measurements import KillRow, Measurement, saved
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import FAMILIES, MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import Mutant, diff

EFFECTS = {"biased": "another distribution", "slower": "slower", "breaks": "a broken promise"}
GITHUB = "https://github.com/"
# Names that a bug's `seen` uses for short.
REPOSITORIES = {"vllm-metal": "vllm-project/vllm-metal", "vLLM": "vllm-project/vllm"}
SEEN = re.compile(
    r"(?P<advisory>GHSA(?:-\w{4}){3})|(?P<arxiv>arXiv \d{4}\.\d{5})|(?P<issue>#\d+)"
    r"|(?P<repository>\b[\w.-]+/[\w.-]+\w|\bvllm-metal\b|\bvLLM\b)"
)


@cache
def record() -> Measurement:
    """Returns the kill matrix that comes with the package."""
    return saved("zoo")


def row_of(mutant: Mutant) -> KillRow | None:
    """Returns what was recorded of a bug, or None if it was added after the measurement."""
    return next((row for row in record().points if row.name == mutant.name), None)


def finders(row: KillRow, ours: bool) -> list[str]:
    """Returns the names of the checks that found a bug: ours, or those of other projects."""
    checks, theirs = record().conditions["checks"], record().conditions["theirs"]
    return [
        name for name, mark in zip(checks, row.marks, strict=True) if mark != "." and (name in theirs) != ours
    ]


def linked(seen: str) -> list[nodes.Node]:
    """Turns "owner/name #12 and #34" and the like into links."""
    found: list[nodes.Node] = []
    repository, end = "", 0
    for match in SEEN.finditer(seen):
        text = match.group()
        if match["repository"]:
            repository = REPOSITORIES.get(text, text)
        url = {
            "repository": f"{GITHUB}{repository}",
            "issue": f"{GITHUB}{repository}/issues/{text[1:]}",
            "advisory": f"{GITHUB}{repository}/security/advisories/{text}",
            "arxiv": f"https://arxiv.org/abs/{text.removeprefix('arXiv ')}",
        }[str(match.lastgroup)]
        found += [nodes.Text(seen[end : match.start()]), nodes.reference("", text, refuri=url)]
        end = match.end()
    return [*found, nodes.Text(seen[end:])]


def link_to(name: str, page: str) -> nodes.Node:
    """Returns a link to a bug's entry, from a page."""
    literal = nodes.literal("", name)
    return addnodes.pending_xref(
        "",
        literal,
        refdomain="std",
        reftype="ref",
        reftarget=f"bug-{name}",
        refdoc=page,
        refexplicit=True,
        refwarn=True,
    )


def listed(words: Sequence[str]) -> list[nodes.Node]:
    """Returns names as literals, with commas."""
    found: list[nodes.Node] = []
    for word in words:
        found += [nodes.Text(", " if found else ""), nodes.literal("", word)]
    return found or [nodes.Text("none")]


class Bug(SphinxDirective):
    """An entry of the field guide; its content is the page's own prose."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Puts prose and facts together."""
        try:
            mutant = mutant_named(self.arguments[0])
        except ValueError as error:
            raise self.error(str(error)) from None
        target = f"bug-{mutant.name}"
        entry = nodes.section(ids=[target], names=[target])
        entry += nodes.title("", "", nodes.literal("", mutant.name))
        entry += nodes.paragraph("", "", nodes.emphasis("", f"{mutant.title[0].upper()}{mutant.title[1:]}."))
        self.env.get_domain("std").note_hyperlink_target(  # type: ignore[attr-defined]
            target, self.env.docname, target, mutant.name
        )
        entry += self.parse_content_to_nodes()
        entry += facts(mutant)
        entry += patch(mutant)
        return [entry]


def facts(mutant: Mutant) -> nodes.Node:
    """Returns what was recorded of a bug, as a list."""
    row = row_of(mutant)
    if row is None:
        harm, found = "not recorded yet", [nodes.Text("not recorded yet")]
    else:
        harm = row.harm
        found = [*listed(finders(row, ours=True)), nodes.Text("; of other projects' tests by ")]
        found += listed(finders(row, ours=False))
    lines: list[tuple[str, list[nodes.Node]]] = [
        ("Damage", [nodes.Text(f"{EFFECTS[mutant.effect]}; {harm}")]),
        ("Found by", found),
        ("Seen", linked(mutant.seen)),
        ("Planted in", [nodes.literal("", mutant.path)]),
    ]
    points = nodes.bullet_list(bullet="-")
    for name, body in lines:
        lead = [nodes.strong("", name), nodes.Text(": ")]
        points += nodes.list_item("", nodes.paragraph("", "", *lead, *body))
    return points


def patch(mutant: Mutant) -> list[nodes.Node]:
    """Returns the patch, under a line that opens."""
    block = nodes.literal_block("", diff(mutant), language="diff")
    return [
        nodes.raw("", f"<details><summary>The patch of {mutant.name}</summary>", format="html"),
        block,
        nodes.raw("", "</details>", format="html"),
    ]


def bug_table(*rows: Sequence[str | nodes.Node]) -> nodes.table:
    """Returns a table whose columns are as wide as they need; the first row has the heads."""
    made = table(rows)
    made["classes"].append("colwidths-auto")
    return made


class BugTable(SphinxDirective):
    """One family of bugs: a key of `minispec.evidence.zoo.mutants.FAMILIES`, or `ALL`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Writes a line per bug."""
        name = self.arguments[0]
        group = MUTANTS if name == "ALL" else FAMILIES.get(name)
        if group is None:
            raise self.error(f"there is no family of bugs {name!r}")
        rows = []
        for mutant in group:
            row = row_of(mutant)
            ours, theirs = (len(finders(row, which)) if row else 0 for which in (True, False))
            rows.append(
                [
                    nodes.paragraph("", "", link_to(mutant.name, self.env.docname)),
                    row.harm if row else "not recorded yet",
                    f"{ours} of ours, {theirs} of others" if row else "not recorded yet",
                ]
            )
        return [bug_table(("bug", "what it does to a small case", "checks that find it"), *rows)]


class CheckTable(SphinxDirective):
    """All checks, what each looks at, and how many bugs it finds."""

    def run(self) -> list[nodes.Node]:
        """Writes a line per check."""
        checks = record().conditions["checks"]
        rows = []
        for check in CHECKS:
            found = "not recorded yet"
            if check.name in checks:
                column = checks.index(check.name)
                found = str(sum(row.marks[column] != "." for row in record().points))
            whose = "ours" if check.ours else "others"
            name = nodes.paragraph("", "", nodes.literal("", check.name))
            rows.append((name, check.promise, whose, found))
        return [bug_table(("check", "what it looks at", "whose", f"finds, of {len(record().points)}"), *rows)]


class BugRole(SphinxRole):
    """`` {bug}`name` ``: a link to a bug's entry."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Makes the link; Sphinx warns if there is no such entry."""
        return [link_to(self.text, self.env.docname)], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directives and the role."""
    app.add_directive("bug", Bug)
    app.add_directive("bug-table", BugTable)
    app.add_directive("check-table", CheckTable)
    app.add_role("bug", BugRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
