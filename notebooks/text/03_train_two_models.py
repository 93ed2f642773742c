# %% [markdown]
# # 3. Train two models
#
# **You'll do**: train a target and a draft while you watch, compare them with the pair that comes
# with the package, and find the words on which the two disagree.
#
# **You'll learn**: why no loss goes below a certain floor, why most words are easy for a small
# model, and what distilling a draft is good for.
#
# **You'll need**: notebook 1. You should have met cross-entropy.
#
# **Time**: 25 minutes, and about half a minute of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
for name, model in (("target", target), ("draft", draft)):
    c = model.config
    print(f"{name}: {c.layers} x {c.width} (layers x width), {model.parameters_count:,} weights")

# %% [markdown]
# ## Stories from a grammar
#
# A draft is worth something if it often says what the target says, and costs little. So we need two
# models of the same language, one large and one small. The language here is made for it.

# %% tags=["nbval-check-output"]
from textwrap import fill

from minispec.train.recipes import STORIES
from minispec.train.stories import draw_stories

(story,) = draw_stories(1, seed=12, friends=2)
print(fill(story.text, 90))
print("\nsettled by an earlier sentence:")
facts = [f"{story.text[f.start : f.end].strip()} ({f.fact})" for f in story.forced]
print(fill(", ".join(facts), 90))

# %% [markdown]
# First the friends are introduced, then they do things. What they *are* is drawn at random. Later,
# a sentence such as "The cat sat on the …" has only one right end: where this cat slept, as the
# introduction said.
#
# Every choice has a probability, and all of them are in `minispec/train/grammar.py`. So one
# question has an answer here that usually has none.

# %% tags=["predict"]
floor_guess = predict(
    "entropy-floor",
    {
        "a": "to zero, with enough training",
        "b": "to the grammar's entropy, and no lower",
        "c": "there is no limit that one could know",
    },
    guess=None,
)
floor_guess

# %% [markdown]
# ## Train, for a few seconds
#
# A *recipe* holds all settings of a training. This one is that of the shipped pair, made small: a
# target of two layers instead of many, hundreds of steps instead of thousands.

# %%
from dataclasses import replace

from minispec.train.dataset import gather
from minispec.train.recipes import CurriculumStage, gpt
from minispec.train.training import train_pair

small = gpt(layers=2, width=64, heads=4, kv_heads=2, ffn=176, vocab_size=512)
easy = CurriculumStage(steps=80, rows=16, window=64, friends=1)
full = CurriculumStage(steps=120, rows=8, window=128, friends=2)
few = CurriculumStage(steps=20, rows=8, window=128, friends=2)
stages = {"target_stages": (easy, full), "draft_stages": (full,), "distill_stages": (few,)}
recipe = replace(STORIES, target=small, stories=2500, **stages)
dataset = gather(recipe, pair.tokenizer, held_out=64)
print(f"{len(dataset.corpus.train)} stories to learn from, 64 others to measure on")

# %% [markdown]
# One call trains three times. The target and the draft learn the stories by cross-entropy. Then the
# draft goes on and learns from the *target*: not which word came, but how probable the target finds
# every word. That is called distilling.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_file

live = []  # what the training reports
with TemporaryDirectory() as folder:
    _, trained = train_pair(recipe, Path(folder), live.append, dataset=dataset)
    written = load_file(Path(folder) / "target.safetensors")  # before any draft was trained
for name, result in trained.items():
    loss = [p.validation for p in live if p.model == name][-1]
    print(f"{name:12} {result.steps} steps, loss {loss:.2f}, {result.seconds:.0f} s")

# %% [markdown]
# The floor can be computed, because each story knows its own probability. Bold lines are yours,
# thin ones with hollow marks were saved when the shipped pair was trained, in minutes rather than
# seconds. (Before its target learned stories, it learned lists of who has what. Meanwhile its loss
# on stories was too high for this figure.)

# %%
from minispec.show.plots.learning import learning
from minispec.train.evaluate import entropy_floor
from minispec.train.publish import history_of

floor = entropy_floor(dataset.corpus, pair.tokenizer, max_length=256)
shipped = {name: of["validation_loss"] for name, of in pair.info["models"].items()}
assert all(p.validation > floor for p in live if p.validation is not None)
assert floor < shipped["target"] < shipped["draft"]
learning(live, history_of(pair.info), floor, guess=floor_guess.value)

# %% [markdown]
# No curve goes through the dashed line. What lies between a curve and the line can still be
# learned. What lies below the line is random: which animal, which toy.

# %% tags=["predict"]
predict(
    "distilled-draft",
    {
        "a": "it gets better too",
        "b": "nothing: it stays as it is",
        "c": "it gets a little worse, to be easier to imitate",
    },
    guess=None,
)

# %% [markdown]
# Your own training has the answer. It saved the target when the target was done, before the draft
# was distilled from it.

# %% tags=["claim-C7", "nbval-check-output"]
weights = trained["target"].model.state_dict()
assert all(torch.equal(weight, written[f"model.{name}"]) for name, weight in weights.items())
print("the target: not one weight has moved while the draft was distilled from it")

# %% [markdown]
# This is why speculative decoding can be added to a model that is in use: the target is not
# retrained.
#
# ## Where they disagree

# %% tags=["predict"]
predict(
    "where-they-disagree",
    {
        "a": "about equally everywhere",
        "b": "at rare words",
        "c": "where an earlier sentence decides",
    },
    guess=None,
)

# %% [markdown]
# Both models of the shipped pair read 60 stories that neither was trained on. At each position they
# say how probable every next token is: p is the target's distribution, q the draft's. What the two
# have in common, the sum of the smaller of p and q, is 1 where they agree and 0 where they
# contradict each other.

# %%
from minispec.train.evaluate import forced_positions, whole_documents

tokens, mask = whole_documents(pair.tokenizer, dataset.corpus.validation, 256, most=60)
with torch.inference_mode():
    p = target(tokens[:, :-1]).softmax(-1)  # [60, n, V]
    q = draft(tokens[:, :-1]).softmax(-1)  # [60, n, V]
common = torch.minimum(p, q).sum(-1)  # [60, n]
real = mask[:, 1:]  # [60, n]: without padding
print(f"{int(real.sum())} positions, in common on average {common[real].mean():.3f}")

# %% [markdown]
# Now sort the positions. *Settled* are those where the grammar leaves no choice because an earlier
# sentence has made it. *Rare* are tokens that come up at most twenty times in the 60 stories.

# %% tags=["claim-B1"]
following = tokens[:, 1:]
rare = real & (torch.bincount(following[real], minlength=target.vocab_size)[following] <= 20)
settled = torch.zeros_like(real)
for number, position, _ in forced_positions(dataset.corpus, pair.tokenizer):
    if number < 60:
        settled[number, position - 1] = True
kinds = {"common": real & ~rare & ~settled, "rare": rare & ~settled, "settled": settled}
for kind, where in kinds.items():
    print(f"{kind:8} {int(where.sum()):5} positions, in common {common[where].mean():.2f}")
shared = {kind: float(common[where].mean()) for kind, where in kinds.items()}
assert shared["common"] > 0.9 and shared["settled"] < min(shared["common"], shared["rare"])

# %% [markdown]
# Most of a text is easy, and easy for both. Here is a text that the two wrote together (notebook 8
# will show how). Above: each drafted token's probability of being kept. Below: how far p and q are
# apart.

# %% tags=["claim-B1"]
from minispec.show.plots.verification import along_the_text, positions_of

recording = load_walkthrough("rejection")
positions = positions_of(recording.trace, recording.words)
near = sum(position.tv < 0.1 for position in positions)
assert near > len(positions) / 2  # agreement is the rule
along_the_text(positions)

# %% [markdown]
# ## How far apart, in one number
#
# The lower bars have a name, *total variation*. It is 0 for equal distributions and 1 for
# distributions that have nothing in common. You will meet it in every notebook to come, so write it
# yourself. Replace the `...` and run the cell; `hint("total-variation", 1)` in a cell of your own
# helps.

# %%
goal("total-variation")


# %% tags=["exercise"]
def total_variation(p, q):
    """Returns the total variation between two distributions, tensors [V]: a number from 0 to 1."""
    ...


check("total-variation", total_variation)

# %% [markdown]
# ## A plain draft and a distilled one
#
# The shipped pair has two drafts of the same size. `draft-plain` has learned from stories. `draft`
# is the same model, then distilled. A draft is there to agree with the target, so that is what we
# compare.

# %% tags=["claim-C9"]
from minispec.evidence.theory.formulas import acceptance

plain = minispec.load_pair("stories", draft="draft-plain").draft
with torch.inference_mode():
    alone = plain(tokens[:, :-1]).softmax(-1)  # [60, n, V]
    kept = {"plain": torch.minimum(p, alone).sum(-1)[real].mean(), "distilled": common[real].mean()}
for name, share in kept.items():
    print(f"{name:10} in common with the target: {share:.3f}, so {1 - share:.3f} is rejected")
assert kept["distilled"] > kept["plain"]
assert abs(acceptance(p[0, 9], q[0, 9]) - common[0, 9]) < 1e-5  # the name of it, from now on

# %% [markdown]
# What p and q have in common is the probability that a drafted token is accepted, given the text
# before it (notebook 6 shows why). Its mean is the *acceptance rate* α. A few points of it are
# worth a lot, because they count at every token.
#
# One thing must be the same in both models, because the rules of these notebooks compare p and q
# token by token: the vocabulary. If token 7 is "cat" here and "hat" there, the draft's guesses mean
# nothing.

# %% tags=["claim-E4", "nbval-check-output"]
from minispec.evidence.proof.models import table_model

foreign = minispec.ModelDrafter(table_model(vocab_size=3))
settings = dict(k=4, verifier=minispec.verify_greedy, max_new_tokens=8)
sampling = dict(warp=minispec.Warp(temperature=0), rng=minispec.SeededRng(0))
try:
    next(minispec.speculate(target, foreign, [[1, 2]], **settings, **sampling))
    raise AssertionError("a draft with other tokens was taken")
except ValueError as error:
    print(error)

# %% [markdown]
# ## Recap
#
# - The loss of the best model is the entropy of the text, not zero.
# - Most tokens are easy, and a small model gets them as well as a large one. The two disagree where
#   one must connect what was said far apart.
# - Distilling trains the draft to say what the target says. Not one weight of the target changes.
# - The probability that a drafted token is accepted is what p and q have in common: 1 minus their
#   total variation.
# - For the rules used here, draft and target must share one vocabulary.
#
# Next, notebook 4: the draft guesses ahead, and remembers how.
