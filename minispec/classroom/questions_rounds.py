"""Questions of notebooks 4, 7 and 8: draft, roll back, and the loop."""

from minispec.classroom.question import Choice, Question, Slip

DRAFTING = (
    Question(
        "draft-forwards",
        4,
        "A draft model guesses K = 4 tokens. How many forwards of the draft model does that take?",
        unit="forwards",
        answer=4,
        reply="One after another: each guess has to read the one before it.",
        slips=(
            Slip(
                1,
                "a draft comes in one shot",
                "A draft model writes like any model, one token a forward. Heads on the target can guess all "
                "at once; they are another method.",
            ),
            Slip(
                5,
                "the draft reads its own last guess",
                "The last guess is not read while drafting: nothing is guessed behind it. It is caught up "
                "later, and only if all were accepted.",
            ),
        ),
    ),
    Question(
        "why-remember-q",
        4,
        "The drafter always takes its most probable token. Which law must it report as q?",
        {
            "a": Choice(
                "the one with all mass on that token",
                "The token was certain to be drawn, so its law is one-hot. Losslessness rests on this: q is "
                "the law that the token was really drawn from.",
            ),
            "b": Choice(
                "the model's softmax",
                "The softmax is what the model said, not what was done with it. With this q the test accepts "
                "too often: by hand, (6, 3, 3)/12 comes out where p is (6, 4, 2)/12.",
                "q is what the draft model says, however the token was taken",
            ),
            "c": Choice(
                "none: the verifier needs only p",
                "The test is min(1, p/q). Without q nobody knows how often the token was going to come up.",
                "only the target's law matters",
            ),
        },
    ),
    Question(
        "bad-draft",
        4,
        "The draft model is replaced by one that guesses at random. What happens to the text?",
        {
            "a": Choice(
                "it gets worse: bad guesses slip in",
                "Every guess is tested against the target. A bad one is rejected more often, that is all.",
                "a bad draft spoils the text",
            ),
            "b": Choice(
                "it gets shorter",
                "A round still gains a token when everything is rejected: the correction.",
                "a rejected draft gives nothing",
            ),
            "c": Choice(
                "nothing: the law is the same, only slower",
                "Losslessness never depends on how good the draft is. Speed does.",
            ),
        },
    ),
)

ROUNDS = (
    Question(
        "whose-cache-lacks",
        7,
        "All K drafted tokens were accepted. Which cache lacks a token that it should hold?",
        {
            "a": Choice(
                "neither",
                "The draft never read its own last guess: nothing was guessed behind it. Now that the guess "
                "is committed, it is missing.",
                "both models have read the same",
            ),
            "b": Choice(
                "the target's",
                "The target has read the pending token and all K drafted ones, in one pass.",
                "the target reads only what it emits",
            ),
            "c": Choice(
                "the draft's",
                "It read the pending token and K − 1 guesses. The last guess is eaten now: that is catch-up.",
            ),
        },
    ),
    Question(
        "cost-of-rollback",
        7,
        "The cache holds 1,000 tokens, and the last 4 were rejected. What does rolling back cost?",
        {
            "a": Choice(
                "a number is changed",
                "The length says how much of the cache counts. Nothing is copied, nothing is computed.",
            ),
            "b": Choice(
                "996 tokens are copied",
                "What stays is where it belongs already: it stands before what goes.",
                "forgetting means copying what stays",
            ),
            "c": Choice(
                "996 tokens are read again",
                "Keys and values of what stays do not depend on what came later, so they are still right.",
                "a rejection spoils the cache",
            ),
        },
    ),
    Question(
        "target-calls",
        8,
        "You have seen the length of the story's continuation. How many target calls will the loop need for "
        "it?",
        unit="target calls",
        tolerance=0.1,
        reply="One target call a round, and most rounds gain several tokens.",
    ),
    Question(
        "next-round-reads",
        8,
        "A round has ended with a correction. What does the target read in the next round?",
        {
            "a": Choice(
                "the whole text again, with the new draft",
                "The cache holds all that is committed but the pending token. Nothing is read twice.",
                "the whole sequence goes through the target again",
            ),
            "b": Choice(
                "the pending token and the new draft",
                "The correction is pending: committed, not read yet. It goes in together with the new draft.",
            ),
            "c": Choice(
                "only the new draft",
                "Nobody has read the correction yet. It was picked from a law, and its keys and values are "
                "missing.",
                "what the target emits is in its cache already",
            ),
        },
    ),
)
