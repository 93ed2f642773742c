"""Private tests of assignment 2, distil by three divergences. `hand_out.py` puts in a student's own seed.

The target's next token depends on the last two, the draft reads one: it cannot be right everywhere. So the
three divergences end in different drafts, and what can be reached is known.
"""

from copy import deepcopy
from random import Random

import torch
from otter.test_files import test_case
from torch import nn

from minispec.classroom.running import Malformed, read_number, read_tensor, value_of
from minispec.evidence.theory import formulas

OK_FORMAT = False
SEED = "practice"
name = "distil"

SIZE = 6
PROMPTS = 64
TOKENS = 8
STEPS = 80
SECONDS = 60


class Table(nn.Module):
    """A model whose next token depends on the last ones, two or one."""

    def __init__(self, reads, scale, generator):
        super().__init__()
        self.reads = reads
        self.logits = nn.Parameter(scale * torch.randn(SIZE**reads, SIZE, generator=generator))

    def forward(self, tokens):
        """Returns logits [B, n, V]."""
        key = tokens
        if self.reads == 2:
            before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
            key = SIZE * before + tokens
        return self.logits[key]


class Counting(nn.Module):
    """A model of which each next token is certain: the last one and so many more."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, tokens):
        """Returns logits [B, n, V]."""
        following = nn.functional.one_hot((tokens + self.step) % SIZE, SIZE)
        return torch.where(following > 0, 0.0, -1e9)


def parameters(seed):
    """Returns what the report is about."""
    rng = Random(f"{seed} report")
    steps = rng.choice((400, 600))
    return {"temperature": rng.choice((0.7, 0.8, 1.0)), "steps": steps, "k": rng.randrange(3, 8)}


RNG = Random(f"{SEED} tests")
GENERATOR = torch.Generator().manual_seed(RNG.getrandbits(31))
KINDS = ("kl", "reverse", "tv")


def exactly(kind, p_logits, q_logits):
    """Returns a divergence of two distributions, by somebody else's code."""
    if kind == "tv":
        return formulas.total_variation(p_logits.softmax(-1), q_logits.softmax(-1))
    p, q = (torch.distributions.Categorical(logits=logits) for logits in (p_logits, q_logits))
    return float(torch.distributions.kl_divergence(*((p, q) if kind == "kl" else (q, p))))


@test_case(name="three divergences", points=3)
def divergences(divergence):
    """Values, a mean over positions, also where a probability is 0."""
    for shape in ((1, 5), (2, 3, 4)):
        p, q = (2 * torch.randn(shape, generator=GENERATOR, dtype=torch.float64) for _ in range(2))
        pairs = [*zip(p.reshape(-1, shape[-1]), q.reshape(-1, shape[-1]), strict=True)]
        for kind in KINDS:
            found = read_number(value_of(divergence, kind, p, q))
            values = {other: sum(exactly(other, *pair) for pair in pairs) / len(pairs) for other in KINDS}
            words = f"{kind} of {list(shape)} logits is {values[kind]:.5f}, not {found:.5f}"
            if abs(found - values["reverse" if kind == "kl" else "kl"]) < 1e-6:
                words += ": p and q are the wrong way round"
            assert abs(found - values[kind]) < 1e-6, f"{words}."


@test_case(name="one of them learns", points=1)
def gradients(divergence):
    """The gradient reaches the draft, and ends before the target."""
    for kind in KINDS:
        p, q = (torch.randn(3, 5, generator=GENERATOR).requires_grad_() for _ in range(2))
        loss = divergence(kind, p, q) if callable(divergence) else None
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            raise Malformed(f"{kind}: a scalar is wanted that the draft can learn from")
        loss.backward()
        assert q.grad is not None and float(q.grad.abs().sum()) > 0, f"{kind}: the draft gets no gradient."
        assert p.grad is None or float(p.grad.abs().sum()) == 0, f"{kind}: a gradient goes to the target."


@test_case(name="who writes", points=2)
def writers(write):
    """The target or the draft, after the prompt; drawn, and not the most probable."""
    torch.manual_seed(RNG.getrandbits(31))
    prompts = torch.tensor([[0, 1], [2, 3], [4, 5]])
    models = Counting(1), Counting(2)
    for policy, step in (("off", 1), ("on", 2)):
        texts = read_tensor(value_of(write, policy, *models, prompts, 4), (3, 6)).long()
        assert torch.equal(texts[:, :2], prompts), "The text begins with the prompt."
        expected = (prompts[:, 1:] + step * torch.arange(1, 5)) % SIZE
        assert torch.equal(texts[:, 2:], expected), f"{policy}-policy texts are not those of the right model."
    even = Table(1, 0.0, GENERATOR)
    prompts = torch.zeros(600, 1, dtype=torch.long)
    texts = read_tensor(value_of(write, "off", even, even, prompts, 1), (600, 2))
    shares = torch.bincount(texts[:, 1].long(), minlength=SIZE) / 600
    assert float(shares.min()) > 0.08, "Six equally probable ids do not come equally often: draw them."


@test_case(name="acceptance", points=2)
def alphas(acceptance):
    """The mean of Σ min(p, q) over what comes after the prompt."""
    target, draft = Table(2, 1.5, GENERATOR), Table(1, 1.5, GENERATOR)
    texts = torch.randint(SIZE, (4, 9), generator=GENERATOR)
    for prompt in (1, 3):
        found = read_number(value_of(acceptance, target, draft, texts, prompt))
        expected = alpha_of(target, draft, texts, prompt)
        words = f"α of these texts is {expected:.4f}, not {found:.4f}"
        if abs(found - alpha_of(target, draft, texts, prompt + 1)) < 1e-6:
            words += ": the first token after the prompt is decided by the last token of the prompt"
        assert abs(found - expected) < 1e-5, f"{words}."


def alpha_of(target, draft, texts, prompt):
    """Returns α over the positions after a prompt."""
    with torch.no_grad():
        p, q = (model(texts)[:, prompt - 1 : -1].softmax(-1).reshape(-1, SIZE) for model in (target, draft))
    return sum(formulas.acceptance(*pair) for pair in zip(p, q, strict=True)) / len(p)


@test_case(name="training", points=4)
def training(distil):
    """Each of six drafts comes near to what a draft that reads one token can reach."""
    torch.manual_seed(RNG.getrandbits(31))
    target = Table(2, 2.0, GENERATOR)
    begun = Table(1, 1.0, GENERATOR)
    prompts = torch.randint(SIZE, (PROMPTS, 2), generator=GENERATOR)
    texts = drawn(target, prompts, 40)
    reached = alpha_of(target, mean_of(target, texts), texts, 2)
    before = alpha_of(target, begun, texts, 2)
    kept = deepcopy(target.state_dict())
    for kind in KINDS:
        for policy in ("off", "on"):
            draft = deepcopy(begun)
            given = kind, policy, target, draft, prompts, TOKENS, STEPS
            value_of(lambda *given: distil(*given) or True, *given, seconds=SECONDS)
            same = all(torch.equal(value, kept[key]) for key, value in target.state_dict().items())
            assert same, "The target has been changed."
            alpha = alpha_of(target, draft, texts, 2)
            words = f"{kind}, {policy}-policy: α goes from {before:.3f} to {alpha:.3f}"
            assert alpha > 0.9 * reached, f"{words}; {reached:.3f} can be reached."


def drawn(model, texts, tokens):
    """Returns texts that go on with so many tokens."""
    for _ in range(tokens):
        with torch.no_grad():
            following = model(texts)[:, -1].softmax(-1).multinomial(1, generator=GENERATOR)
        texts = torch.cat([texts, following], 1)
    return texts


def mean_of(target, texts):
    """Returns a draft that has for each token the mean of the target's distributions after it."""
    draft = Table(1, 0.0, GENERATOR)
    with torch.no_grad():
        p = target(texts).softmax(-1)
        rows = [p[texts == token].mean(0) for token in range(SIZE)]
        draft.logits.copy_(torch.stack(rows).log())
    return draft
