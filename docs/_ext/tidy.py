"""Small corrections to what Sphinx and its theme write, where the check of the built site would complain."""

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

CAPTION = '<p class="caption" role="heading">'


class OneIdEach(SphinxPostTransform):
    """The theme wraps tables and displayed formulas in a box with the same id: the box gives it up."""

    default_priority = 900  # after the theme's own
    formats = ("html",)

    def run(self, **kwargs):
        for box in self.document.findall(nodes.container):
            if {"math-wrapper", "table-wrapper"} & set(box["classes"]):
                box["ids"] = []


def give_captions_a_level(app, pagename, templatename, context, doctree):
    """A caption over a list of pages is a heading, and says which level to those who hear it."""
    for part in ("furo_navigation_tree", "body"):
        if part in context:
            context[part] = context[part].replace(CAPTION, CAPTION.replace(">", ' aria-level="2">'))


def let_keys_scroll(app, pagename, templatename, context, doctree):
    """Code, output and tables may be wider than their box; with the focus in it, arrow keys move it."""
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">')
        context["body"] = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')


def let_folded_cells_be_named(app, pagename, templatename, context, doctree):
    """What unfolds a cell is called by the words that stand on it, not by another label."""
    if "body" in context:
        context["body"] = context["body"].replace(' aria-label="Toggle hidden content"', "")


def setup(app):
    app.add_post_transform(OneIdEach)
    app.connect("html-page-context", give_captions_a_level, priority=900)  # after the theme's own
    app.connect("html-page-context", let_keys_scroll, priority=901)
    app.connect("html-page-context", let_folded_cells_be_named, priority=901)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
