"""What surrounds the steps: their style sheet, the script that goes from one to the next, and a whole page.

In the rules & is the stepper. It is named twice, so that they are stronger than those of the page around it.
"""

import html
from collections.abc import Sequence
from pathlib import Path

ROOT = ".minispec-stepper.minispec-stepper"
RULES = Path(__file__).with_name("step.css").read_text(encoding="utf-8")
STYLE = RULES.replace("&", ROOT).replace("\n  ", " ").strip()
SCRIPT = "\n" + Path(__file__).with_name("step.js").read_text(encoding="utf-8")


def page(title: str, pieces: Sequence[str]) -> str:
    """Returns a whole HTML document with pieces such as `Stepper.html()`."""
    name = html.escape(title)
    how = (
        "Go on with the button, the slider, or the arrow keys; Home and End lead to the first and the last "
        "step, Page Up and Page Down from round to round."
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n</head>\n"
        '<body style="margin:0 auto;max-width:62rem;padding:1rem;background:#ffffff;color:#1b1b1b;'
        'font-family:system-ui,sans-serif">\n'
        f'<main>\n<h1 style="font-size:1.4rem">{name}</h1>\n'
        f'<p style="max-width:46em">{how}</p>\n'
        f"{''.join(pieces)}\n</main>\n</body>\n</html>\n"
    )
