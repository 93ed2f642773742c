# %% [markdown]
# # 1. Generate one token at a time
#
# **You'll do**: step through a run of speculative decoding, write text one token at a time, and
# measure how long your machine takes for one token and for five.
#
# **You'll learn**: why a large model writes slowly although its computer is mostly idle, and what
# can be done with the idle part.
#
# **You'll need**: Python, and a rough idea of what a language model does.
#
# **Time**: 25 minutes, and a few seconds of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
recording = load_walkthrough("greedy")  # the same on every machine
print(pair.walkthrough)

# %% [markdown]
# ## The whole method first
#
# Two models continue this story. The small one, the *draft*, guesses some words ahead. The large
# one, the *target*, looks at all guesses at once, keeps those that it would have written itself,
# and corrects the first that it would not. Click through two rounds with **next**, or use the arrow
# keys.

# %%
from minispec.show.stepper import Stepper

Stepper(recording, rounds=2, title="Two rounds of speculative decoding")

# %% [markdown]
# You need not understand all of it yet. Eleven notebooks take it apart. This one asks the question
# that comes before: why would anybody want to guess?
#
# ## What a model computes
#
# A model reads *tokens*: words, or pieces of words. For each token that it has read, it says how
# likely every token of its vocabulary is to come next. That is a probability *distribution*. Here
# are the five most probable tokens of the target's distribution after the story above.

# %%
with torch.inference_mode():
    logits = target(torch.tensor([prompt]))  # [1, n, V]: a row for each of the n tokens
distribution = minispec.Warp(temperature=1)(logits[0, -1])  # [V]: what follows the last token
best = distribution.topk(5)
for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
    print(f"{probability:6.1%} {pair.tokenizer.piece(token)!r}")
assert abs(float(distribution.sum()) - 1) < 1e-5

# %% [markdown]
# To *decode greedily* is to take the most probable token. It is appended to the text, and the model
# runs again. Write that loop. `goal` shows what is wanted. Replace the `...` with your answer and
# run the cell: `check` looks at it. A wrong answer stops nothing. If you are stuck, ask in a cell
# of your own: `hint("continue-greedily", 1)`, and then 2.

# %%
goal("continue-greedily")


# %% tags=["exercise"]
def continue_greedily(model, prompt, n):
    """Returns the n token ids that the model finds most probable, one after another.

    model(torch.tensor([ids])) gives logits [1, len(ids), V]: row i is about what follows ids[i].
    """
    ...


check("continue-greedily", continue_greedily)

# %% [markdown]
# ## One forward, one token
#
# The package has this loop too, as `generate`. It is the reference in all notebooks: whatever we do
# to be faster, this is the text that must come out. A run of the target through its layers is
# called a *forward*.

# %%
from minispec.classroom.parts import Limited

counted = Limited(target, most=100)  # the target, and a counter
greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
steps = list(minispec.generate(counted, [prompt], max_new_tokens=20, warp=greedy, rng=rng))
print(pair.tokenizer.decode([step[0] for step in steps]))
print(f"\n{len(steps)} tokens, {counted.calls - 1} forwards, and one to read the prompt")
assert counted.calls - 1 == len(steps)

# %% [markdown]
# Each forward needs the token of the one before. So no two of them can run at the same time, on
# whatever machine. Is the machine at least busy while it runs one?

# %% tags=["predict"]
predict(
    "what-limits",
    {
        "a": "the arithmetic",
        "b": "both about the same",
        "c": "reading the weights",
    },
    guess=None,
)

# %% [markdown]
# To make one token, every weight is used once: one multiplication, one addition. And to be used, it
# has to come from memory. Here are both times, for one new token in a forward, for 5 and for 100.

# %% tags=["claim-B2"]
from minispec.evidence.theory.formulas import Hardware, balanced_tokens, forward_cost
from minispec.show.plots.memory import bytes_against_arithmetic

chip = Hardware("a chip with 1 TB/s and 100 Tflop/s", bandwidth=1e12, arithmetic=100e12)
one, five, hundred = (forward_cost(7e9, 2, chip, tokens) for tokens in (1, 5, 100))
assert one.moving == five.moving and round(five.computing / one.computing) == 5
assert round(one.moving / one.computing) == round(balanced_tokens(2, chip)) == 100
bytes_against_arithmetic([one, five, hundred], chip, "a model of 7 billion weights")

# %% [markdown]
# The blue bar does not grow. Weights that have been read can serve any number of positions. The
# time of a forward is about the longer of the two bars, so five positions should take as long as
# one.
#
# That is arithmetic on paper, about a model that is not here. What about yours?

# %% tags=["predict"]
five_guess = predict("five-positions", guess=None)
five_guess

# %% tags=["claim-B2"]
from minispec.evidence.bench.measure import measure_latency
from minispec.show.plots.speed import latency

times = measure_latency(target, widths=(1, 2, 5, 9, 17), cached=64, repeats=20, name="target")
times += measure_latency(draft, widths=(1, 2, 5, 9, 17), cached=64, repeats=20, name="draft")
t = {(time.model, time.width): time.seconds for time in times}
latency(times, at=5, guess=five_guess.value)

# %%
ratio = t["target", 5] / t["target", 1]
if ratio < 2:
    print("Here too: five positions in one forward are far cheaper than five forwards.")
elif ratio < 5:
    print("Five positions in one forward are cheaper than five forwards here, though not free.")
else:
    print("Here they are not. Is the machine busy? Run the cell above again.")
print(f"A step of the draft takes {t['draft', 1] / t['target', 1]:.2f} of a step of the target.")
five_guess.against(ratio)

# %% [markdown]
# Our models are small. Much of their time goes into starting each operation, rather than into
# reading weights. The conclusion is the same: a forward has a cost that does not depend on how many
# positions go through it.
#
# ## Speculative execution
#
# A processor does not wait at a branch. It guesses which way the program will go and works ahead.
# If the guess was right, time is saved; if not, the work is wasted. Here a small model makes the
# guesses, and the large one checks five of them in one pass.
#
# Run it on the story from above. Both models count their forwards.

# %% tags=["claim-A6", "claim-B3", "misleads-single-pass"]
large, small = Limited(target, most=1000), Limited(draft, most=1000)
settings = dict(max_new_tokens=100, warp=greedy, rng=rng, eos=pair.tokenizer.end_of_text)
drafter, rule = minispec.ModelDrafter(small), minispec.verify_greedy
run = minispec.record(large, drafter, [prompt], k=5, verifier=rule, **settings)
counts = run.statistics()
print(f"{counts.emitted} tokens, {counts.target_calls} passes of the target")
print(f"{counts.tokens_per_target_call:.2f} tokens a pass")
print(f"{small.calls} forwards of the draft: the prompt, each guess, and a few to catch up")
assert large.calls == 1 + counts.target_calls < counts.emitted  # the 1 reads the prompt
assert small.calls > counts.drafted

# %% [markdown]
# It is sometimes said that all of this happens within a single forward pass. That is so in other
# methods, such as Medusa, where extra heads of the target itself guess ahead. Our draft model runs
# on its own, token by token, and the target waits for it. Here are the first rounds over time, if a
# step of the draft takes a tenth of a pass.

# %% tags=["claim-E1"]
from minispec.show.plots.timeline import WorkTimes, speculative_spans, timeline

work = WorkTimes(target=1.0, draft=0.1, verify=1.0)
last = speculative_spans(run, work)[-1]
assert last.end < counts.emitted * work.target
timeline(run, recording.words, work, tokens=12)

# %% [markdown]
# Which tokens were easy? Here is the whole text. What the draft got right is marked ✓. At each
# correction (✗), ask yourself what one would have had to remember. When all five guesses were
# right, the same pass gives a sixth token, the target's own (★).

# %% tags=["claim-B1"]
from minispec.show.plots.coloured import coloured_text

print(f"{counts.acceptance:.0%} of the guesses that were tested were kept")
assert counts.accepted > counts.tested / 2  # most tokens are easy, even for a small model
coloured_text(run, recording.words)

# %% [markdown]
# Is it still the target's text? Let the target write alone.

# %% tags=["claim-A7"]
alone = [step[0] for step in minispec.generate(target, [prompt], **settings)]
assert alone == run.tokens() == recording.trace.tokens()
print(f"{len(alone)} tokens, and all of them the same: {alone == run.tokens()}")

# %% [markdown]
# ## Recap
#
# - A model writes one token per forward, and each forward needs the token of the one before.
# - Every forward reads all weights. For one token, a large model waits for memory most of the time.
# - So a few more positions in the same forward cost little. Those positions can hold guesses.
# - Speculative decoding does this: a small model guesses ahead, the large one checks all guesses in
#   one pass, and the text is the one that the large model writes alone.
#
# Next, notebook 2: what a forward keeps, so that the next one need not read the text again from the
# start.
