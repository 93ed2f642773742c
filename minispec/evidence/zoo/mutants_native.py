"""Bugs of the C++: of its rules and draws, of its forward, and of its draft steps.

Each has a twin in Python, or is one that only a library can have. Where there is no C++ compiler they cannot
be planted.
"""

from minispec.evidence.zoo.mutation import CPP, Mutant

REJECT = f"{CPP}decisions.h:reject"
CHOOSE_AFTER = f"{CPP}decisions.h:choose_after"
PICK = f"{CPP}decisions.h:pick"
READ = f"{CPP}forward.h:read"
DRAFT = f"{CPP}native.cpp:draft"
LACKING = "std::max(double(p[id]) - double(q[id]), 0.0)"
TOKEN = "tokens[row] = drawn[row * k + i] = i < budgets[row] ? choose(own, V, next) : 0;"

NATIVE = (
    Mutant(
        name="native-residual-not-clamped",
        title="the residual is p − q, negative where the draft has more",
        function=CHOOSE_AFTER,
        old=LACKING,
        new="double(p[id]) - double(q[id])",
    ),
    Mutant(
        name="native-residual-reversed",
        title="the residual is what p lacks of q, not what q lacks of p",
        function=CHOOSE_AFTER,
        old=LACKING,
        new="std::max(double(q[id]) - double(p[id]), 0.0)",
        seen="not seen; two conventions: some code calls the draft p and the target q",
    ),
    Mutant(
        name="native-ratio-inverted",
        title="accept with probability q/p",
        function=REJECT,
        old="if (ratio >= certain || (ratio > 0 && *next++ < ratio)) ++accepted[row];",
        new="if (1 / ratio >= certain || *next++ < 1 / ratio) ++accepted[row];",
        seen="not seen; two conventions: some code calls the draft p and the target q",
    ),
    Mutant(
        name="native-number-used-twice",
        title="the number that rejected a token also draws the correction",
        function=REJECT,
        old="(ratio > 0 && *next++ < ratio)) ++accepted[row];",
        new="(ratio > 0 && *next < ratio && next++)) ++accepted[row];",
    ),
    Mutant(
        name="native-first-rows-length",
        title="every row's draft is taken to be as long as that of row 0",
        function=REJECT,
        old="std::min(lengths[row], budgets[row])",
        new="std::min(lengths[0], budgets[row])",
    ),
    Mutant(
        name="native-bonus-from-the-place-before",
        title="the bonus is drawn from the target's distribution at the last drafted token, not after it",
        function=REJECT,
        old="const T* dist = p + (row * (k + 1) + n) * vocab;",
        new="const T* dist = p + (row * (k + 1) + std::min(n, std::max<Int>(k - 1, 0))) * vocab;",
    ),
    Mutant(
        name="native-budget-ignored",
        title="rows that are done draw a next token all the same",
        function=REJECT,
        old="n < budgets[row] ? choose_after(dist, guessed, n < lengths[row], vocab, next) : 0;",
        new="choose_after(dist, guessed, n < lengths[row], vocab, next);",
        effect="breaks",
        harm="with the same seed, a row's text depends on its neighbours",
    ),
    Mutant(
        name="native-probability-zero-is-picked",
        title="the first id whose sum reaches the number, not the first whose sum exceeds it",
        function=PICK,
        old="if ((sum += dist[id]) > threshold) return id;",
        new="if ((sum += dist[id]) >= threshold) return id;",
    ),
    Mutant(
        name="native-residual-not-rescaled",
        title="the number is compared with sums of the residual that was not rescaled to 1",
        function=PICK,
        old="std::min(number * total, std::nextafter(total, 0.0))",
        new="std::min(number, std::nextafter(total, 0.0))",
    ),
    Mutant(
        name="native-next-token-seen",
        title="each new token attends to the one after it, too",
        function=f"{CPP}forward.h:attend",
        old="const Int visible = start + row / s.groups + 1;",
        new="const Int visible = std::min(start + row / s.groups + 2, end);",
    ),
    Mutant(
        name="native-first-rows-start",
        title="in a ragged batch all rows are read into the cache where row 0 goes on",
        function=READ,
        old="std::min(n, s.capacity - starts[row]), starts[row],",
        new="std::min(n, s.capacity - starts[0]), starts[0],",
        effect="breaks",
        harm="rows of different lengths read and overwrite the wrong slots of their caches",
    ),
    Mutant(
        name="native-race-on-a-sum",
        title="all threads add all columns of a product to the residual stream, not each its share of them",
        function=READ,
        old="multiply<T, W>(gates, 2 * F, m, layer.down, x, D, true, share);",
        new="multiply<T, W>(gates, 2 * F, m, layer.down, x, D, true);",
        effect="breaks",
        harm="with two threads logits are wrong, and others each time",
    ),
    Mutant(
        name="native-wait-missing",
        title="a thread multiplies by the gates before the others have computed theirs",
        function=READ,
        old="activate(work, m, layer.up.parts, share);\nshare.wait();",
        new="activate(work, m, layer.up.parts, share);",
        effect="breaks",
        harm="with two threads some logits come from the gates of an earlier layer or forward",
    ),
    Mutant(
        name="native-greedy-draft-soft-q",
        title="the draft takes its most probable token, and reports the softmax as its distribution",
        function=DRAFT,
        old=TOKEN,
        new=TOKEN.replace("choose(own, V, next)", "largest(own, V)"),
        seen="not seen in C++; in Python huggingface/transformers #32867 and #47932",
    ),
    Mutant(
        name="native-q-without-temperature",
        title="the draft reports its distribution at temperature 1, and draws at its own",
        function=DRAFT,
        old=f"make_distribution(own, V, temperature);\n{TOKEN}",
        new=(
            "std::vector<T> plain(own, own + wide);\n"
            "make_distribution(own, V, temperature);\n"
            f"{TOKEN}\n"
            "std::copy_n(plain.data(), V, own);\n"
            "make_distribution(own, V, 1);"
        ),
        seen="not seen in C++; in Python huggingface/transformers #47932",
    ),
)
