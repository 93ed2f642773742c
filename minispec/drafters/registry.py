"""All drafters, by the names of `--drafter`."""

from minispec.core.draft import ModelDrafter
from minispec.drafters.choice import CHOICE
from minispec.drafters.eagle import EAGLE
from minispec.drafters.eagle3 import EAGLE3, EAGLE3_CHOICE
from minispec.drafters.entry import DrafterEntry
from minispec.drafters.exit import EXIT
from minispec.drafters.medusa import MEDUSA, MEDUSA_TREE
from minispec.drafters.ngram import NGRAM
from minispec.drafters.parallel import PARALLEL
from minispec.drafters.suffix import SUFFIX
from minispec.drafters.tree import TREE

MODEL = DrafterEntry(
    "model",
    lambda parts, k: ModelDrafter(parts.draft, parts.warp),
    uses_draft_model=True,
    allows_automatic_k=True,
)
DRAFTERS = {
    entry.name: entry
    for entry in (
        MODEL,
        NGRAM,
        SUFFIX,
        EXIT,
        MEDUSA,
        EAGLE,
        EAGLE3,
        PARALLEL,
        TREE,
        MEDUSA_TREE,
        CHOICE,
        EAGLE3_CHOICE,
    )
}
