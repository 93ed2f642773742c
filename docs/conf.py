"""How the book is made: `make docs` writes it to docs/_build/html.

What the pages need besides Sphinx stands in `_ext`: every file there that has a `setup` is an extension.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXTENSIONS = HERE / "_ext"
sys.path.insert(0, str(EXTENSIONS))
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "notebooks")]

import minispec  # noqa: E402

project = "minispec"
author = "the minispec authors"
copyright = "the minispec authors, MIT licence"
version = release = minispec.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    *sorted(
        path.stem for path in EXTENSIONS.glob("*.py") if "\ndef setup(" in path.read_text(encoding="utf-8")
    ),
]
exclude_patterns = ["_build", "node_modules", "_ext", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
# A single pair of backticks is Python: it links where there is something to link to.
default_role = "py:obj"
smartquotes = False

# Notebooks come executed; nothing runs here. The widgets' scripts would come from another machine.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True

myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "special-members": "__call__"}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # nothing here has any, and looking for them takes a while
suppress_warnings = ["ref.python"]  # of fields with one name in several records the first is linked
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# The page asks no other machine for anything: MathJax comes from npm (package.json) and lies beside it.
mathjax_path = "tex-svg.js"
mathjax3_config = {
    # TeX commands that would be fetched when they are first used are spelled wrong here.
    "tex": {"packages": {"[-]": ["autoload", "require"]}},
    "options": {"enableMenu": False},
}

html_theme = "furo"
html_title = "minispec"
html_static_path = ["_static", "node_modules/mathjax/es5/tex-svg.js", "node_modules/mathjax/LICENSE"]
html_css_files = ["book.css", "walkthrough.css"]
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses without a server
html_show_sourcelink = False
html_show_copyright = False
html_domain_indices = False
