"""The field guide to bugs: prose from the page, facts from the zoo.

    ```{bug} correction-from-p
    **Symptom.** …
    ```

shows a bug of the zoo, or several that are alike: what it does, where it was planted, the damage that was
recorded, who found it, where it was seen, and the patch itself. Any page links to it by {ref}`bug-NAME`.
"""

import re
from functools import cache

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from minispec.evidence.bench.measurements import saved
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import FAMILIES, mutant_named
from minispec.evidence.zoo.mutation import diff

EFFECTS = {"biased": "another distribution", "slower": "slower", "breaks": "a broken promise"}
GITHUB = "https://github.com/"
# Names that a bug's `seen` uses for short.
REPOSITORIES = {"vllm-metal": "vllm-project/vllm-metal", "vLLM": "vllm-project/vllm"}
SEEN = re.compile(
    r"(?P<advisory>GHSA(?:-\w{4}){3})|(?P<arxiv>arXiv \d{4}\.\d{5})|(?P<issue>#\d+)"
    r"|(?P<repository>\b[\w.-]+/[\w.-]+\w|\bvllm-metal\b|\bvLLM\b)"
)


@cache
def recorded():
    """Returns what was recorded of each bug, by name: its row of the kill matrix, and who found it.

    Those who did are the names of checks: ours, and those of other projects.
    """
    record = saved("zoo")
    checks = record.conditions["checks"]
    theirs = record.conditions["theirs"]
    found = {}
    for row in record.points:
        finders = [name for name, mark in zip(checks, row.marks, strict=True) if mark != "."]
        ours = [name for name in finders if name not in theirs]
        found[row.name] = row, ours, [name for name in finders if name in theirs]
    return found


def found_by(check):
    """Returns how many of the planted bugs a check found."""
    return sum(check in ours + theirs for _, ours, theirs in recorded().values())


def linked(seen):
    """Turns "owner/name #12 and #34" and the like into links, in Markdown."""
    repository = ""

    def link(match):
        nonlocal repository
        text = match.group()
        if match["repository"]:
            repository = REPOSITORIES.get(text, text)
        url = {
            "repository": f"{GITHUB}{repository}",
            "issue": f"{GITHUB}{repository}/issues/{text[1:]}",
            "advisory": f"{GITHUB}{repository}/security/advisories/{text}",
            "arxiv": f"https://arxiv.org/abs/{text.removeprefix('arXiv ')}",
        }[match.lastgroup]
        return f"[{text}]({url})"

    return SEEN.sub(link, seen)


def entry(mutant):
    """Returns what was recorded of a bug, and its patch under a line that opens, in Markdown."""
    row, *finders = recorded()[mutant.name]
    ours, theirs = (", ".join(f"`{name}`" for name in names) or "none" for names in finders)
    return (
        f"*`{mutant.name}`: {mutant.title}.*\n\n"
        f"- **Damage**: {EFFECTS[mutant.effect]}; {row.harm}\n"
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

    def run(self):
        """Puts prose and facts together."""
        try:
            mutants = [mutant_named(name) for name in self.arguments[0].split()]
        except ValueError as error:
            raise self.error(str(error)) from None
        targets = [f"bug-{mutant.name}" for mutant in mutants]
        section = nodes.section(ids=targets, names=targets)
        section += nodes.title("", "", nodes.literal("", ", ".join(mutant.name for mutant in mutants)))
        section += self.parse_content_to_nodes()
        domain = self.env.domains.standard_domain
        for mutant, target in zip(mutants, targets, strict=True):
            domain.note_hyperlink_target(target, self.env.docname, target, mutant.name)
            section += self.parse_text_to_nodes(entry(mutant))
        return [section]


def family_rows(name):
    """Returns a line for each bug of a family, a key of `FAMILIES`, heads first."""
    rows = [["bug", "what it does to a small case", "checks that find it"]]
    for mutant in FAMILIES[name]:
        row, ours, theirs = recorded()[mutant.name]
        finders = f"{len(ours)} of ours, {len(theirs)} of others"
        rows.append([f"{{ref}}`bug-{mutant.name}`", row.harm, finders])
    return rows


def check_rows():
    """Returns a line for each check: what it looks at, and how many bugs it finds; heads first."""
    rows = [["check", "what it looks at", "whose", f"finds, of {len(recorded())}"]]
    for check in CHECKS:
        whose = "ours" if check.ours else "others"
        rows.append([f"`{check.name}`", check.promise, whose, str(found_by(check.name))])
    return rows


def setup(app):
    """Tells Sphinx of the directive."""
    app.add_directive("bug", Bug)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
