"""What surrounds the steps: their style sheet, the script that goes from one to the next, and a whole page.

In the rules & is the stepper. It is named twice, so that they are stronger than those of the page around it.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from string import Template

ROOT = ".minispec-stepper.minispec-stepper"
RULES = Path(__file__).with_name("step.css").read_text(encoding="utf-8")
STYLE = RULES.replace("&", ROOT).replace("\n  ", " ").strip()
PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
SCRIPT = "\n" + Path(__file__).with_name("step.js").read_text(encoding="utf-8")


def page(title: str, pieces: Sequence[str]) -> str:
    """Returns a whole HTML document with pieces such as `Stepper.html()`."""
    return PAGE.substitute(title=html.escape(title), pieces="".join(pieces))
