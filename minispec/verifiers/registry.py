"""All verifiers, by the names of `--verifier`."""

from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_compare, verify_coupled
from minispec.verifiers.lossy import LOSSY
from minispec.verifiers.tree import verify_k_sequential, verify_tree, verify_tree_greedy

CHAINS = {
    verifier.name: verifier
    for verifier in (
        verify_greedy,
        verify_rejection,
        verify_block,
        verify_compare,
        verify_coupled,
        *LOSSY,
    )
}
TREES = {verifier.name: verifier for verifier in (verify_tree_greedy, verify_tree, verify_k_sequential)}


def verifier_for(name: str, trees: bool) -> Verifier:
    """Returns the verifier of a name, of a tree or of a chain; ValueError if there is none.

    A name may stand for two: the rule for chains, and what it becomes for trees.
    """
    verifiers = TREES if trees else CHAINS
    if name in verifiers:
        return verifiers[name]
    if name in CHAINS:
        raise ValueError(
            f"the {name} verifier is for chains; for a tree choose --verifier {' or '.join(verifiers)}"
        )
    raise ValueError(f"there is no verifier {name!r}; choose {' or '.join(verifiers)}")
