"""Bugs of drafters, accept rules and warps: of what is drafted, how it is tested, and what is drawn next."""

from minispec.evidence.zoo.mutation import Mutant

PROPOSE = "minispec.core.draft:ModelDrafter.propose"
REJECTION = "minispec.core.verify:verify_rejection"
NEXT_DISTRIBUTION = "minispec.core.verify:next_distribution"
RESIDUAL = "minispec.core.verify:residual"
CUT = "minispec.core.warp:Warp._cut"

TEST = "kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), positions=i, live=testing)"

DRAFT = (
    Mutant(
        name="greedy-draft-soft-q",
        title="the draft takes its most probable token, and reports the softmax as its distribution",
        function=PROPOSE,
        old="rng.categorical(q",
        new="rng.categorical((q == q.amax(-1, keepdim=True)).to(q)",
        seen="huggingface/transformers #32867 and #47932",
    ),
    Mutant(
        name="unwarped-q",
        title="the draft draws from its warped distribution, and reports the unwarped one",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(torch.softmax(logits, dim=-1))",
        seen="huggingface/transformers #47932",
    ),
    Mutant(
        name="q-without-temperature",
        title="the draft forgets the temperature when it reports its distribution",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(Warp(1.0, warp.top_k, warp.top_p)(logits))",
        seen="huggingface/transformers #47932",
    ),
    Mutant(
        name="drawn-unwarped",
        title="the draft reports its warped distribution, and draws from the unwarped one",
        function=PROPOSE,
        old="rng.categorical(q",
        new="rng.categorical(torch.softmax(logits, dim=-1)",
    ),
    Mutant(
        name="stored-q-rounded",
        title="the draft's distribution is kept in bfloat16 until it is needed",
        function=PROPOSE,
        old="dists.append(q)",
        new="dists.append(q.bfloat16().to(q))",
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
    ),
)

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
        seen="not seen; lablup/mlxcel #992 says why the fresh draw alone, emitted either way, is right",
    ),
    Mutant(
        name="one-number-for-all-places",
        title="one uniform number serves all positions: given that it passed before, it passes more easily",
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
            "share = ((ratio - below) / drawn).clamp(0, 1).nan_to_num(0)\n"
            "kept = rng.bernoulli(share, positions=i, live=testing)"
        ),
    ),
    Mutant(
        name="rounded-ratio",
        title="the ratio is taken of probabilities in bfloat16",
        function=REJECTION,
        old="ratio = p[:, i].gather(1, token)[:, 0]",
        new="ratio = p[:, i].bfloat16().double().gather(1, token)[:, 0]",
    ),
    Mutant(
        name="ratio-inverted",
        title="accept with probability q/p",
        function=REJECTION,
        old="ratio = p[:, i].gather(1, token)[:, 0] / q[:, i].gather(1, token)[:, 0]",
        new="ratio = q[:, i].gather(1, token)[:, 0] / p[:, i].gather(1, token)[:, 0]",
        seen="not seen; two conventions: some code calls the draft p and the target q",
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
        seen="not seen as a bug; Medusa (arXiv 2401.10774) means it: faster, and another distribution",
    ),
    Mutant(
        name="going-on-after-a-rejection",
        title="tokens after a rejected one are tested, and counted",
        function=REJECTION,
        old="testing = testing & kept & (i + 1 < lengths)",
        new="testing = testing & (i + 1 < lengths)",
    ),
    Mutant(
        name="padding-tested",
        title="padding after a short draft is tested as if it had been drafted",
        function=REJECTION,
        old="testing = testing & kept & (i + 1 < lengths)",
        new="testing = testing & kept",
        crosses_rows=True,
    ),
    Mutant(
        name="drafts-support-for-p",
        title="what the draft's top-k and top-p exclude is removed from the target's distribution too",
        function=REJECTION,
        old="q = draft.probs.double()",
        new=(
            "q = draft.probs.double()\n"
            "inside = torch.cat([p[:, :-1] * (q > 0), p[:, -1:]], dim=1)\n"
            "mass = inside.sum(-1, keepdim=True)\n"
            "p = torch.where(mass > 0, inside / mass, p)"
        ),
    ),
    Mutant(
        name="greedy-counts-all-matches",
        title="the greedy rule counts all agreements, not those before the first difference",
        function="minispec.core.verify:verify_greedy",
        old="agrees.long().cumprod(-1).sum(-1)",
        new="agrees.long().sum(-1)",
    ),
    Mutant(
        name="coupled-going-on",
        title="the coupled rule goes on where draft and target differ",
        function="minispec.rules.coupled:verify_coupled",
        old="going = going & (i < lengths) & (token == draft.tokens[:, i])",
        new="going = going & (i < lengths)",
    ),
)

NEXT = (
    Mutant(
        name="no-way-out-of-a-zero-residual",
        title="a residual without mass is divided by zero",
        function=RESIDUAL,
        old="torch.where(mass > 0, lacking / mass.clamp(min=torch.finfo(p.dtype).tiny), p)",
        new="lacking / mass",
        seen="jaymody/speculative-sampling #5",
        effect="breaks",
        harm="where p = q but for rounding, the next distribution is NaN",
    ),
    Mutant(
        name="residual-absolute",
        title="the residual is |p − q|",
        function=RESIDUAL,
        old="(p - q).clamp(min=0)",
        new="(p - q).abs()",
    ),
    Mutant(
        name="residual-with-an-epsilon",
        title="the residual gets a little mass everywhere, so that it is never zero",
        function=RESIDUAL,
        old="(p - q).clamp(min=0)",
        new="(p - q).clamp(min=1e-4)",
    ),
    Mutant(
        name="correction-from-p",
        title="after a rejection, draw from p itself",
        function=NEXT_DISTRIBUTION,
        old="return torch.where(rejected[:, None], residual(here, there), here)",
        new="return here",
        seen="not seen; the plausible shortcut",
    ),
    Mutant(
        name="residual-of-the-last-place",
        title="the residual is formed with the draft's last distribution, wherever the rejection was",
        function=NEXT_DISTRIBUTION,
        old="there = q[each, accepted.clamp(max=q.shape[1] - 1)]",
        new="there = q[:, -1]",
    ),
    Mutant(
        name="bonus-from-the-place-before",
        title="the bonus is drawn from the target's distribution at the last drafted token, not after it",
        function=NEXT_DISTRIBUTION,
        old="here = p[each, accepted]",
        new="here = p[each, accepted.clamp(max=max(q.shape[1] - 1, 0))]",
    ),
    Mutant(
        name="bonus-from-the-draft",
        title="the bonus is drawn from the draft's last distribution",
        function=NEXT_DISTRIBUTION,
        old="residual(here, there), here)",
        new="residual(here, there), there)",
    ),
)

WARPS = (
    Mutant(
        name="top-k-keeps-ties",
        title="top-k keeps all tokens as probable as the k-th",
        function=CUT,
        old="ranked[..., self.top_k :] = 0",
        new="least = ranked[..., : self.top_k].amin(-1, keepdim=True)\nranked[ranked < least] = 0",
        seen="huggingface/transformers, by reading: its top-k warper compares with the k-th value",
    ),
    Mutant(
        name="top-p-one-short",
        title="top-p drops the token that reaches it",
        function=CUT,
        old="before = share.cumsum(-1) - share",
        new="before = share.cumsum(-1)",
    ),
    Mutant(
        name="top-p-of-the-whole",
        title="top-p counts mass before top-k has rescaled it",
        function=CUT,
        old="share = ranked.double() / ranked.double().sum(-1, keepdim=True)",
        new="share = ranked.double()",
    ),
    Mutant(
        name="cut-not-rescaled",
        title="what top-k and top-p leave is not rescaled to 1",
        function=CUT,
        old="return kept / kept.sum(-1, keepdim=True)",
        new="return kept",
    ),
    Mutant(
        name="temperature-after-the-cut",
        title="the temperature is applied after top-k and top-p",
        function="minispec.core.warp:Warp.__call__",
        old="probs = torch.softmax(lowered / self.temperature, dim=-1).to(wide.dtype)",
        new=(
            "left = self._cut(torch.softmax(lowered, dim=-1))\n"
            "return torch.softmax(left.log() / self.temperature, dim=-1).to(wide.dtype)"
        ),
        seen="not seen as a bug; ggml-org/llama.cpp applies it last, on purpose",
    ),
    Mutant(
        name="ties-to-the-highest-id",
        title="temperature 0 takes the highest of equally good ids",
        function="minispec.core.warp:lowest_argmax",
        old="return values.argmax(-1)",
        new="return values.shape[-1] - 1 - values.flip(-1).argmax(-1)",
        seen="not seen as a bug; torch.argmax before 1.7 left open which maximum it returned",
    ),
)
