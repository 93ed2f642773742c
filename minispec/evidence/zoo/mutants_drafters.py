"""Bugs of drafters that choose how many tokens they draft."""

from minispec.evidence.zoo.mutants_rules import SUBTLE
from minispec.evidence.zoo.mutation import Mutant

LENGTHS = (
    Mutant(
        name="width-after-the-draw",
        title="an automatic K looks at the tokens that it has drawn, and drops the unlikely ones",
        function="minispec.drafters.adaptive:AdaptiveDrafter.propose",
        old="return self._drafter.propose(pending, width, warp, rng)",
        new=(
            "draft = self._drafter.propose(pending, width, warp, rng)\n"
            "chosen = draft.probs.gather(2, draft.tokens[..., None])[..., 0]\n"
            "likely = (chosen >= 0.5).long().cumprod(dim=1).sum(dim=1)\n"
            "return Draft(draft.tokens, draft.probs, likely)"
        ),
        seen=SUBTLE,
    ),
    Mutant(
        name="doubtful-token-dropped",
        title="the stop rule drops the token that made it stop",
        function="minispec.drafters.stopping:StoppingDrafter.propose",
        old="self._confidences[row].append(sure[row])\nreach[row] *= self.rule.probability(sure[row])",
        new=(
            "reach[row] *= self.rule.probability(sure[row])\n"
            "if reach[row] >= least:\n"
            "    self._confidences[row].append(sure[row])"
        ),
        seen=SUBTLE,
    ),
)
