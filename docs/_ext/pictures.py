"""The directive `{picture}`: files that `refresh_pictures.py` wrote, of which the theme shows one."""

from functools import cache

import refresh_pictures
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

drawn = cache(refresh_pictures.pictures)


class Picture(SphinxDirective):
    """A picture on a light and on a dark page, with its alternative text."""

    required_arguments = 1

    def run(self):
        """Returns both images; the style sheet hides one."""
        (name,) = self.arguments
        if name not in drawn():
            raise self.error(f"there is no picture {name!r}; there is {', '.join(drawn())}")
        files = {"only-light": f"/{name}.svg", "only-dark": f"/{name}-dark.svg"}
        alt = drawn()[name].alt
        return [
            nodes.image(uri=file, alt=alt, width="48em", classes=[theme]) for theme, file in files.items()
        ]


def setup(app):
    """Tells Sphinx of the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
