"""Questions of notebooks 1 to 3: one token at a time, the cache, two models."""

from minispec.classroom.question import Choice, Question, Slip

MODELS = (
    Question(
        "what-limits",
        1,
        "A model of 7 billion weights, 2 bytes each, writes one token. Memory delivers 1 TB a second, the "
        "chip computes 100 TFLOP a second. What takes longer?",
        {
            "a": Choice(
                "the arithmetic",
                "Two operations a weight are 14 billion: 0.14 ms. Reading 14 GB of weights takes 14 ms. "
                "The chip waits for memory 99% of the time.",
                "arithmetic is the bottleneck",
            ),
            "b": Choice(
                "both about the same",
                "Reading 14 GB takes 14 ms, and 14 billion operations take 0.14 ms: a factor of 100.",
                "a machine is balanced whatever it runs",
            ),
            "c": Choice(
                "reading the weights",
                "14 GB at 1 TB a second are 14 ms; 14 billion operations are 0.14 ms. Each weight that has "
                "been read could serve many positions. It serves one.",
            ),
        },
    ),
    Question(
        "five-positions",
        1,
        "One forward over 5 new positions against one over 1 new position: how many times as long does it "
        "take, on this machine?",
        unit="times as long",
        tolerance=0.15,
        reply="The weights are read once for all positions, so further positions are cheap.",
        slips=(
            Slip(
                5,
                "each position costs as much as the first",
                "Five times would be so if each position read the weights anew. They are read once for all "
                "five.",
            ),
        ),
    ),
    Question(
        "positions-without-cache",
        2,
        "A prompt of 10 tokens, 20 new ones, no cache: how many positions go through the model in all?",
        unit="positions",
        answer=390,
        reply="Step by step 10, 11, …, 29 positions: 390. With a cache it is 29.",
        slips=(
            Slip(
                30,
                "every token is read once, with or without a cache",
                "30 would do if anything were remembered. Without a cache, each step reads the whole text "
                "again.",
            ),
            Slip(
                29,
                "every token is read once, with or without a cache",
                "29 is the count with a cache. Without one, each step reads the whole text again.",
            ),
            Slip(
                200,
                "the text does not grow while it is read",
                "Each step reads 10 tokens and whatever has been added: 10, 11, …, 29, not 10 each time.",
            ),
            Slip(
                600,
                "all steps read the full text",
                "Only the end of the text is that long. Early steps read less: 10, 11, …, 29.",
            ),
            Slip(
                410,
                "a step reads the token that it is about to make",
                "The first step reads the 10 tokens that are there, not 11. The sum is 10 + 11 + … + 29.",
            ),
        ),
    ),
    Question(
        "after-prefill",
        2,
        "The prompt has been prefilled, and the first round is about to begin. What does the cache hold?",
        {
            "a": Choice(
                "all of the prompt but its last token",
                "The last token is pending: committed, and not read yet. So every round begins in the same "
                "way, by reading the pending token.",
            ),
            "b": Choice(
                "all of the prompt",
                "That is the other convention. Then the first round would have nothing to read, and would "
                "need the logits that prefill left over. Here the last token waits and is read in the round.",
                "the cache holds the whole text",
            ),
            "c": Choice(
                "nothing: the cache fills while tokens are made",
                "Prefill is there to fill it: the prompt is known, so one forward reads all of it at once.",
                "only new tokens are cached",
            ),
        },
    ),
    Question(
        "entropy-floor",
        3,
        "The stories are drawn from a grammar by chance. How low can a model's loss on new stories go?",
        {
            "a": Choice(
                "to zero, with enough training",
                "No model can know what chance has not decided yet. The loss stops at the grammar's own "
                "entropy.",
                "a perfect model has loss zero",
                0.0,
            ),
            "b": Choice(
                "to the grammar's entropy, and no lower",
                "A model that knows every probability still has to be surprised by what is drawn. That "
                "surprise, on average, is the entropy.",
            ),
            "c": Choice(
                "there is no limit that one could know",
                "Here there is: we wrote the grammar, so its entropy can be computed. It is the dashed line.",
                "the floor of a loss can never be known",
            ),
        },
    ),
    Question(
        "where-they-disagree",
        3,
        "Where do a large target and a one-layer draft disagree most?",
        {
            "a": Choice(
                "about equally everywhere",
                "If that were so, guessing ahead would be hopeless. Most words are easy for both.",
                "a small model is a little worse everywhere",
            ),
            "b": Choice(
                "at rare words",
                "Rare words can be easy: after 'the wind' even a small model says 'blew'. Hard are words for "
                "which one must connect facts that stand far apart.",
                "rare means hard",
            ),
            "c": Choice(
                "where an earlier sentence decides",
                "Who slept where was said long before. One layer sees the single facts and cannot tell whose "
                "they are; the target can.",
            ),
        },
    ),
    Question(
        "distilled-draft",
        3,
        "The draft is trained further, to imitate the target's laws. What becomes of the target?",
        {
            "a": Choice(
                "it gets better too",
                "Nothing is trained but the draft. The target's file has the same hash before and after.",
                "the target is retrained to fit the draft",
            ),
            "b": Choice(
                "nothing: it stays as it is",
                "Only the draft learns. What the method emits has the target's law, so the target must not "
                "change.",
            ),
            "c": Choice(
                "it gets a little worse, to be easier to imitate",
                "Then the output would be of another law than the one that was asked for. Only the draft "
                "moves.",
                "the two models meet half way",
            ),
        },
    ),
)
