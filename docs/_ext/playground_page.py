"""What the pages of docs/playground share: scripts and styles beside them, and no others.

A browser gets told to run no script but these: a page there that loads another, or builds code from text, is
stopped by its Content-Security-Policy.
"""

import base64
import hashlib
import re
import shutil
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "playground"
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'{}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'"
)
INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
CHARSET = '<meta charset="utf-8">'


def protected(page):
    """Returns a page that runs its own scripts alone: files beside it, and what stands in it now, by hash."""
    digests = (hashlib.sha256(script.encode()).digest() for script in INLINE.findall(page))
    known = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in dict.fromkeys(digests))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(known)}">'
    return page.replace(CHARSET, f"{CHARSET}\n    {policy}", 1)


def finish(app, failed):
    """Copies scripts and styles, and protects the pages."""
    folder = Path(app.outdir) / FOLDER.name
    if failed or app.builder.format != "html" or not folder.is_dir():
        return
    for pattern in ("*.js", "*.css"):
        for path in FOLDER.glob(pattern):
            shutil.copy(path, folder)
    for path in folder.glob("*.html"):
        path.write_text(protected(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app):
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
