"""Questions of notebooks 5 and 6: both verifiers."""

from minispec.classroom.question import Choice, Question, Slip

VERIFY = (
    Question(
        "keep-after-rejection",
        5,
        "Five tokens are drafted: the target agrees with the first three, not with the fourth, and again "
        "with "
        "the fifth. What is kept?",
        {
            "a": Choice(
                "four tokens: all but the fourth",
                "The fifth was proposed to follow the fourth. The fourth is gone, so the target's law there "
                "belongs to a text that does not exist any more.",
                "tokens after a rejection can be kept",
            ),
            "b": Choice(
                "three tokens",
                "The same pass has already said what the target wants in the fourth place. It comes for "
                "free.",
                "the correction needs a pass of its own",
            ),
            "c": Choice(
                "three tokens, and the target's own fourth",
                "Three accepted and one correction: four tokens for one target call.",
            ),
        },
    ),
    Question(
        "change-one-token",
        5,
        "K = 5 tokens are verified in one pass, which gives 6 laws. Now the third drafted token is "
        "replaced by another. How many of the 6 laws change?",
        unit="laws",
        answer=3,
        reply="The fourth, the fifth and the last: those that look back at the third drafted token.",
        slips=(
            Slip(
                6,
                "in one pass everything depends on everything",
                "The causal mask hides what comes later. Laws before the changed token cannot see it.",
            ),
            Slip(
                1,
                "each law depends on its own token alone",
                "All later places look back at the changed token, not only the next.",
            ),
            Slip(
                4,
                "the law at a place has seen the token of that place",
                "The law that judges the third token has not seen it: it was computed from the text before. "
                "It stays.",
            ),
        ),
    ),
    Question(
        "tokens-of-a-round",
        5,
        "K = 4, and the verifier accepts 2. How many tokens does the round gain?",
        unit="tokens",
        answer=3,
        reply="Two accepted and one correction, out of a single target call.",
        slips=(
            Slip(
                2,
                "the correction is not emitted",
                "The pass that rejected the third token also said what belongs there. That token is gained "
                "too.",
            ),
            Slip(
                4,
                "all that was drafted is gained",
                "From the first rejection on, the draft is dropped.",
            ),
            Slip(
                5,
                "a round always gains K + 1",
                "K + 1 is what a round gains at best: all K accepted, and the bonus.",
            ),
        ),
    ),
    Question(
        "correction-again",
        6,
        "The token x was rejected. Can the correction be x?",
        {
            "a": Choice(
                "never",
                "x is rejected only where q(x) > p(x). There the residual max(0, p − q) is 0, so x cannot be "
                "drawn from it.",
            ),
            "b": Choice(
                "yes, if the target gives it some chance",
                "That would be so if the correction were drawn from p. It is drawn from what q was short of, "
                "and of x there was too much.",
                "the correction can equal the rejected token",
            ),
            "c": Choice(
                "only at temperature 0",
                "At temperature 0 it is just as impossible: x was rejected because the target's token is "
                "another one.",
                "greedy decoding may repeat what it rejected",
            ),
        },
    ),
    Question(
        "resample-from-p",
        6,
        "Half of the draft is kept, two twelfths of each token. After a rejection one could simply draw "
        "from p = (3, 2, 1)/6. Which law comes out, in twelfths of a, b and c?",
        {
            "a": Choice(
                "(6, 4, 2): p is the target's law, after all",
                "Accepted tokens have already used up some of p. A fresh draw adds half of all of it, "
                "(3, 2, 1)/12, and what the draft likes comes out too often.",
                "on a rejection one may simply sample again from the target",
            ),
            "b": Choice(
                "(4, 3, 5): half way between q and p",
                "That would be so if half of the text were drawn from q and half from p. What is kept is "
                "not drawn from q: it is what p and q have in common.",
                "what is kept has the draft's law",
            ),
            "c": Choice(
                "(5, 4, 3): too little a, too much c",
                "(2, 2, 2) is kept, and (3, 2, 1) drawn. Every round errs to the same side, so it does not "
                "even out.",
            ),
        },
    ),
    Question(
        "higher-acceptance",
        6,
        "Two rules, the same two models. Rule A accepts 80% of the draft, rule B 70%. Whose text is "
        "nearer to "
        "the target's law?",
        {
            "a": Choice(
                "rule A's: more of its draft was found good",
                "Who accepts everything accepts 100%, and emits the draft's law. A lossless rule cannot "
                "accept "
                "more than 1 − TV(p, q); a rule that does is biased.",
                "higher acceptance means more correct",
            ),
            "b": Choice(
                "the numbers do not tell",
                "Acceptance says how fast, not how right. Only the law of what comes out can tell.",
            ),
            "c": Choice(
                "rule B's: it is stricter",
                "Being strict is no proof either. A rule may reject a lot and still put the wrong token in "
                "its place.",
                "stricter means more correct",
            ),
        },
    ),
    Question(
        "law-of-top-match",
        6,
        "p = (3, 2, 1)/6 is the target's law, and q = (1, 1, 4)/6 the draft's. Rule 1 keeps the drafted "
        "token if it is the target's most probable one, and else says that one. Which law comes "
        "out, in twelfths of a, b and c?",
        unit="twelfths",
        answer=(12.0, 0.0, 0.0),
        reply="Whatever is drafted, a comes out: kept or said instead.",
        slips=(
            Slip(
                (6, 4, 2),
                "agreement with the target's best token gives the target's law",
                "That is p. But where would a b come from? If b is drafted, the rule says a.",
            ),
            Slip(
                (2, 2, 8),
                "what is drafted comes out",
                "That is q, the draft's law. But b and c are never kept: they are not the target's best.",
            ),
        ),
    ),
    Question(
        "law-of-fresh-draw",
        6,
        "Rule 2 draws a token of its own from p. If it is the drafted one, that is kept; else the rule says "
        "its own. Which law comes out, in twelfths of a, b and c?",
        unit="twelfths",
        answer=(6.0, 4.0, 2.0),
        reply="Kept or not, what comes out is the target's own draw. So it is p.",
        slips=(
            Slip(
                (4, 3, 5),
                "a rule with a draft mixes both laws",
                "That is half way between p and q. But look at what comes out in both cases: it is the "
                "target's own draw each time.",
            ),
            Slip(
                (2, 2, 8),
                "what is drafted comes out",
                "That is q. A drafted token comes out only if the target has drawn it too.",
            ),
            Slip(
                (5, 4, 3),
                "what the draft likes comes out too often",
                "This rule has no such leaning: the drafted token has no say in what comes out.",
            ),
        ),
    ),
    Question(
        "law-of-rejection",
        6,
        "Rule 4 keeps a drafted x with chance min(1, p/q), and after a rejection draws from the residual, "
        "(2/3, 1/3, 0). Half of the draft is kept, two twelfths of each token. Which law comes "
        "out, in twelfths of a, b and c?",
        unit="twelfths",
        answer=(6.0, 4.0, 2.0),
        reply="(2, 2, 2) is kept, and half of the residual is (4, 2, 0). Together they are p.",
        slips=(
            Slip(
                (5, 4, 3),
                "the correction is drawn from p",
                "That is rule 3. The residual gives c nothing: of c there was too much already.",
            ),
            Slip(
                (8, 4, 0),
                "the residual is all that comes out",
                "That is the residual alone. It is drawn only after a rejection, half of the time.",
            ),
        ),
    ),
    Question(
        "acceptance-by-hand",
        6,
        "p = (3, 2, 1)/6 and q = (1, 1, 4)/6. With which chance is a token of q accepted, by min(1, p/q)?",
        unit="as a chance",
        answer=0.5,
        reply="The sum of min(p, q): 1/6 + 1/6 + 1/6. It is 1 − TV(p, q).",
        slips=(
            Slip(
                0.25,
                "accepting means that two draws agree",
                "1/4 is the sum of p·q: the chance that a fresh draw of the target agrees. The test is "
                "kinder: "
                "it accepts with min(1, p/q).",
            ),
            Slip(
                1 / 6,
                "only the target's best token is accepted",
                "1/6 is the chance that the draft says the target's best token. The test also accepts "
                "others.",
            ),
            Slip(
                1,
                "a drafted token that the target could say is accepted",
                "The target could say each of them, but the third only a quarter as often as the draft does.",
            ),
        ),
    ),
)
