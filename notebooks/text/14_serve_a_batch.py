# %% [markdown]
# # 14. Serve a batch
#
# **You'll do**: let a row that is done go on with the next prompt, see in a picture what that
# saves, and plant two bugs through which texts that share a row disturb each other.
#
# **You'll learn**: what engines call *continuous batching*, why no text depends on what shared its
# batch, and how many rows speculation still pays for.
#
# **You'll need**: notebooks 7 and 8.
#
# **Time**: 40 minutes, and some ten seconds of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import accept_greedy, catch_up, draft, read  # of notebooks 2, 4 and 5
from minispec.train.stories import draw_stories

pair = minispec.load_pair("stories", dtype=torch.float64)
target, small, tokenizer, END = pair.target, pair.draft, pair.tokenizer, pair.tokenizer.end_of_text
stories = [tokenizer.encode(story.text) for story in draw_stories(8, seed=3, friends=2)]
cuts = (112, 30, 130, 116, 50, 36, 71, 101)
prompts = [story[:cut] for story, cut in zip(stories, cuts, strict=True)]
K, CAP, warp, rng = 4, 40, minispec.Warp(temperature=0), minispec.SeededRng(0)
drafter = minispec.ModelDrafter(small)  # the package's

# %% [markdown]
# Eight stories, each cut off at another place. Some lack a few words, and some most of their text.
# At most 40 tokens are to follow each of them.
#
# ## One row
#
# A row holds a text and two caches. A round of it is notebook 8's: both models catch up, the draft
# guesses, the target reads, the rule decides.


# %% tags=["written"]
class Row:
    def __init__(self, prompt_id):
        self.prompt_id, self.text, self.room = prompt_id, list(prompts[prompt_id]), CAP
        self.caches = [model.new_cache(1) for model in (target, small)]


def one_round(row):
    """Draft, verify, roll back: returns what it emits."""
    for model, cache in zip((target, small), row.caches, strict=True):
        catch_up(model, cache, row.text)
    tokens, dists = draft(small, row.caches[1], row.text[-1], min(K, row.room - 1), warp, rng)
    p = warp(read(target, row.caches[0], [row.text[-1], *tokens]))
    return accept_greedy(tokens, dists, p, rng)


def commit(row, emitted):
    """Adds what was emitted, up to the end of the text; returns what was added."""
    added = emitted[: emitted.index(END) + 1] if END in emitted else emitted
    row.text, row.room = row.text + added, 0 if END in added else row.room - len(added)
    return tuple(added)


# %%
def alone(prompt_id):
    """Decodes one prompt: its new tokens, and how many rounds they took."""
    row, rounds = Row(prompt_id), 0
    while row.room > 0:
        commit(row, one_round(row))
        rounds += 1
    return tuple(row.text[len(prompts[prompt_id]) :]), rounds


texts, needs = zip(*map(alone, range(8)), strict=True)
print("prompt", *(f"{prompt_id:4}" for prompt_id in range(8)))
print("tokens", *(f"{len(text):4}" for text in texts))
print("rounds", *(f"{rounds:4}" for rounds in needs))
assert max(needs) > 9 * min(needs)

# %% [markdown]
# ## Four rows
#
# Now four rows at a time. (The package reads all rows in one forward. We read one row after
# another, to the same effect, and count as if it were one.) Look at the rounds that each prompt
# needs, and work it out before you run on.

# %% tags=["predict"]
in_turns = predict("slots-in-turns", guess=None)
in_turns

# %% tags=["predict"]
refilled_share = predict("slots-refilled", guess=None)
refilled_share

# %% [markdown]
# ## The refill step
#
# It decides which rows go on with which prompts. The loop below takes your function if it is right.
# If you are stuck: `hint("refill-rows", 1)`, and then 2.

# %%
goal("refill-rows")


# %% tags=["exercise"]
def refill_rows(done, waiting, space):
    """Returns (placed, left): which rows begin which prompts, and which prompts wait still.

    done: for each row, whether its text has ended.
    waiting: the prompts that wait, by their numbers, in the order in which they came.
    space: space[name] is how many tokens prompt `name` may get. One that may get none takes no
    row, and waits no longer.
    placed: pairs (row, name), rows ascending; each of these prompts begins in one row.
    """
    ...


check("refill-rows", refill_rows)

# %% [markdown]
# Here is ours: free rows and waiting prompts, each in their order, and as many pairs as there are.


# %% tags=["written", "nbval-check-output"]
def next_in_line(done, waiting, space):
    """Returns which rows begin which prompts, and which prompts wait still."""
    waiting = [prompt_id for prompt_id in waiting if space[prompt_id] > 0]
    free = [row for row, ended in enumerate(done) if ended]
    placed = list(zip(free, waiting, strict=False))
    return placed, waiting[len(placed) :]


placed, waiting = next_in_line([True, False, True, False], [4, 5, 6], space=[CAP] * 8)
print("(row, prompt):", *placed, "- still waiting:", *waiting)

# %% [markdown]
# The loop asks after each round which rows are done. With `when=any` the step is taken as soon as
# one of them is, with `when=all` not before all are. A row that holds nothing counts as done, so
# the first prompts come in the same way. A prompt that begins gets empty caches.

# %% tags=["written"]
step = refill_rows if check("refill-rows", refill_rows).passed else next_in_line
space = [min(CAP, target.max_length - len(prompt)) for prompt in prompts]


def serve(rows, when, begin=lambda prompt_id, before: Row(prompt_id)):
    """Decodes all prompts on so many rows: for each round, (prompt, emitted) by row."""
    batch, waiting, rounds = [None] * rows, range(len(prompts)), []
    while True:
        done = [row is None or row.room <= 0 for row in batch]
        if when(done):
            placed, waiting = step(done, waiting, space)
            for row, prompt_id in placed:
                batch[row] = begin(prompt_id, batch[row])
        if all(row.room <= 0 for row in batch):
            return rounds
        pieces = [commit(row, one_round(row)) if row.room > 0 else () for row in batch]
        rounds.append([(row.prompt_id, piece) for row, piece in zip(batch, pieces, strict=True)])


# %% tags=["claim-C6"]
def emitted_by(rounds):
    """Puts together what was emitted for each prompt."""
    by_prompt = dict.fromkeys(range(8), ())
    for pieces in rounds:
        by_prompt |= {prompt_id: by_prompt[prompt_id] + piece for prompt_id, piece in pieces}
    return tuple(by_prompt.values())


turns, refilled = serve(4, when=all), serve(4, when=any)
shares = [sum(needs) / (4 * len(rounds)) for rounds in (turns, refilled)]
for how, rounds, share in zip(("in turns", "refilled"), (turns, refilled), shares, strict=True):
    print(f"{how}: {len(rounds)} rounds, {share:.0%} of the row-slots decode")
assert emitted_by(turns) == emitted_by(refilled) == texts
in_turns.against(shares[0])

# %%
refilled_share.against(shares[1])

# %% [markdown]
# The same texts in fewer rounds. Engines do this after each round: *continuous batching*, or
# iteration-level scheduling (Yu et al. 2022, Orca). What takes part is decided round by round, not
# request by request.
#
# In the package it is one argument: `batch_size` says how many rows there are. `Round.prompt_ids`
# has the prompt of each row, and `Round.live` whether it decodes. It must do what we do.

# %% tags=["claim-C6"]
given = dict(k=K, max_new_tokens=CAP, eos=END)
greedy = given | dict(verifier=minispec.verify_greedy, warp=warp, rng=rng)
package = list(minispec.speculate(target, drafter, prompts, batch_size=4, **greedy))
for r in package[2:5]:
    print("prompts", *r.prompt_ids, "- emitted", *map(len, r.emitted))
package_rounds = [list(zip(r.prompt_ids, r.emitted, strict=True)) for r in package]
assert package_rounds == refilled

# %% [markdown]
# Rows over rounds, first four and four, then with refill:

# %% tags=["claim-C6"]
from minispec.show.plots.timeline import row_slots


def slots(rounds, first=0):
    """Which prompt each slot decodes, round by round; None: it does nothing."""
    return [
        [first + i if on else None for i, on in zip(r.prompt_ids, r.live, strict=True)]
        for r in rounds
    ]


fours = prompts[:4], prompts[4:]
halves = [list(minispec.speculate(target, drafter, four, **greedy)) for four in fours]
without = slots(halves[0]) + slots(halves[1], first=4)
assert len(without) == len(turns)
row_slots({"without refill": without, "with refill": slots(package)})

# %% [markdown]
# While prompts wait, every slot decodes. Only the end is ragged: there nobody is left to take a
# row. The longer the queue, the less it counts.
#
# ### Try it: change a value and run the cell again
#
# Fewer rows, more rows, another K: how many rounds, and how much stays idle?

# %% tags=["try-it"]
rows = 3
k = 4
tried = list(minispec.speculate(target, drafter, prompts, batch_size=rows, **greedy | {"k": k}))
share = sum(sum(r.live) for r in tried) / (rows * len(tried))
print(f"{rows} rows, K = {k}: {len(tried)} rounds, {share:.0%} of the row-slots decode")
row_slots({f"{rows} rows": slots(tried)})

# %% [markdown]
# (To begin, a prompt has to be read, all at once. That is one more forward, and here the others
# wait for it. Engines read long prompts in pieces, beside the rows that decode.)
#
# ## What a text may depend on
#
# On its prompt, and at temperature 1 on its noise. Not on its row, nor on what shared the batch.
# Greedy texts were the same above. To compare sampled ones, give each draw noise that is a function
# of what is decided: `KeyedRng` (notebook 9).

# %% tags=["claim-A7"]
keyed = dict(k=2, max_new_tokens=16, verifier=minispec.verify_coupled, warp=minispec.Warp(1))


def sampled(queue, rows, noise):
    """The texts of a queue on so many rows."""
    rounds = minispec.speculate(target, drafter, queue, batch_size=rows, rng=noise, **keyed)
    texts = dict.fromkeys(range(len(queue)), ())
    for r in rounds:
        texts |= {n: texts[n] + piece for n, piece in zip(r.prompt_ids, r.emitted, strict=True)}
    return list(texts.values())


rows_1, rows_3, rows_8 = (sampled(prompts, rows, minispec.KeyedRng(5)) for rows in (1, 3, 8))
print("one after another, or on 3 rows, or all at once:", rows_1 == rows_3 == rows_8)
assert rows_1 == rows_3 == rows_8

# %% [markdown]
# For that the noise has to be the prompt's. What if it were the row's?

# %% tags=["predict"]
predict("noise-of-the-row", guess=None)

# %% [markdown]
# With each draw the noise is given its `Place`: the round's plan has the prompt ids and positions.
# Here is noise that takes the number of the row for the prompt id.


# %% tags=["claim-A7"]
class RowsNoise(minispec.KeyedRng):
    def categorical(self, probs, place=None):
        plan = place.plan._replace(prompt_ids=tuple(range(len(probs))))
        return super().categorical(probs, place._replace(plan=plan))


twice = {kind: sampled([prompts[1]] * 2, 1, kind(5)) for kind in (minispec.KeyedRng, RowsNoise)}
for kind, both in twice.items():
    print(kind.__name__, *("…" + tokenizer.decode(text) for text in both), sep="\n  ")
assert [len({*both}) for both in twice.values()] == [2, 1]

# %% tags=["hide-input"]
assert sampled(prompts[2:4], 1, RowsNoise(5)) != sampled(prompts[2:4], 2, RowsNoise(5))

# %% [markdown]
# The second text is a copy of the first: one sample, not two. Each alone has the right
# distribution, so a test of single texts finds nothing. And on another number of rows the texts
# are others.
#
# ## What the text before it left
#
# The second bug. A prompt that takes over a row has to begin with empty caches.

# %% tags=["predict"]
predict("cache-left-behind", guess=None)


# %% tags=["written", "claim-A7"]
def leaving(which):
    """Returns how a prompt begins if one cache keeps what the text before it has left."""

    def begin(prompt_id, before):
        row = Row(prompt_id)
        row.caches[which] = before.caches[which] if before else row.caches[which]
        return row

    return begin


faulty = [serve(4, any, leaving(which)) for which in (0, 1)]
spoiled = [[n for n, text in enumerate(emitted_by(each)) if text != texts[n]] for each in faulty]
for whose, wrong, rounds in zip(("target", "draft"), spoiled, faulty, strict=True):
    print(f"the {whose}'s cache left: {len(wrong)} texts wrong, {len(rounds)} rounds")
prompt_id = spoiled[0][0]
print("right:", tokenizer.decode(texts[prompt_id][:20]))
print("wrong:", tokenizer.decode(emitted_by(faulty[0])[prompt_id][:20]))
assert spoiled[0] and not spoiled[1]

# %% [markdown]
# As in notebook 7: what the target's cache holds decides the text, and what the draft's cache holds
# decides how good its guesses are. No length was wrong, and nothing raised: `catch_up` has cut or
# filled the old cache to the length that it should have.
#
# ## Every branch
#
# Two rows and three prompts, on a pair of tables over two tokens. When the third prompt begins, and
# in which row, depends on what the others draw. Go through all branches of the whole batch
# (notebook 9), and add up what each prompt gets.

# %% tags=["claim-D1"]
from minispec.evidence.proof import distributions
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.models import table_pair

p, q = table_pair(vocab_size=2, seed=0)
case = Case("a third waits", p, q, ((0,), (1, 0), (0, 1, 1)), 1, 2, eos=(1,), waiting=True)
enumerated = distributions.speculative_distributions(case, together=True)
both = zip(enumerated.distributions, distributions.exact_distributions(case), strict=True)
error = max(distributions.largest_error(emitted, exact) for emitted, exact in both)
print(f"{enumerated.branches} branches, largest error {error:.1e}")
assert error < 1e-12

# %% [markdown]
# ## Rows with drafts of their own length
#
# Rows need not draft equally many tokens. A look-up drafts more after a longer match (notebook 12),
# and `draft.lengths` has the numbers. But a block has one width, that of its widest row.

# %%
from minispec.drafters.suffix import SuffixDrafter

look_up = SuffixDrafter(target.vocab_size, per_match=1.5)
ragged = list(minispec.speculate(target, look_up, prompts, batch_size=4, **greedy | {"k": 8}))
for r in ragged[4:9]:
    print("drafted", *r.draft.lengths.tolist(), f"- the block is {1 + r.draft.k} wide:", end=" ")
    print("emitted", *map(len, r.emitted))
goal("block-slots")


# %% tags=["exercise"]
def block_slots(live, lengths):
    """Returns (useful, padding, idle): what the slots of one target forward do.

    live: for each row, whether it decodes. Slots of the others are idle.
    lengths: for each row, how many tokens it has drafted; 0 where a row does not decode.
    Each row that decodes reads its pending token and its draft: these are useful. All rows are
    as wide as the widest of them.
    """
    ...


check("block-slots", block_slots)

# %% [markdown]
# Here is what the whole run comes to.

# %% tags=["claim-C6", "nbval-check-output"]
whole = sum(len(r.live) * (1 + r.draft.k) for r in ragged)
useful = sum(sum(r.live) + int(r.draft.lengths.sum()) for r in ragged)
idle = sum((len(r.live) - sum(r.live)) * (1 + r.draft.k) for r in ragged)
print(f"{whole} slots: {useful} useful, {whole - useful - idle} padding, {idle} idle")
assert any(len({*r.draft.lengths.tolist()}) > 1 for r in ragged)

# %% [markdown]
# Padding is computed and thrown away. Engines pack the rows of a block one after another, without
# padding. Here it stays: it is easier to read, and a chain from a draft model needs none.
#
# ## A queue
#
# Now 24 stories, cut at many places, at temperature 1 and in float32.

# %%
from time import perf_counter

fast = minispec.load_pair("stories")
tales = [tokenizer.encode(story.text) for story in draw_stories(24, seed=5, friends=2)]
queue = [tale[: -4 - 53 * i % 76] for i, tale in enumerate(tales)]
sample = dict(verifier=minispec.verify_rejection, warp=minispec.Warp(1), max_new_tokens=72, eos=END)


def timed(batches, k):
    """Decodes batches one after another, on four rows: rounds, seconds."""
    given = sample | dict(k=k, rng=minispec.SeededRng(0), batch_size=4)
    started = perf_counter()
    drafter = minispec.ModelDrafter(fast.draft)
    runs = [list(minispec.speculate(fast.target, drafter, batch, **given)) for batch in batches]
    return sum(runs, []), perf_counter() - started


# %%
fours = [queue[i : i + 4] for i in range(0, 24, 4)]
live = {}
for name, batches in (("without refill", fours), ("with refill", [queue])):
    rounds, seconds = timed(batches, k=4)
    tokens = sum(len(piece) for r in rounds for piece in r.emitted)
    live[name] = sum(sum(r.live) for r in rounds) / (4 * len(rounds))
    print(f"{name}: {len(rounds)} rounds, {live[name]:.0%} of the slots decode;", end=" ")
    print(f"{tokens / len(rounds):.1f} tokens a round, {tokens / seconds:.0f} a second")
waiting = [r for r in rounds if max(r.prompt_ids) < 23]
print(f"while prompts wait: {sum(sum(r.live) for r in waiting) / (4 * len(waiting)):.0%}")

# %% tags=["hide-input", "claim-C6"]
assert all(all(r.live) for r in waiting)
assert live["with refill"] > 0.8 > live["without refill"]

# %% [markdown]
# ## How many rows does speculation pay for?
#
# A verification reads K + 1 positions of each row. Let t(B, n) be the time of a target forward over
# n new tokens in each of B rows, and d(B) that of the draft over one. The target alone emits a
# token a row in t(B, 1). A round takes K·d(B) + t(B, K + 1), and emits m tokens in a row that is
# live. So if the share s of the rows is live, the gain is s·m·t(B, 1) / (K·d(B) + t(B, K + 1)).
#
# Take these from runs of this pair on the native backend, recorded without refill and prefill.
# (`python -m book contexts`, in the folder docs, measures them again.)

# %% tags=["hide-input", "claim-B4"]
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json

recorded = read_json(FOLDER / "contexts.json")
errors, K = [], recorded["k"]
for run in recorded["batches"]:
    m = 1 + torch.tensor(run["alphas"]).cumprod(0).sum()  # 1 + α₁ + α₁·α₂ + …, by position
    gain = run["live"] * m * run["alone"] / (K * run["draft"] + run["verify"])
    errors.append(gain / run["gain"] - 1)
    print(f"{run['rows']:2} rows: t(B, 5) / t(B, 1) = {run['verify'] / run['alone']:.1f},", end=" ")
    print(f"gain {gain:.2f}, measured {run['gain']:.2f} ({errors[-1]:+.0%})")
assert max(map(abs, errors[1:])) <= 0.2

# %% [markdown]
# From two rows on the formula is right within 20%. It counts nothing but forwards, so it is too
# high where a round is short: with one row.
#
# The first number says why the gain falls and rises. With few rows arithmetic fits into the time of
# reading the weights. With more rows it is the limit, and five positions cost much more than one.
# Then the caches no longer fit in the processor's fast memory. A forward fetches them once, for
# five positions as for one.
#
# The longer the context, the more caches count (Sadhukhan et al. 2024, MagicDec). Here are forwards
# in the sizes of the pair `english`, timed after contexts of several lengths, with its α.

# %% tags=["claim-B4"]
from minispec.show.plots.speed import gain_by_rows

m, lines = sum(recorded["alpha"] ** i for i in range(K + 1)), {}
for f in recorded["forwards"]:
    gain = m * f["target"]["1"] / (K * f["draft"] + f["target"][str(K + 1)])
    lines.setdefault(f["context"], []).append((f["rows"], gain))
many = {context: line[-1][1] for context, line in lines.items()}
assert many[64] < 1 < many[4096]
gain_by_rows(lines, K)

# %% [markdown]
# With 64 rows a draft loses after 64 tokens, and gains after 4,096. An engine may draft while few
# prompts are there, or where texts are long. That is lossless if it decides before the tokens are
# drawn.
#
# `minispec bench --section batch` measures it for your machine, with refill and without.

# %%
result = f"{len(refilled)} rounds instead of {len(turns)}; {shares[1]:.0%} of the row-slots decode,"
wrote(one_round, commit, next_in_line, serve, measured=f"{result} not {shares[0]:.0%}.")

# %% [markdown]
# ## Recap
#
# - A batch that waits for its longest text has idle rows. With refill a row that is done goes on
#   with the next prompt, and all rows decode while prompts wait.
# - Noise belongs to the prompt and the position. If it belongs to the row, texts depend on the
#   number of rows, and those of one row share their noise.
# - A prompt begins with empty caches. If the target's is not empty, the text is another one. If the
#   draft's is not, it takes more rounds.
# - Each row accepts its own number of tokens, and may draft its own number. The block is as wide as
#   its widest row.
# - Rows and drafts use the same spare arithmetic: with short texts a draft may lose from some
#   number of rows on. With long contexts reading caches is the limit, and large batches still gain.
#
# Next, notebook 15: which rule should an engine use?
