"""Checks a built site without a browser: links and anchors lead somewhere, figures say what they show.

    python docs/check_site.py docs/_build/html

Prints a line for every fault, and ends in status 1 if there is one. Links to other sites are not followed.
Nothing that a page needs to be drawn may come from another machine.
"""

import sys
from html.parser import HTMLParser
from multiprocessing import Pool
from pathlib import Path
from urllib.parse import unquote, urlsplit

FEWEST_WORDS = 2  # of an alternative text


class Page(HTMLParser):
    """What is said in one HTML file.

    Attributes:
        anchors: all ids, and names of links.
        links: addresses to click on.
        loads: addresses that the browser asks for by itself.
        faults: what can be said without looking at other files.
    """

    def __init__(self, path):
        super().__init__()
        self.anchors = set()
        self.links = []
        self.loads = []
        self.faults = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        has = {name: value for name, value in attributes if value}
        if has.get("id") in self.anchors:
            self.faults.append(f"two elements have the id {has['id']!r}")
        named = ("id", "name") if tag == "a" else ("id",)
        self.anchors |= {has[name] for name in named if name in has}
        for name in {"src", "href", "data"} & {*has}:
            (self.links if tag == "a" else self.loads).append(has[name])
        wordless = len(has.get("alt", "").split()) < FEWEST_WORDS
        if tag == "img" and wordless and has.get("role") != "presentation":
            self.faults.append(f"a figure without words: {has.get('src', '')[:60]}")


def faults(folder):
    """Returns a line for every fault of a site.

    Args:
        folder: with the site's HTML files.

    Raises:
        ValueError: if there is no site.
    """
    paths = sorted(folder.resolve().rglob("*.html"))
    if not paths:
        raise ValueError(f"there is no page in {folder}: run `make docs`")
    with Pool() as pool:
        pages = dict(zip(paths, pool.map(Page, paths), strict=True))
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        lines = list(page.faults)
        lines += [f"asks another machine for {url}" for url in page.loads if urlsplit(url).netloc]
        lines += filter(None, (dead(url, path, pages) for url in page.links + page.loads))
        found += [f"{name}: {line}" for line in dict.fromkeys(lines)]
    return found


def dead(url, path, pages):
    """Returns what is wrong with an address inside the site, or None."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if aim.is_dir():
        aim /= "index.html"
    if not aim.is_file():
        return f"{url} leads nowhere"
    anchor = unquote(parts.fragment)
    # What has a = is the state of a page, not a place on it.
    if anchor and "=" not in anchor and aim in pages and anchor not in pages[aim].anchors:
        return f"{url} leads to no such place on its page"
    return None


def main(arguments):
    if len(arguments) != 1:
        print("usage: python docs/check_site.py FOLDER", file=sys.stderr)
        return 2
    try:
        found = faults(Path(arguments[0]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
