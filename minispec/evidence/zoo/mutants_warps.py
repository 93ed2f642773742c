"""Bugs of laws: of the token behind the accepted prefix, and of the warp."""

from minispec.evidence.zoo.mutants_rules import COMMON, SUBTLE
from minispec.evidence.zoo.mutation import Mutant

NEXT_LAW = "minispec.core.verify:next_distribution"
RESIDUAL = "minispec.core.verify:residual"
WARP = "minispec.core.warp:Warp.__call__"
CUT = "minispec.core.warp:Warp._cut"

NEXT = (
    Mutant(
        name="no-way-out-of-a-zero-residual",
        title="a residual without mass is divided by zero",
        function=RESIDUAL,
        old="torch.where(mass > 0, lacking / mass.clamp(min=torch.finfo(p.dtype).tiny), p)",
        new="lacking / mass",
        seen="jaymody/speculative-sampling #5",
        effect="breaks",
        harm="where p = q but for rounding, the next law is NaN",
    ),
    Mutant(
        name="residual-absolute",
        title="the residual is |p − q|",
        function=RESIDUAL,
        old="(p - q).clamp(min=0)",
        new="(p - q).abs()",
        seen=COMMON,
    ),
    Mutant(
        name="residual-with-an-epsilon",
        title="the residual gets a little mass everywhere, so that it is never zero",
        function=RESIDUAL,
        old="(p - q).clamp(min=0)",
        new="(p - q).clamp(min=1e-4)",
        seen=SUBTLE,
    ),
    Mutant(
        name="correction-from-p",
        title="after a rejection, draw from p itself",
        function=NEXT_LAW,
        old="return torch.where(rejected[:, None], residual(here, there), here)",
        new="return here",
        seen="not seen; the plausible shortcut",
    ),
    Mutant(
        name="residual-of-the-last-place",
        title="the residual is formed with the draft's last law, wherever the rejection was",
        function=NEXT_LAW,
        old="there = q[each, accepted.clamp(max=q.shape[1] - 1)]",
        new="there = q[:, -1]",
        seen=COMMON,
    ),
    Mutant(
        name="bonus-from-the-place-before",
        title="the bonus is drawn from the target's law at the last drafted token, not behind it",
        function=NEXT_LAW,
        old="here = p[each, accepted]",
        new="here = p[each, accepted.clamp(max=max(q.shape[1] - 1, 0))]",
        seen=COMMON,
    ),
    Mutant(
        name="bonus-from-the-draft",
        title="the bonus is drawn from the draft's last law",
        function=NEXT_LAW,
        old="residual(here, there), here)",
        new="residual(here, there), there)",
        seen=COMMON,
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
        seen=COMMON,
    ),
    Mutant(
        name="top-p-of-the-whole",
        title="top-p counts mass before top-k has rescaled it",
        function=CUT,
        old="share = ranked.double() / ranked.double().sum(-1, keepdim=True)",
        new="share = ranked.double()",
        seen=SUBTLE,
    ),
    Mutant(
        name="cut-not-rescaled",
        title="what top-k and top-p leave is not rescaled to 1",
        function=CUT,
        old="return kept / kept.sum(-1, keepdim=True)",
        new="return kept",
        seen=COMMON,
    ),
    Mutant(
        name="temperature-after-the-cut",
        title="the temperature is applied after top-k and top-p",
        function=WARP,
        old="probs = torch.softmax(lowered / self.temperature, dim=-1).to(wide.dtype)",
        new=(
            "left = self._cut(torch.softmax(lowered, dim=-1))\n"
            "return torch.softmax(left.log() / self.temperature, dim=-1).to(wide.dtype)"
        ),
        seen="ggml-org/llama.cpp applies it last, on purpose",
    ),
    Mutant(
        name="ties-to-the-highest-id",
        title="temperature 0 takes the highest of equally good ids",
        function="minispec.core.warp:lowest_argmax",
        old="return values.argmax(-1)",
        new="return values.shape[-1] - 1 - values.flip(-1).argmax(-1)",
        seen="torch.argmax before 1.7, which left open which maximum it returned",
    ),
)
