"""A directive that puts the stepper on a page, alive: a walkthrough that the shipped pair recorded.

Its argument is `greedy` or `rejection`. Options: `rounds`, to show only so many, and `title`.
"""

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from minispec.io.walkthrough import load_walkthrough
from minispec.show.stepper import Stepper


class StepperDirective(SphinxDirective):
    """One recorded run to walk through; without scripts all its steps stand open."""

    required_arguments = 1
    option_spec = {"rounds": directives.positive_int, "title": directives.unchanged}

    def run(self):
        try:
            recording = load_walkthrough(self.arguments[0])
        except (ValueError, OSError) as error:
            raise self.error(str(error)) from None
        stepper = Stepper(recording, rounds=self.options.get("rounds"), title=self.options.get("title"))
        return [nodes.raw("", stepper.html(), format="html"), *self.without_html(stepper)]

    def without_html(self, stepper):
        """What other formats than HTML get: the steps in words."""
        if self.env.app.builder.format == "html":
            return []
        return [nodes.literal_block("", stepper.text())]


def setup(app):
    app.add_directive("stepper", StepperDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
