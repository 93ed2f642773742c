"""Papers in miniature: a file a paper, with what is computed, what is measured and how it is shown.

    make papers                 # from the repository's root; ONLY=leviathan: one of them

Each file has a `TITLE`, the paper's `CLAIM`, a `VERDICT`, and functions: `measure() -> rows`, of which those
that `exact() -> rows` returns are computed and not sampled; `show(rows)` writes them in Markdown, and
`figure(rows)` draws them, where there is a figure. `docs/book/papers.py` records the rows and makes the page.
"""
