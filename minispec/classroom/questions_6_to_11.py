"""Questions of notebooks 6 to 11; `questions_in` says how they are written."""

TEXT = """
correction-again (notebook 6)
The token x was rejected. Can the correction be x?
a) never
   x is rejected only where q(x) > p(x). There the residual max(0, p − q) is 0, so x cannot be drawn.
b) yes, if the target gives it some probability <- the correction can equal the rejected token
   That would be so if it were drawn from p. It is drawn from the mass q lacks, and of x there was too much.
c) only at temperature 0 <- greedy decoding may repeat what it rejected
   At temperature 0 it is just as impossible: x was rejected because the target's token is another one.

resample-from-p (notebook 6)
Half of the draft is kept, two twelfths of each token. After a rejection one could simply draw from p = (3,
2, 1)/6. Which distribution comes out, in twelfths of a, b and c?
a) (6, 4, 2): it is drawn from p, after all <- on a rejection one may simply sample again from the target
   Accepted tokens have already used up some of p. A fresh draw adds half of all of it, (3, 2, 1)/12, and
   what the draft likes comes out too often.
b) (4, 3, 5): half way between q and p <- what is kept has the draft's distribution
   What is kept does not follow q: it is what p and q have in common.
c) (5, 4, 3): too little a, too much c
   (2, 2, 2) is kept, and (3, 2, 1) drawn. Every round errs to the same side, so it does not even out.

higher-acceptance (notebook 6)
Two rules, the same two models. Rule A accepts 80% of the draft, rule B 70%. Whose text is nearer to the
target's distribution?
a) rule A's: more of its draft was found good <- higher acceptance means more correct
   A rule that accepts everything emits the draft's distribution. At one position a lossless rule accepts
   with at most 1 − TV(p, q); along a draft some lossless rules accept more than others.
b) the numbers do not tell
   Acceptance says how fast, not how right. Only the distribution of what comes out can tell.
c) rule B's: it is stricter <- stricter means more correct
   Being strict is no proof either. A rule may reject a lot and still emit the wrong token instead.

law-of-top-match (notebook 6)
p = (3, 2, 1)/6 is the target's distribution, and q = (1, 1, 4)/6 the draft's. Rule 1 keeps the drafted
token if it is the target's most probable one, and else says that one. Which distribution comes out, in
twelfths of a, b and c?
= (12, 0, 0) twelfths
   Whatever is drafted, a comes out: kept or said instead.
(6, 4, 2) <- agreement with the target's best token gives the target's distribution
   That is p. But where would a b come from? If b is drafted, the rule says a.
(2, 2, 8) <- what is drafted comes out
   That is q, the draft's distribution. But b and c are never kept: they are not the target's best.

law-of-fresh-draw (notebook 6)
Rule 2 draws a token of its own from p. If it is the drafted one, that is kept; else the rule says its own.
Which distribution comes out, in twelfths of a, b and c?
= (6, 4, 2) twelfths
   Kept or not, what comes out is the target's own draw. So it is p.
(4, 3, 5) <- a rule with a draft mixes both distributions
   That is half way between p and q. But what comes out is the target's own draw in both cases.
(2, 2, 8) <- what is drafted comes out
   That is q. A drafted token comes out only if the target has drawn it too.
(5, 4, 3) <- what the draft likes comes out too often
   This rule has no such leaning: the drafted token has no say in what comes out.

law-of-rejection (notebook 6)
Rule 4 keeps a drafted x with probability min(1, p/q), and after a rejection draws from the residual, (2/3,
1/3, 0). Half of the draft is kept, two twelfths of each token. Which distribution comes out, in twelfths of
a, b and c?
= (6, 4, 2) twelfths
   (2, 2, 2) is kept, and half of the residual is (4, 2, 0). Together they are p.
(5, 4, 3) <- the correction is drawn from p
   That is rule 3. The residual gives c nothing: of c there was too much already.
(8, 4, 0) <- the residual is all that comes out
   That is the residual alone. It is drawn only after a rejection, half of the time.

acceptance-by-hand (notebook 6)
p = (3, 2, 1)/6 and q = (1, 1, 4)/6. With which probability is a token of q accepted, by min(1, p/q)?
= 0.5 as a probability
   The sum of min(p, q): 1/6 + 1/6 + 1/6. It is 1 − TV(p, q).
0.25 <- accepting means that two draws agree
   1/4 is the sum of p·q: the probability that a fresh draw of the target agrees.
0.1666667 <- only the target's best token is accepted
   1/6 is the probability that the draft says the target's best token. The test also accepts others.
1 <- a drafted token that the target could say is accepted
   The target could say each of them, but the third only a quarter as often as the draft does.

whose-cache-lacks (notebook 7)
All K drafted tokens were accepted. Which cache lacks a token that it should hold?
a) neither <- both models have read the same
   The draft never read its own last guess. Now that the guess is committed, it is missing.
b) the target's <- the target reads only what it emits
   The target has read the pending token and all K drafted ones, in one pass.
c) the draft's
   It read the pending token and K − 1 guesses. The last guess is read now: that is catch-up.

cost-of-rollback (notebook 7)
The cache holds 1,000 tokens, and the last 4 were rejected. What does rolling back cost?
a) a number is changed
   The length says how much of the cache counts. Nothing is copied, nothing is computed.
b) 996 tokens are copied <- forgetting means copying what stays
   What stays is where it belongs already: it stands before what goes.
c) 996 tokens are read again <- a rejection spoils the cache
   Keys and values of what stays do not depend on what came later, so they are still right.

target-calls (notebook 8)
You have seen the length of the story's continuation. How many target calls will the loop need for it?
= ? target calls, within 0.1
   One target call a round, and most rounds gain several tokens.

next-round-reads (notebook 8)
A round has ended with a correction. What does the target read in the next round?
a) the whole text again, with the new draft <- the whole sequence goes through the target again
   The cache holds all that is committed but the pending token. Nothing is read twice.
b) the pending token and the new draft
   The correction is pending: committed, not read yet. It goes in together with the new draft.
c) only the new draft <- what the target emits is in its cache already
   Nobody has read the correction yet: its keys and values are missing.

same-seed (notebook 9)
Temperature 1, the same seed, with and without speculation. Is it the same text?
a) yes: the method is lossless <- the same seed gives the same text
   Lossless means the same distribution. The two runs use their random numbers for different decisions.
b) only with the coupled verifier
   There, the target picks by noise that is fixed by seed and position, with or without a draft.
c) never, whatever the verifier <- sampled text can never be repeated with a draft
   The coupled verifier does it: its noise is fixed by seed and position.

how-many-samples (notebook 9)
A bug shifts the probability of one token from 0.50 to 0.51. How many samples find it reliably?
a=100) about 100 <- a hundred samples show a distribution
   With 100 samples the share has a standard error of 0.05. A shift of 0.01 cannot be seen in that.
b=40000) tens of thousands, or more
   The standard error is 0.5/√n. It has to be several times smaller than 0.01, so n is some ten thousand.
c) no number of samples will do <- sampling can prove nothing
   The standard error shrinks like 1/√n, so any shift is found. Enumerating branches finds it exactly.

larger-draft (notebook 10)
You may choose the size of the draft model. Which one decodes fastest?
a) the largest: more of its guesses are accepted <- a larger draft is better
   Each guess then costs more, too. A draft as large as the target is always right and saves nothing.
b) the smallest: its guesses cost nothing <- the cheapest draft is best
   Guesses that are rejected save nothing, however cheap they are.
c) one in between
   Acceptance and cost both rise with size. The best balance lies in the middle.

always-pays (notebook 10)
The output has the target's distribution in any case. Is there a reason not to speculate?
a) yes: it can be slower than the target alone
   Drafting takes time, and so does verifying. Where little is accepted or the machine is busy, it is a loss.
b) no: at worst nothing is gained <- speculation always pays
   At worst each round pays for a draft, gains one token, and is slower than the target alone.
c) yes: the text can get worse <- speed is bought with quality
   Speed is at stake, not the text: its distribution is the target's whatever the draft.

k-of-fifty (notebook 10)
α = 0.8, and a draft step costs a tenth of a target step (c = 0.1). K = 5 gains a factor of 2.5. Which
factor does K = 50 gain, by the formula?
= 0.8333 times as fast, within 0.02
   At most 1/(1 − α) = 5 tokens a round, for 1 + 50 · 0.1 = 6 target steps of time: a loss.
25 <- the gain grows with K
   The 50th guess counts only if the 49 before it were accepted. A round gains 5 tokens at most.
5 <- drafting takes no time
   5 is the number of tokens a round. But it takes as long as 6 target steps.
2.5 <- beyond the best K nothing changes
   The tokens a round level off, the cost of drafting does not.

large-batch (notebook 11)
The batch grows from 1 to 64 rows. What happens to tokens a second, and to the gain of speculation?
a) both grow <- what helps a batch helps speculation
   In a large batch the positions of a draft are no longer nearly free.
b) tokens a second grow, the gain shrinks
   More rows share each reading of the weights, and use up the idle arithmetic that a draft would have used.
c) both shrink <- large batches are slow
   Throughput grows with the batch, as long as memory was the limit.

look-up-lossless (notebook 11)
A drafter copies what followed the same two tokens earlier in the text. It has no probabilities. Is sampled
output still lossless?
a) no: without a model there is no q <- a distribution needs a model
   There is: the proposed token was certain to be proposed. Its distribution is one-hot.
b) only at temperature 0 <- look-up works for greedy decoding only
   With q one-hot, min(1, p/q) is p of the token, and the residual is the rest of p: at any temperature.
c) yes: q is one-hot at what it proposes
   Anything may propose, as long as it says from which distribution.

no-draft-model (notebook 11)
Medusa heads and early exit need no separate draft model. Do they still need to verify?
a) no: the target guesses for itself <- what the target guesses ahead, it will also say
   A head guesses three positions ahead without having seen those between.
b) yes: a guess is a guess
   Guesses may be wrong, wherever they come from. Verification, rollback and the loop are the same.
c) only the last guess of a round <- guesses of the target go wrong only at the end
   A wrong guess in the middle makes all after it worthless, so each is tested, left to right.
"""
