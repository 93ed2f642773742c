"""Questions of notebooks 1 to 5; `questions_in` says how they are written."""

TEXT = """
what-limits (notebook 1)
A model of 7 billion weights, 2 bytes each, writes one token. Memory delivers 1 TB a second, the chip
computes 100 TFLOP a second. What takes longer?
a) the arithmetic <- arithmetic is the bottleneck
   Two operations a weight are 14 billion: 0.14 ms. Reading 14 GB takes 14 ms: the chip waits for memory.
b) both about the same <- a machine is balanced whatever it runs
   Reading 14 GB takes 14 ms, and 14 billion operations take 0.14 ms: a factor of 100.
c) reading the weights
   14 ms for 14 GB. Each weight that has been read could serve many positions. It serves one.

five-positions (notebook 1)
One forward over 5 new positions against one over 1 new position: how many times as long does it take, on
this machine?
= ? times as long, within 0.15
   The weights are read once for all positions, so further positions are cheap.
5 <- each position costs as much as the first
   Five times would be so if each position read the weights anew. They are read once for all five.

positions-without-cache (notebook 2)
A prompt of 10 tokens, 20 new ones, no cache: how many positions go through the model in all?
= 390 positions
   Step by step 10, 11, …, 29 positions: 390. With a cache it is 29.
30 <- every token is read once, with or without a cache
   30 would do if anything were remembered. Without a cache, each step reads the whole text again.
29 <- every token is read once, with or without a cache
   29 is the count with a cache. Without one, each step reads the whole text again.
200 <- the text does not grow while it is read
   Each step reads 10 tokens and whatever has been added: 10, 11, …, 29, not 10 each time.
600 <- all steps read the full text
   Only the end of the text is that long. Early steps read less: 10, 11, …, 29.
410 <- a step reads the token that it is about to make
   The first step reads the 10 tokens that are there, not 11. The sum is 10 + 11 + … + 29.

after-prefill (notebook 2)
The prompt has been prefilled, and the first round is about to begin. What does the cache hold?
a) all of the prompt but its last token
   The last token is pending: committed, and not read yet. Every round begins by reading the pending token.
b) all of the prompt <- the cache holds the whole text
   Then the first round would have nothing to read, and would need the logits of prefill. Here the last
   token waits and is read in the round.
c) nothing: the cache fills while tokens are made <- only new tokens are cached
   Prefill is there to fill it: the prompt is known, so one forward reads all of it at once.

entropy-floor (notebook 3)
The stories are drawn at random from a grammar. How low can a model's loss on new stories go?
a=0) to zero, with enough training <- a perfect model has loss zero
   No model can know what has not been drawn yet. The loss stops at the grammar's own entropy.
b) to the grammar's entropy, and no lower
   A model that knows every probability still has to be surprised by what is drawn. That surprise, on
   average, is the entropy.
c) there is no limit that one could know <- the floor of a loss can never be known
   Here there is: we wrote the grammar, so its entropy can be computed. It is the dashed line.

where-they-disagree (notebook 3)
Where do a large target and a one-layer draft disagree most?
a) about equally everywhere <- a small model is a little worse everywhere
   If that were so, guessing ahead would be hopeless. Most words are easy for both.
b) at rare words <- rare means hard
   Rare words can be easy: after 'the wind' even a small model says 'blew'. Hard is to connect distant facts.
c) where an earlier sentence decides
   Who slept where was said long before. One layer sees the facts and not whose they are; the target does.

distilled-draft (notebook 3)
The draft is trained further, to imitate the target's distributions. What becomes of the target?
a) it gets better too <- the target is retrained to fit the draft
   Nothing is trained but the draft. The target's file has the same hash before and after.
b) nothing: it stays as it is
   Only the draft learns. The output has the target's distribution, so the target must not change.
c) it gets a little worse, to be easier to imitate <- the two models meet half way
   Then the output would have another distribution than the one that was asked for. Only the draft moves.

draft-forwards (notebook 4)
A draft model guesses K = 4 tokens. How many forwards of the draft model does that take?
= 4 forwards
   One after another: each guess has to read the one before it.
1 <- a draft comes in one shot
   A draft model writes like any model, one token a forward. Parallel drafters and heads on the target guess
   all at once: other methods, with other costs.
5 <- the draft reads its own last guess
   The last guess is not read while drafting. It is caught up later, and only if all were accepted.

why-remember-q (notebook 4)
The drafter always takes its most probable token. Which distribution must it report as q?
a) the one with all mass on that token
   The token was certain to be drawn, so its distribution is one-hot. Losslessness rests on this: q is the
   distribution that the token was really drawn from.
b) the model's softmax <- q is what the draft model says, however the token was taken
   The softmax is what the model said, not what was done with it. With this q the test accepts too often: by
   hand, (6, 3, 3)/12 comes out where p is (6, 4, 2)/12.
c) none: the verifier needs only p <- only the target's distribution matters
   The test is min(1, p/q). Without q nobody knows how often the token was going to come up.

bad-draft (notebook 4)
The draft model is replaced by one that guesses at random. What happens to the text?
a) it gets worse: bad guesses slip in <- a bad draft spoils the text
   Every guess is tested against the target. A bad one is rejected more often, that is all.
b) it gets shorter <- a rejected draft gives nothing
   A round still gains a token when everything is rejected: the correction.
c) nothing: the distribution is the same, only slower
   Losslessness never depends on how good the draft is. Speed does.

keep-after-rejection (notebook 5)
Five tokens are drafted: the target agrees with the first three, not with the fourth, and again with the
fifth. What is kept?
a) four tokens: all but the fourth <- tokens after a rejection can be kept
   The fifth was proposed to follow the fourth. The fourth is gone, so the target's distribution there
   belongs to a text that does not exist any more.
b) three tokens <- the correction needs a pass of its own
   The same pass has already said what the target wants at the fourth position. It comes for free.
c) three tokens, and the target's own fourth
   Three accepted and one correction: four tokens for one target call.

change-one-token (notebook 5)
K = 5 tokens are verified in one pass, which gives 6 distributions. Now the third drafted token is replaced
by another. How many of the 6 change?
= 3 distributions
   The fourth, the fifth and the last: those that look back at the third drafted token.
6 <- in one pass everything depends on everything
   The causal mask hides what comes later. Distributions before the changed token cannot see it.
1 <- each distribution depends on its own token alone
   All later positions look back at the changed token, not only the next.
4 <- the distribution at a position has seen the token of that position
   The distribution that judges the third token was computed from the text before it: that one stays.

tokens-of-a-round (notebook 5)
K = 4, and the verifier accepts 2. How many tokens does the round gain?
= 3 tokens
   Two accepted and one correction, out of a single target call.
2 <- the correction is not emitted
   The pass that rejected the third token also said what belongs there. That token is gained too.
4 <- all that was drafted is gained
   From the first rejection on, the draft is dropped.
5 <- a round always gains K + 1
   K + 1 is what a round gains at best: all K accepted, and the bonus.
"""
