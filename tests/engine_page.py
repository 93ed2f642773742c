"""A page with the playground's engine, opened as a file: nothing may be fetched, nothing evaluated."""

from contextlib import contextmanager

from book.playground import write_playground

from minispec.io.checkpoint import load_pair

POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'"
SCRIPTS = ("data.js", "native.js", "tokenizer.js", "engine.js")
START = "() => { globalThis.engine = new Minispec.Engine(MINISPEC_DATA); }"


def write_page(folder):
    """Writes a page that loads the engine and the shipped pair, and returns its file."""
    write_playground(folder, load_pair())
    return write_html(folder / "engine.html", POLICY)


def write_html(path, policy):
    """Writes a page that loads the scripts beside it, under a policy."""
    scripts = "".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>engine</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">{scripts}',
        encoding="utf-8",
    )
    return path


@contextmanager
def opened(browser, path):
    """Opens a page; on leaving, it must have asked for nothing but files, and have reported no error."""
    asked = []
    said = []
    with browser.new_page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        yield page
    assert said == []
    assert len(asked) == 1 + len(SCRIPTS) and all(url.startswith("file://") for url in asked)
