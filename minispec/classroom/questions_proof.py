"""Questions of notebooks 9 to 11: proof, measurement, and the field."""

from minispec.classroom.question import Choice, Question, Slip

PROOF = (
    Question(
        "same-seed",
        9,
        "Temperature 1, the same seed, with and without speculation. Is it the same text?",
        {
            "a": Choice(
                "yes: the method is lossless",
                "Lossless means the same law. The two runs use their random numbers for different decisions, "
                "so the texts differ.",
                "the same seed gives the same text",
            ),
            "b": Choice(
                "only with the coupled verifier",
                "There, draft and target share the noise of each position, and the target's token comes out "
                "whatever the draft says. Otherwise the law is the same, not the text.",
            ),
            "c": Choice(
                "never, whatever the verifier",
                "The coupled verifier does it: noise is fixed by seed and position, so the target picks the "
                "same token with or without a draft.",
                "sampled text can never be repeated with a draft",
            ),
        },
    ),
    Question(
        "how-many-samples",
        9,
        "A bug shifts the chance of one token from 0.50 to 0.51. How many samples find it reliably?",
        {
            "a": Choice(
                "about 100",
                "With 100 samples the share wobbles by 0.05 on its own. A shift of 0.01 drowns in that.",
                "a hundred samples show a law",
                100.0,
            ),
            "b": Choice(
                "tens of thousands, or more",
                "The wobble is 0.5/√n. It has to be several times smaller than 0.01: n of some ten thousand. "
                "To be wrong once in a million takes some hundred thousand.",
                value=40_000.0,
            ),
            "c": Choice(
                "no number of samples will do",
                "The wobble shrinks like 1/√n, so any shift is found in the end. Counting branches finds it "
                "at once, and exactly.",
                "sampling can prove nothing",
            ),
        },
    ),
    Question(
        "larger-draft",
        10,
        "You may choose the size of the draft model. Which one decodes fastest?",
        {
            "a": Choice(
                "the largest: more of its guesses are accepted",
                "Each guess then costs more, too. A draft as large as the target is always right and saves "
                "nothing.",
                "a larger draft is better",
            ),
            "b": Choice(
                "the smallest: its guesses cost nothing",
                "Guesses that are rejected save nothing, however cheap they are.",
                "the cheapest draft is best",
            ),
            "c": Choice(
                "one in between",
                "Acceptance and cost both rise with size. The best balance lies in the middle.",
            ),
        },
    ),
    Question(
        "always-pays",
        10,
        "The output has the target's law in any case. Is there a reason not to speculate?",
        {
            "a": Choice(
                "yes: it can be slower than the target alone",
                "Drafting takes time, and checking K + 1 positions takes more than checking one. Where "
                "little "
                "is accepted, or the machine is busy already, that is a loss.",
            ),
            "b": Choice(
                "no: at worst nothing is gained",
                "At worst each round pays for a draft, gains one token, and is slower than the target alone.",
                "speculation always pays",
            ),
            "c": Choice(
                "yes: the text can get worse",
                "Speed is at stake, not the text: its law is the target's whatever the draft.",
                "speed is bought with quality",
            ),
        },
    ),
    Question(
        "k-of-fifty",
        10,
        "α = 0.8, and a draft step costs a tenth of a target step (c = 0.1). K = 5 gains a factor of 2.5. "
        "Which factor does K = 50 gain, by the formula?",
        unit="times as fast",
        answer=0.8333,
        tolerance=0.02,
        reply="At most 1/(1 − α) = 5 tokens a round, for 1 + 50 · 0.1 = 6 target steps of time: a loss.",
        slips=(
            Slip(
                25,
                "the gain grows with K",
                "The 50th guess counts only if the 49 before it were accepted. A round gains 5 tokens at "
                "most.",
            ),
            Slip(
                5,
                "drafting takes no time",
                "5 is the number of tokens a round. But 50 draft steps take as long as 5 target steps, and "
                "verification one more.",
            ),
            Slip(
                2.5,
                "beyond the best K nothing changes",
                "The tokens a round level off, the cost of drafting does not.",
            ),
        ),
    ),
    Question(
        "large-batch",
        11,
        "The batch grows from 1 to 64 rows. What happens to tokens a second, and to the gain of speculation?",
        {
            "a": Choice(
                "both grow",
                "In a large batch the chip has arithmetic to do already. The positions of a draft are no "
                "longer nearly free.",
                "what helps a batch helps speculation",
            ),
            "b": Choice(
                "tokens a second grow, the gain shrinks",
                "More rows share each reading of the weights: good for throughput. It is the same free room "
                "that a draft would have used.",
            ),
            "c": Choice(
                "both shrink",
                "Throughput grows with the batch, as long as memory was the limit.",
                "large batches are slow",
            ),
        },
    ),
    Question(
        "look-up-lossless",
        11,
        "A drafter copies what followed the same two tokens earlier in the text. It has no probabilities. Is "
        "sampled output still lossless?",
        {
            "a": Choice(
                "no: without a model there is no q",
                "There is: the proposed token was certain to be proposed. Its law is one-hot.",
                "a law needs a model",
            ),
            "b": Choice(
                "only at temperature 0",
                "With q one-hot, min(1, p/q) is p of the token, and the residual is the rest of p. That is "
                "right at any temperature.",
                "look-up works for greedy decoding only",
            ),
            "c": Choice(
                "yes: q is one-hot at what it proposes",
                "Anything may propose, as long as it says from which law.",
            ),
        },
    ),
    Question(
        "no-draft-model",
        11,
        "Medusa heads and early exit need no separate draft model. Do they still need to verify?",
        {
            "a": Choice(
                "no: the target guesses for itself",
                "A head guesses three places ahead without having seen the places between. The target may "
                "well think otherwise once it has.",
                "what the target guesses ahead, it will also say",
            ),
            "b": Choice(
                "yes: a guess is a guess",
                "Guesses are cheap and may be wrong, wherever they come from. Verification, rollback and the "
                "loop are the same.",
            ),
            "c": Choice(
                "only the last guess of a round",
                "A wrong guess in the middle makes all behind it worthless, so each is tested, left to "
                "right.",
                "guesses of the target go wrong only at the end",
            ),
        },
    ),
)
