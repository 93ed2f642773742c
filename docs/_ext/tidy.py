"""Small corrections to what Sphinx and its theme write, where the check of the built site would complain.

And one to how long they take: see `ask_for_titles`.
"""

from functools import cache

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

CORRECTED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    ' aria-label="Toggle hidden content"': "",
}


class OneIdEach(SphinxPostTransform):
    """The theme wraps tables and displayed formulas in a box with the same id: the box gives it up."""

    default_priority = 900  # after the theme's own
    formats = ("html",)

    def run(self, **kwargs):
        for box in self.document.findall(nodes.container):
            if {"math-wrapper", "table-wrapper"} & set(box["classes"]):
                box["ids"] = []


def ask_for_titles(app, pagename, templatename, context, doctree):
    """Gives the theme, which asks for the tree of all titles on each page, one without headings.

    It would come out the same with them, but Sphinx would copy them all, for each page, and take them out.
    """
    env, whole, contents = app.env, context["toctree"], app.env.tocs

    def toctree(**options):
        env.tocs = titles(env)
        tree = whole(**options)
        env.tocs = contents
        return tree

    context["toctree"] = toctree


@cache
def titles(env):
    """Returns the pages' contents without headings, but for the pages that hold other pages."""
    contents = {page: toc.deepcopy() for page, toc in env.tocs.items()}
    for toc in contents.values():
        for entry in toc:
            if not any(entry.findall(addnodes.toctree)):
                del entry[1:]
    return contents


def let_all_use_it(app, pagename, templatename, context, doctree):
    """Corrects what a page says to those who hear it, or move in it with keys.

    A caption over a list of pages is a heading, and says which level. Code, output and tables may be wider
    than their box: with the focus in it, arrow keys move it. What unfolds a cell is called by the words that
    stand on it, not by another label.
    """
    for part in ("furo_navigation_tree", "body"):
        for old, new in CORRECTED.items() if part in context else ():
            context[part] = context[part].replace(old, new)


def setup(app):
    app.add_post_transform(OneIdEach)
    app.connect("html-page-context", ask_for_titles, priority=100)  # before the theme's own
    app.connect("html-page-context", let_all_use_it, priority=901)  # after the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
