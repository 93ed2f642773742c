"""A bare page around what a directive writes, with its scripts, that can reach nothing else."""

import json
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "docs" / "playground"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'"


def write_page(folder, body, data, scripts):
    """Writes a page and the scripts that it runs; returns its path."""
    (name, value), *_ = data.items()
    texts = {"data.js": f'"use strict";\nconst {name} = {json.dumps(value)};\n'}
    texts |= {script: (SCRIPTS / script).read_text(encoding="utf-8") for script in scripts}
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    style = (SCRIPTS / "pages.css").read_text(encoding="utf-8")
    (folder / "pages.css").write_text(style, encoding="utf-8")
    loads = '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="pages.css">'
    loads += "".join(f'<script defer src="{file}"></script>' for file in texts)
    page = folder / "page.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>page</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">{loads}</head>'
        f"<body>{body}</body></html>",
        encoding="utf-8",
    )
    return page


@contextmanager
def opened(browser, path, **settings):
    """Opens a page; afterwards no script has complained, and nothing was asked for but its own files."""
    context = browser.new_context(**settings)
    page = context.new_page()
    wrong = []
    page.on("request", lambda r: r.url.startswith(path.parent.as_uri()) or wrong.append(r.url))
    page.on("console", lambda said: wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(path.as_uri())
    try:
        yield page
        assert wrong == []
    finally:
        context.close()
