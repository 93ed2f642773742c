"""One sign and one colour for each state of a token, in every figure, terminal, stepper and handout.

`signs.toml` lists them. A state is never told by colour alone: each has a sign, and where areas are filled, a
hatch. `docs/signs.md` shows the key.
"""

from dataclasses import dataclass

from minispec.io.files import read_table


@dataclass(frozen=True)
class State:
    """How one state of a token, a cache slot or a model is drawn, everywhere."""

    colour: str  #: of its area or its line
    glyph: str = ""  #: the sign that says the same without colour; empty for plain text
    ink: str = "black"  #: the colour of text on that area
    hatch: str = ""  #: the pattern of its area, or an empty string
    marker: str = "o"  #: of its points in line charts
    word: str = ""  #: what it is called


TABLES = read_table(__file__, "signs.toml")
SIGNS = {table: {name: State(**look) for name, look in looks.items()} for table, looks in TABLES.items()}
STATES = SIGNS["states"]
TARGET, DRAFTER, GUESS = SIGNS["models"].values()
