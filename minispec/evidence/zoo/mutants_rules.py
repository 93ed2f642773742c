"""Bugs of the rules: of what is drafted, and of how it is tested."""

from minispec.evidence.zoo.mutation import Mutant

PROPOSE = "minispec.core.draft:ModelDrafter.propose"
REJECTION = "minispec.core.verify:verify_rejection"

TEST = "kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), positions=i, live=testing)"
SUBTLE = "not seen; a subtle one"
COMMON = "not seen; a slip of the pen"

DRAFT = (
    Mutant(
        name="greedy-draft-soft-q",
        title="the draft takes its most probable token, and reports the softmax as its law",
        function=PROPOSE,
        old="rng.categorical(q",
        new="rng.categorical((q == q.amax(-1, keepdim=True)).to(q)",
        seen="huggingface/transformers #32867 and #47932",
    ),
    Mutant(
        name="unwarped-q",
        title="the draft draws from its warped law, and reports the unwarped one",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(torch.softmax(logits, dim=-1))",
        seen="huggingface/transformers #32867 and #47932",
    ),
    Mutant(
        name="q-without-temperature",
        title="the draft forgets the temperature when it reports its law",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(Warp(1.0, warp.top_k, warp.top_p)(logits))",
        seen="huggingface/transformers #32867 and #47932",
    ),
    Mutant(
        name="drawn-unwarped",
        title="the draft reports its warped law, and draws from the unwarped one",
        function=PROPOSE,
        old="rng.categorical(q",
        new="rng.categorical(torch.softmax(logits, dim=-1)",
        seen=SUBTLE,
    ),
    Mutant(
        name="stored-q-rounded",
        title="the draft's law is kept in bfloat16 until it is needed",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(q.bfloat16().to(q))",
        seen=SUBTLE,
    ),
    Mutant(
        name="unsure-tokens-dropped",
        title="a drafted token that the draft was unsure of is dropped before verification",
        function=PROPOSE,
        old="return Draft(torch.stack(tokens, 1), torch.stack(dists, 1))",
        new=(
            "chosen = [q.gather(1, token[:, None]) for q, token in zip(dists, tokens, strict=True)]\n"
            "sure = (torch.cat(chosen, dim=1) >= 0.5).long().cumprod(dim=1).sum(dim=1)\n"
            "return Draft(torch.stack(tokens, 1), torch.stack(dists, 1), sure)"
        ),
        seen=SUBTLE,
    ),
)

ACCEPT = (
    Mutant(
        name="accept-if-a-fresh-draw-agrees",
        title="accept where a fresh draw of the target says the same, else draw from the residual",
        function=REJECTION,
        old=TEST,
        new=(
            "fresh = rng.categorical(p[:, i], positions=i, live=testing)\n"
            "kept = (fresh == token[:, 0]) & testing"
        ),
        seen="ml-explore/mlx-swift-lm #459",
    ),
    Mutant(
        name="one-number-for-all-places",
        title="one uniform number serves all places: given that it passed before, it passes more easily",
        function=REJECTION,
        old=TEST,
        new=(
            "before = lowest if i else torch.ones_like(ratio)  # the number is known to lie below this\n"
            "lowest = torch.minimum(before, ratio)\n"
            "kept = rng.bernoulli((ratio / before).clamp(max=1).nan_to_num(0), positions=i, live=testing)"
        ),
        seen="feifeibear/LLMSpeculativeSampling, by reading",
    ),
    Mutant(
        name="test-reuses-the-draw",
        title="the number that drew the token also decides whether it is accepted",
        function=REJECTION,
        old=TEST,
        new=(
            "drawn = q[:, i].gather(1, token)[:, 0]\n"
            "below = q[:, i].cumsum(-1).gather(1, token)[:, 0] - drawn  # of the number\n"
            "chance = ((ratio - below) / drawn).clamp(0, 1).nan_to_num(0)\n"
            "kept = rng.bernoulli(chance, positions=i, live=testing)"
        ),
        seen=SUBTLE,
    ),
    Mutant(
        name="rounded-ratio",
        title="the ratio is taken of probabilities in bfloat16",
        function=REJECTION,
        old="ratio = p[:, i].gather(1, token)[:, 0]",
        new="ratio = p[:, i].bfloat16().double().gather(1, token)[:, 0]",
        seen=SUBTLE,
    ),
    Mutant(
        name="ratio-inverted",
        title="accept with chance q/p",
        function=REJECTION,
        old="ratio = p[:, i].gather(1, token)[:, 0] / q[:, i].gather(1, token)[:, 0]",
        new="ratio = q[:, i].gather(1, token)[:, 0] / p[:, i].gather(1, token)[:, 0]",
        seen="two conventions: some code calls the draft p and the target q",
    ),
    Mutant(
        name="typical-acceptance",
        title="accept whatever the target finds likely enough",
        function=REJECTION,
        old=TEST,
        new=(
            "likely = p[:, i].gather(1, token)[:, 0] > 0.3\n"
            "kept = rng.bernoulli(likely.double(), positions=i, live=testing)"
        ),
        seen="Medusa (arXiv 2401.10774), where it is meant: faster, and another law",
    ),
    Mutant(
        name="going-on-after-a-rejection",
        title="tokens behind a rejected one are tested, and counted",
        function=REJECTION,
        old="testing = testing & kept & (i + 1 < lengths)",
        new="testing = testing & (i + 1 < lengths)",
        seen=SUBTLE,
    ),
    Mutant(
        name="padding-tested",
        title="padding behind a short draft is tested as if it had been drafted",
        function=REJECTION,
        old="testing = testing & kept & (i + 1 < lengths)",
        new="testing = testing & kept",
        seen="vllm-project/vllm #26498",
        crosses_rows=True,
    ),
    Mutant(
        name="drafts-support-for-p",
        title="what the draft's top-k and top-p exclude is taken from the target's law too",
        function=REJECTION,
        old="q = draft.probs.double()",
        new=(
            "q = draft.probs.double()\n"
            "inside = torch.cat([p[:, :-1] * (q > 0), p[:, -1:]], dim=1)\n"
            "mass = inside.sum(-1, keepdim=True)\n"
            "p = torch.where(mass > 0, inside / mass, p)"
        ),
        seen=SUBTLE,
    ),
    Mutant(
        name="greedy-counts-all-matches",
        title="the greedy rule counts all agreements, not those before the first difference",
        function="minispec.core.verify:verify_greedy",
        old="agrees.long().cumprod(-1).sum(-1)",
        new="agrees.long().sum(-1)",
        seen=COMMON,
    ),
    Mutant(
        name="coupled-going-on",
        title="the coupled rule goes on where draft and target have parted",
        function="minispec.rules.coupled:verify_coupled",
        old="going = going & (i < lengths) & (token == draft.tokens[:, i])",
        new="going = going & (i < lengths)",
        seen=SUBTLE,
    ),
)
