"""Private tests of assignment 5, does EAGLE need features? `hand_out.py` puts in a student's own seed.

The target is small: its feature sums up what came before, and the next one follows from it and one token. So
it is known which inputs are enough, and which cannot be.
"""

from random import Random

import torch
from otter.test_files import test_case
from torch import nn

from minispec.classroom.running import Malformed, read_tensor, value_of

OK_FORMAT = False
SEED = "practice"
name = "features"

SIZE = 8
WIDTH = 12
STEPS = 120
SECONDS = 60
KINDS = ("token", "feature", "both", "shifted")


def parameters(seed):
    """Returns what the report is about."""
    rng = Random(f"{seed} report")
    return {"layers": rng.choice((1, 2)), "steps": rng.choice((300, 400)), "k": rng.randrange(3, 6)}


RNG = Random(f"{SEED} tests")
GENERATOR = torch.Generator().manual_seed(RNG.getrandbits(31))


def draw(*shape):
    """Returns random numbers."""
    return torch.randn(shape, generator=GENERATOR)


class Target(nn.Module):
    """A recurrent model: each feature comes from the one before and from a token."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(draw(SIZE, WIDTH))
        self.turn = nn.Parameter(torch.linalg.qr(draw(WIDTH, WIDTH))[0])
        self.out = nn.Parameter(draw(WIDTH, SIZE))

    def embed(self, tokens):
        """Returns [B, n, D]."""
        return self.embedding[tokens]

    def hidden(self, tokens):
        """Returns the features [B, n, D]."""
        feature = torch.zeros(len(tokens), WIDTH)
        features = []
        for embedded in self.embed(tokens).unbind(1):
            feature = torch.tanh(0.9 * feature @ self.turn + embedded)
            features.append(feature)
        return torch.stack(features, 1)

    def head(self, features):
        """Returns logits [B, n, V]."""
        return features @ self.out


def drawn(target, rows, n):
    """Returns texts of the target [rows, n]."""
    texts = torch.randint(SIZE, (rows, 1), generator=GENERATOR)
    with torch.no_grad():
        for _ in range(n - 1):
            probs = target.head(target.hidden(texts)[:, -1]).softmax(-1)
            texts = torch.cat([texts, probs.multinomial(1, generator=GENERATOR)], 1)
    return texts


@test_case(name="what is read", points=4)
def what_is_read(inputs):
    """Four kinds, told by what changes if a token or a feature does."""
    tokens = torch.randint(SIZE, (2, 6), generator=GENERATOR)
    hidden = draw(2, 5, WIDTH)
    embedding = draw(SIZE, WIDTH)
    other_tokens = (tokens + 1) % SIZE
    place = RNG.randrange(1, 5)
    wanted = {"token": (place - 1, None), "feature": (None, place)}
    wanted |= {"both": (place, place), "shifted": (place - 1, place)}
    for kind in KINDS:
        both = kind in ("both", "shifted")
        shape = (2, 5, WIDTH * (1 + both))

        def read(tokens, hidden, kind=kind, shape=shape):
            return read_tensor(value_of(inputs, kind, tokens, hidden, lambda ids: embedding[ids]), shape)

        changed_tokens = torch.where(torch.arange(6) == place, other_tokens, tokens)
        changed_hidden = hidden + (torch.arange(5) == place)[:, None]
        by_token, by_feature = (
            sorted({int(i) for i in (read(*given) != read(tokens, hidden)).any(-1).nonzero()[:, 1]})
            for given in ((changed_tokens, hidden), (tokens, changed_hidden))
        )
        at_token, at_feature = wanted[kind]
        assert not any(i < place for i in by_feature), (
            f"{kind}: to guess what follows tokens[:, {place}] it reads the feature of that token, "
            "which is what it is to guess."
        )
        assert by_feature == ([] if at_feature is None else [at_feature]), (
            f"{kind}: the feature {place} is read at {by_feature}, and should be at {at_feature}."
        )
        assert by_token == ([] if at_token is None else [at_token]), (
            f"{kind}: the token {place} is read at {by_token}, and should be at {at_token}."
        )


def trained(train, target, texts):
    """Returns a module of each kind."""
    torch.manual_seed(RNG.getrandbits(31))
    modules = {kind: value_of(train, kind, target, texts, STEPS, seconds=SECONDS) for kind in KINDS}
    if not all(isinstance(module, nn.Module) for module in modules.values()):
        raise Malformed("train is to return a module")
    return modules


@test_case(name="a fair ablation", points=2)
def fair(train):
    """Modules of equal size, and a target that stays as it is."""
    target = Target()
    kept = [value.clone() for value in target.parameters()]
    modules = trained(train, target, drawn(target, 8, 6))
    assert all(map(torch.equal, kept, target.parameters())), "The target has been changed."
    sizes = {kind: sum(value.numel() for value in module.parameters()) for kind, module in modules.items()}
    words = f"Their sizes differ, {sizes}: within a fifth, or the larger one may win by its size."
    assert max(sizes.values()) <= 1.2 * min(sizes.values()), words


@test_case(name="training", points=4)
def training(inputs, train):
    """With the feature and the token after it nearly all can be guessed; with less it cannot."""
    target = Target()
    modules = trained(train, target, drawn(target, 48, 12))
    texts = drawn(target, 48, 12)
    with torch.no_grad():
        hidden = target.hidden(texts)
        p = target.head(hidden[:, 1:]).softmax(-1)
        alphas = {}
        for kind, module in modules.items():
            read = value_of(inputs, kind, texts, hidden[:, :-1], target.embed)
            q = target.head(module(read)).softmax(-1)
            alphas[kind] = float(torch.minimum(p, q).sum(-1).mean())
    said = ", ".join(f"{kind} {alpha:.2f}" for kind, alpha in alphas.items())
    others = max(alphas[kind] for kind in ("token", "feature", "both"))
    assert alphas["shifted"] > 0.85, f"{said}: shifted inputs hold what is needed; α should exceed 0.85."
    assert others < alphas["shifted"] - 0.05, f"{said}: another one is as good, and cannot be."
    assert alphas["token"] > 0.25, f"{said}: the token alone should get above 0.25."


@test_case(name="drafting", points=2)
def drafting(draft):
    """After its first guess it reads its own features and tokens, and never asks the target."""
    target = Target()
    tokens = torch.randint(SIZE, (3, 5), generator=GENERATOR)
    hidden = target.hidden(tokens)[:, :-1].detach()

    def refuse(tokens):
        raise Malformed("it asks the target for features while it drafts")

    target.hidden = refuse

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.said = [], []

        def forward(self, read):
            self.read.append(read[:, -1])
            self.said.append(draw(len(read), read.shape[1], WIDTH))
            return self.said[-1]

    for kind in ("feature", "token"):
        module = Watched()
        guesses = read_tensor(value_of(draft, kind, module, target, tokens, hidden, 3), (3, 3)).long()
        for i, said in enumerate(module.said[:3]):
            best = target.head(said[:, -1]).argmax(-1)
            words = f"{kind}: guess {i} is not the most probable id after its feature."
            assert torch.equal(guesses[:, i], best), words
        before = [tokens[:, -1], *guesses.T[:2]]
        own = [hidden[:, -1], *(said[:, -1] for said in module.said[:2])]
        expected = own if kind == "feature" else [target.embed(ids) for ids in before]
        for i, (read, wanted) in enumerate(zip(module.read, expected, strict=True)):
            words = f"for guess {i} it does not read the {kind} before it; after the first these are its own."
            assert torch.allclose(read, wanted), words
