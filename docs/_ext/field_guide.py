"""The field guide to bugs: prose from the page, facts from the zoo.

    ```{bug} correction-from-p
    **Symptom.** …
    ```

shows a bug of the zoo, or several that are alike: what it does, where it was planted, the damage that was
recorded, who found it, where it was seen, and the patch itself. Any page links to it by {ref}`bug-NAME`.
"""

from __future__ import annotations

import re
from functools import cache

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

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


def row_of(mutant: Mutant) -> KillRow:
    """Returns what was recorded of a bug."""
    return next(row for row in record().points if row.name == mutant.name)


def finders(mutant: Mutant, ours: bool) -> list[str]:
    """Returns the names of the checks that found a bug: ours, or those of other projects."""
    checks = record().conditions["checks"]
    theirs = record().conditions["theirs"]
    marks = zip(checks, row_of(mutant).marks, strict=True)
    return [name for name, mark in marks if mark != "." and (name in theirs) != ours]


def found_by(check: str) -> int:
    """Returns how many of the planted bugs a check found."""
    column = record().conditions["checks"].index(check)
    return sum(row.marks[column] != "." for row in record().points)


def linked(seen: str) -> str:
    """Turns "owner/name #12 and #34" and the like into links, in Markdown."""
    repository = ""

    def link(match: re.Match[str]) -> str:
        nonlocal repository
        text = match.group()
        if match["repository"]:
            repository = REPOSITORIES.get(text, text)
        url = {
            "repository": f"{GITHUB}{repository}",
            "issue": f"{GITHUB}{repository}/issues/{text[1:]}",
            "advisory": f"{GITHUB}{repository}/security/advisories/{text}",
            "arxiv": f"https://arxiv.org/abs/{text.removeprefix('arXiv ')}",
        }[str(match.lastgroup)]
        return f"[{text}]({url})"

    return SEEN.sub(link, seen)


def facts(mutant: Mutant) -> str:
    """Returns what was recorded of a bug, and its patch under a line that opens, in Markdown."""
    ours, theirs = (
        ", ".join(f"`{name}`" for name in finders(mutant, which)) or "none" for which in (True, False)
    )
    return (
        f"- **Damage**: {EFFECTS[mutant.effect]}; {row_of(mutant).harm}\n"
        f"- **Found by**: {ours}; of other projects' tests by {theirs}\n"
        f"- **Seen**: {linked(mutant.seen)}\n"
        f"- **Planted in**: `{mutant.path}`\n\n"
        f"<details><summary>The patch of {mutant.name}</summary>\n\n"
        f"````diff\n{diff(mutant)}\n````\n\n</details>\n"
    )


class Bug(SphinxDirective):
    """An entry of the field guide; its content is the page's own prose."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Puts prose and facts together."""
        try:
            mutants = [mutant_named(name) for name in self.arguments[0].split()]
        except ValueError as error:
            raise self.error(str(error)) from None
        targets = [f"bug-{mutant.name}" for mutant in mutants]
        entry = nodes.section(ids=targets, names=targets)
        entry += nodes.title("", "", nodes.literal("", ", ".join(mutant.name for mutant in mutants)))
        entry += self.parse_content_to_nodes()
        for mutant, target in zip(mutants, targets, strict=True):
            self.env.domains.standard_domain.note_hyperlink_target(
                target, self.env.docname, target, mutant.name
            )
            title = f"*`{mutant.name}`: {mutant.title}.*\n\n"
            entry += self.parse_text_to_nodes(title + facts(mutant))
        return [entry]


def family_rows(name: str) -> list[list[str]]:
    """Returns a line for each bug of a family, a key of `FAMILIES` or `ALL`, heads first."""
    rows = [["bug", "what it does to a small case", "checks that find it"]]
    for mutant in MUTANTS if name == "ALL" else FAMILIES[name]:
        ours, theirs = (len(finders(mutant, which)) for which in (True, False))
        rows.append(
            [f"{{ref}}`bug-{mutant.name}`", row_of(mutant).harm, f"{ours} of ours, {theirs} of others"]
        )
    return rows


def check_rows() -> list[list[str]]:
    """Returns a line for each check: what it looks at, and how many bugs it finds; heads first."""
    rows = [["check", "what it looks at", "whose", f"finds, of {len(record().points)}"]]
    for check in CHECKS:
        whose = "ours" if check.ours else "others"
        rows.append([f"`{check.name}`", check.promise, whose, str(found_by(check.name))])
    return rows


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directive."""
    app.add_directive("bug", Bug)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
