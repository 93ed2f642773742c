"""`make docs` checks the built site's links and figures without a browser: the checker, by planted faults."""

import check_site
import pytest

START = """<!DOCTYPE html><html>
<head><link rel="stylesheet" href="_static/a.css"><script src="s.js"></script></head>
<body><h1 id="top">Start</h1><a href="#top">up</a>
<a href="more/#k=2">more</a> <a href="more/">more</a> <a href="more/index.html#there">x</a>
<a href="https://example.org/nowhere">another site</a> <a href="mailto:a@b.example">post</a>
<img src="f.png" alt="Two bars, one longer"> <img src="data:image/png;base64," alt="a dot"></body></html>"""
MORE = '<html><body><p id="there">There</p><a href="../index.html">back</a></body></html>'


@pytest.fixture
def site(tmp_path):
    files = {"index.html": START, "more/index.html": MORE, "_static/a.css": "", "s.js": "", "f.png": ""}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('href="#top"', 'href="#bottom"', "#bottom leads to no such place"),
        ("more/index.html#there", "more/index.html#here", "leads to no such place"),
        ('href="more/"', 'href="less/"', "less/ leads nowhere"),
        ("f.png", "g.png", "g.png leads nowhere"),
        ("_static/a.css", "_static/b.css", "_static/b.css leads nowhere"),
        ('src="s.js"', 'src="https://example.org/s.js"', "asks another machine"),
        ('href="_static/a.css"', 'href="//example.org/a.css"', "asks another machine"),
        (' alt="Two bars, one longer"', "", "a figure without words"),
        (' alt="Two bars, one longer"', ' alt="figure"', "a figure without words"),
        ('<a href="#top">', '<a id="top" href="#top">', "two elements have the id"),
    ],
)
def test_a_planted_fault_is_found(site, old, new, fault):
    assert old in START
    (site / "index.html").write_text(START.replace(old, new))
    found = check_site.faults(site)
    assert len(found) == 1 and found[0].startswith("index.html: ") and fault in found[0]


def test_faults_end_in_status_1_and_a_missing_site_in_2(site, tmp_path_factory, capsys):
    assert check_site.main([str(site)]) == 0 and check_site.faults(site) == []
    (site / "f.png").unlink()
    assert check_site.main([str(site)]) == 1
    assert capsys.readouterr().out == "index.html: f.png leads nowhere\n"
    assert check_site.main([str(tmp_path_factory.mktemp("empty"))]) == 2
    assert capsys.readouterr().err.count("\n") == 1
