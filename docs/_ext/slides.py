"""Slides: pages of the book without its frame, a section a slide; `_templates/slides.html` lays them out."""


def without_frame(app, pagename, templatename, context, doctree):
    """Returns the template of slides for pages of slides."""
    return "slides.html" if pagename.startswith("teaching/slides_") else None


def setup(app):
    """Tells Sphinx which pages are slides."""
    app.connect("html-page-context", without_frame)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
