"""Checks a built site without a browser: links and anchors lead somewhere, figures say what they show.

    python docs/check_site.py docs/_build/html

Prints a line for every fault, and ends in status 1 if there is one. Links to other sites are not followed.
Nothing that a page needs to be drawn may come from another machine.
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser asks for by itself, by element; all other addresses are followed only when somebody clicks.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
FEWEST_WORDS = 2  # of an alternative text


@dataclass
class Page:
    """What is said in one HTML file.

    Attributes:
        anchors: all ids, and names of links.
        links: addresses to click on.
        loads: addresses that the browser asks for by itself.
        faults: what can be said without looking at other files.
    """

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Reads a page."""

    def __init__(self):
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag, attributes):
        has = dict(attributes)
        if has.get("id"):
            if has["id"] in self.page.anchors:
                self.page.faults.append(f"two elements have the id {has['id']!r}")
            self.page.anchors.add(has["id"])
        if tag == "a" and has.get("name"):
            self.page.anchors.add(has["name"])
        if tag == "a" and has.get("href") is not None:
            self.page.links.append(has["href"])
        if tag in LOADED and has.get(LOADED[tag]):
            self.page.loads.append(has[LOADED[tag]])
        if (
            tag == "img"
            and len((has.get("alt") or "").split()) < FEWEST_WORDS
            and has.get("role") != "presentation"
        ):
            self.page.faults.append(f"a figure without words: {str(has.get('src'))[:60]}")


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def faults(folder):
    """Returns a line for every fault of a site.

    Args:
        folder: with the site's HTML files.

    Raises:
        ValueError: if there is no site.
    """
    pages = {path: read(path) for path in sorted(folder.resolve().rglob("*.html"))}
    if not pages:
        raise ValueError(f"there is no page in {folder}: run `make docs`")
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
    if anchor and aim in pages and anchor not in pages[aim].anchors:
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
