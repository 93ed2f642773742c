// Decisions: from logits to distributions, from a distribution to a token, and how much of a draft stays.
#pragma once

#include <numeric>
#include <vector>

#include "border.h"
#include "functions.h"

namespace {

// ---- From logits to distributions

constexpr double rounding = 1e-9;  // `ROUNDING` of core/warp.py
constexpr double everything = 2;   // no share is as large
constexpr Int levels = 1024;

// On which of the levels a probability stands: on eight for each power of two. A larger one stands no lower.
inline Int level_of(float prob) {
    std::uint32_t bits;
    std::memcpy(&bits, &prob, sizeof bits);
    return bits >> 20;
}

// Keeps the most probable ids of a distribution [V], ties to the lowest, and rescales them to a sum of 1: `most` of
// them, or fewer that have a share of the sum, and at least one. All levels above some stay, and all below it go, so
// that only the ids of one level are sorted.
template <class T>
void keep_most_probable(T* dist, Int vocab, Int most, double share) {
    std::vector<Int> counts(levels);
    std::vector<double> masses(levels);
    for (Int id = 0; id < vocab; ++id) {
        ++counts[level_of(dist[id])];
        masses[level_of(dist[id])] += dist[id];
    }
    const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
    const double needed = std::max(share * total, std::numeric_limits<double>::min());
    double kept = 0;
    Int last = levels - 1;
    for (; last > 0 && counts[last] < most && kept + masses[last] < needed; --last) {
        most -= counts[last];
        kept += masses[last];
    }
    std::vector<Int> ids;  // those of the last level that stays, or a part of it
    for (Int id = 0; id < vocab; ++id) {
        const Int level = level_of(dist[id]);
        if (level < last) dist[id] = 0;
        if (level == last && dist[id] > 0) ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(), [=](Int one, Int other) { return dist[one] > dist[other]; });
    for (Int id : ids) {
        if (most <= 0 || kept >= needed) dist[id] = 0;
        kept += dist[id];
        --most;
    }
    for (Int id = 0; id < vocab; ++id) dist[id] /= static_cast<T>(kept);
}

// Makes logits [V] a distribution, in place; after them there is space up to whole vectors. Whether that can be done.
template <class T>
bool make_distribution(T* dist, Int vocab, const ms_warp& warp) {
    if (!can_be_distribution(dist, vocab)) return false;
    if (warp.temperature > 0) {
        // One over a temperature may be more, or less, than this type can hold.
        const double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
        softmax<T>(dist, vocab, static_cast<T>(std::clamp(1 / warp.temperature, least, most)));
        if (0 < warp.top_k && warp.top_k < vocab) keep_most_probable(dist, vocab, warp.top_k, everything);
        if (warp.top_p < 1) keep_most_probable(dist, vocab, vocab, warp.top_p - rounding);
        return true;
    }
    const Int best = largest(dist, vocab);
    std::fill_n(dist, vocab, T(0));
    dist[best] = 1;
    return true;
}

// ---- Randomness

constexpr double certain = 1 - 1e-12;  // `CERTAIN` of core/rng.py

// The first id of the cumulative sum that exceeds `number` of its total, as `SeededRng` picks.
template <class T>
Int invert(const T* dist, Int vocab, double number) {
    const double total = std::accumulate(dist, dist + vocab, 0.0);
    const double threshold = std::min(number * total, std::nextafter(total, 0.0));
    double sum = 0;
    for (Int id = 0; id < vocab; ++id)
        if ((sum += dist[id]) > threshold) return id;
    return vocab - 1;
}

// The first id that has a probability; without one the last.
template <class T>
Int first_possible(const T* dist, Int vocab) {
    return std::find_if(dist, dist + vocab - 1, [](T prob) { return prob > 0; }) - dist;
}

// The id with the largest log-probability plus Gumbel noise, as `KeyedRng` picks: its exponential / p is the smallest.
template <class T>
Int loudest(const T* dist, Int vocab, std::uint64_t key) {
    Int best = 0;
    double smallest = std::numeric_limits<double>::infinity();
    for (Int id = 0; id < vocab; ++id) {
        if (!(dist[id] > 0)) continue;
        const double uniform = ((scramble(key + scramble(id)) >> 12) + 0.5) * 0x1p-52;  // inside (0, 1)
        const double time = -std::log(uniform) / dist[id];
        if (time >= smallest) continue;
        smallest = time;
        best = id;
    }
    return best;
}

// The noise of the token number `offset` of the round, in a row.
inline std::uint64_t key_of(const ms_source& noise, Int row, Int offset) {
    const std::uint64_t text = scramble(scramble(noise.seed) + noise.prompt_ids[row]);
    return scramble(text + noise.positions[row] + offset);
}

// The next number of a source; after the last one 0. What is certain or impossible uses none.
inline double next(ms_source& source) { return source.used < source.count ? source.numbers[source.used++] : 0; }

// Says yes with a probability; noise cannot.
inline bool accepts(ms_source& source, double prob) { return prob >= certain || (prob > 0 && next(source) < prob); }

// Picks an id of a distribution [V], for the token number `offset` of the round, in a row.
template <class T>
Int pick(ms_source& source, const T* dist, Int vocab, Int row, Int offset) {
    const bool open = std::count_if(dist, dist + vocab, [](T prob) { return prob > 0; }) > 1;
    if (!open) return first_possible(dist, vocab);
    if (!source.numbers) return loudest(dist, vocab, key_of(source, row, offset));
    return invert(dist, vocab, next(source));
}

// Whether a source can make as many decisions as there may be: it is noise, or has numbers in [0, 1) for them.
inline bool can_decide(const ms_source& source, Int most) {
    if (!source.numbers) return most == 0 || (source.prompt_ids && source.positions);
    const double* first = source.numbers + source.used;
    return most <= source.count - source.used &&
           std::all_of(first, first + most, [](double number) { return 0 <= number && number < 1; });
}

// Whether numbers [V] are a distribution: none is negative, and their sum is 1 up to rounding; NaN has no such sum.
template <class T>
bool is_distribution(const T* dist, Int vocab) {
    const Int lanes = LANES<T>, end = vocab / lanes * lanes;
    Vector<T> sums = {}, highest = {};
    for (Int id = 0; id < end; id += lanes) {
        sums += load<T>(dist + id);
        highest = larger(-load<T>(dist + id), highest);
    }
    double sum = across<T>(sums, plus);
    bool negative = across<T>(highest, larger) > 0;
    for (Int id = end; id < vocab; ++id) sum += dist[id], negative |= dist[id] < 0;
    return !negative && std::abs(sum - 1) < 1e-3;
}

// ---- Rules

// What a rule decides about (see minispec.h), with distributions of T.
template <class T>
struct Decision : ms_decision {
    Int drafted(Int row, Int i) const { return tokens[row * k + i]; }
    Int parent(Int row, Int i) const { return parents ? parents[row * k + i] : i; }  // 0: the pending token
    const T* p_at(Int row, Int i) const { return static_cast<const T*>(p) + (row * (k + 1) + i) * vocab; }

    // What token i was drawn from; NULL after the draft's end, where q is 0.
    const T* q_at(Int row, Int i) const {
        return i < lengths[row] ? static_cast<const T*>(q) + (row * k + i) * vocab : nullptr;
    }
};

// Whether all of `count` numbers are ids of a vocabulary.
inline bool are_ids(const Int* ids, Int count, Int vocab) {
    return std::all_of(ids, ids + count, [=](Int id) { return 0 <= id && id < vocab; });
}

// Whether lengths, tokens and parents are those of a draft: the parents ascend, and come before their children.
template <class T>
bool can_be_draft(const Decision<T>& d) {
    for (Int row = 0; row < d.rows; ++row) {
        if (d.lengths[row] < 0 || d.lengths[row] > d.k) return false;
        if (!are_ids(d.tokens + row * d.k, d.lengths[row], d.vocab)) return false;
        for (Int i = 0; i < d.lengths[row]; ++i)
            if (d.parent(row, i) < (i ? d.parent(row, i - 1) : 0) || d.parent(row, i) > i) return false;
    }
    return true;
}

// Whether a rule can decide: what it reads can be a draft, distributions, and numbers to decide by.
template <class T>
ms_status check_decision(ms_rule rule, const ms_decision& decision, const ms_source& source) {
    const Decision<T> d{decision};
    const bool greedy = rule == MS_GREEDY || rule == MS_TREE_GREEDY, tests = !greedy && rule != MS_COUPLED;
    if (!can_be_draft(d)) return MS_BAD_DRAFT;
    for (Int row = 0; row < d.rows; ++row)
        for (Int i = 0; i <= d.lengths[row]; ++i) {
            if (!is_distribution(d.p_at(row, i), d.vocab)) return MS_BAD_DISTRIBUTION;
            if (tests && i < d.lengths[row] && !is_distribution(d.q_at(row, i), d.vocab)) return MS_BAD_DISTRIBUTION;
        }
    if (!greedy && !can_decide(source, d.rows * (d.k + 1))) return MS_BAD_NUMBER;
    return tests && d.rows > 0 && !source.numbers ? MS_BAD_NUMBER : MS_OK;
}

// [weight · p − q]+, of distributions [V]; without q it is 0. The core rounds the product before it subtracts. In one
// loop a processor may round once, after both, and leave something where nothing is left.
template <class P, class T>
std::vector<double> excess(const P* p, const T* q, Int vocab, double weight = 1) {
    std::vector<double> rest(vocab);
    for (Int id = 0; id < vocab; ++id) rest[id] = weight * p[id];
    for (Int id = 0; q && id < vocab; ++id) rest[id] = std::max(rest[id] - q[id], 0.0);
    return rest;
}

// norm([weight · p − q]+). Where nothing is left, p = q but for rounding, and p is the limit.
template <class P, class T>
std::vector<double> residual(const P* p, const T* q, Int vocab, double weight = 1) {
    std::vector<double> rest = excess(p, q, vocab, weight);
    const double mass = std::accumulate(rest.begin(), rest.end(), 0.0);
    if (mass <= 0) return std::vector<double>(p, p + vocab);
    for (double& prob : rest) prob /= mass;
    return rest;
}

// Draws the token after what is accepted from a distribution [V]; 0 where the row's budget ends before.
template <class T, class P>
void draw_next(const Decision<T>& d, Int row, const P* dist, ms_source& source) {
    const Int n = d.accepted[row];
    d.token[row] = n < d.budgets[row] ? pick(source, dist, d.vocab, row, n) : 0;
}

// Greedy verification (Leviathan et al. 2023, section 2.2): keeps drafted tokens while they are p's largest, in a tree
// those of a path.
template <class T>
void decide_greedy(const Decision<T>& d) {
    for (Int row = 0; row < d.rows; ++row) {
        Int last = 0;  // kept token: 0 is the pending one
        d.token[row] = largest(d.p_at(row, 0), d.vocab);
        for (Int i = 0; i < d.lengths[row]; ++i) {
            if (d.parent(row, i) != last || d.drafted(row, i) != d.token[row]) continue;
            if (d.path) d.path[row * d.k + i] = 1;
            last = i + 1;
            ++d.accepted[row];
            d.token[row] = largest(d.p_at(row, last), d.vocab);
        }
    }
}

// Rejection verification (Leviathan et al. 2023, algorithm 1): keeps x ~ q with probability min(1, p(x) / q(x)); after
// a rejection the next token is from norm([p − q]+).
template <class T>
void decide_rejection(const Decision<T>& d, ms_source& source) {
    for (Int i = 0; i < d.k; ++i)
        for (Int row = 0; row < d.rows; ++row) {
            if (d.accepted[row] < i || i >= std::min(d.lengths[row], d.budgets[row])) continue;  // nothing to test
            const Int x = d.drafted(row, i);
            const double ratio = double(d.p_at(row, i)[x]) / double(d.q_at(row, i)[x]);
            if (accepts(source, ratio)) ++d.accepted[row];
        }
    for (Int row = 0; row < d.rows; ++row) {
        const Int n = d.accepted[row];
        draw_next(d, row, residual(d.p_at(row, n), d.q_at(row, n), d.vocab).data(), source);
    }
}

// Block verification (Sun et al. 2024, algorithm 2): w is the ratio of the whole beginning, at most 1, and the coin
// after it says yes with probability S / (S + 1 − w), S = Σ [w·p − q]+. The last yes counts.
template <class T>
void decide_block(const Decision<T>& d, ms_source& source) {
    std::vector<double> ratios(d.rows, 1.0), accepted = ratios;  // w after each row's last token, and its last yes
    for (Int i = 0; i < d.k; ++i)
        for (Int row = 0; row < d.rows; ++row) {
            if (i >= std::min(d.lengths[row], d.budgets[row])) continue;
            const Int x = d.drafted(row, i);
            const double ratio = ratios[row] * d.p_at(row, i)[x] / d.q_at(row, i)[x];
            const double w = ratio > 0 ? std::min(ratio, 1.0) : 0;  // 0 / 0 is no number
            const std::vector<double> rest = excess(d.p_at(row, i + 1), d.q_at(row, i + 1), d.vocab, w);
            const double s = std::accumulate(rest.begin(), rest.end(), 0.0);
            ratios[row] = w;
            if (!accepts(source, s / (s + (1 - w)))) continue;  // S + 1 − w would round a small S away
            d.accepted[row] = i + 1;
            accepted[row] = w;
        }
    for (Int row = 0; row < d.rows; ++row) {
        const Int n = d.accepted[row];
        draw_next(d, row, residual(d.p_at(row, n), d.q_at(row, n), d.vocab, accepted[row]).data(), source);
    }
}

// The coupled rule (Daliri, Musco, Suresh 2024): draws the target's own tokens, while the drafted ones are the same.
template <class T>
void decide_coupled(const Decision<T>& d, ms_source& source) {
    for (Int i = 0; i <= d.k; ++i)
        for (Int row = 0; row < d.rows; ++row) {
            if (d.accepted[row] < i) continue;
            draw_next(d, row, d.p_at(row, i), source);
            if (i < d.lengths[row] && d.drafted(row, i) == d.token[row]) ++d.accepted[row];
        }
}

// Recursive rejection (Miao et al. 2024, section 4.3): candidates after the last kept token are tested one by one, each
// against what the rejections before it have left of p.
template <class T>
void decide_tree(const Decision<T>& d, ms_source& source) {
    std::vector<Int> last(d.rows);  // kept token: 0 is the pending one
    std::vector<std::vector<double>> left;
    for (Int row = 0; row < d.rows; ++row) left.emplace_back(d.p_at(row, 0), d.p_at(row, 0) + d.vocab);
    for (Int i = 0; i < d.k; ++i)
        for (Int row = 0; row < d.rows; ++row) {
            if (i >= d.lengths[row] || d.parent(row, i) != last[row]) continue;
            const Int x = d.drafted(row, i);
            const double ratio = left[row][x] / d.q_at(row, i)[x];
            if (d.accepted[row] >= d.budgets[row] || !accepts(source, ratio)) {
                left[row] = residual(left[row].data(), d.q_at(row, i), d.vocab);
                continue;
            }
            d.path[row * d.k + i] = 1;
            last[row] = i + 1;
            ++d.accepted[row];
            left[row].assign(d.p_at(row, i + 1), d.p_at(row, i + 1) + d.vocab);
        }
    for (Int row = 0; row < d.rows; ++row) draw_next(d, row, left[row].data(), source);
}

// Decides by a rule, and uses numbers in the core's order: position by position, and row by row at each. Row b decides
// in its first budgets[b] positions. Nothing is looked at before: see `check_decision`.
template <class T>
void decide(ms_rule rule, const ms_decision& decision, ms_source& source) {
    const Decision<T> d{decision};
    std::fill_n(d.accepted, d.rows, 0);
    if (d.path) std::fill_n(d.path, d.rows * d.k, 0);
    switch (rule) {
        case MS_GREEDY:
        case MS_TREE_GREEDY: return decide_greedy(d);
        case MS_REJECTION: return decide_rejection(d, source);
        case MS_BLOCK: return decide_block(d, source);
        case MS_COUPLED: return decide_coupled(d, source);
        case MS_TREE: return decide_tree(d, source);
    }
}

}  // namespace

extern "C" {

ms_status ms_distributions(ms_type type, const ms_warp* warp, const void* logits, int64_t rows, int64_t vocab,
                           void* probs) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        Memory<T> dist = memory<T>(padded<T>(vocab));
        for (Int row = 0; row < rows; ++row) {
            std::copy_n(static_cast<const T*>(logits) + row * vocab, vocab, dist.get());
            if (!make_distribution(dist.get(), vocab, *warp)) return MS_BAD_LOGITS;
            std::copy_n(dist.get(), vocab, static_cast<T*>(probs) + row * vocab);
        }
        return MS_OK;
    });
}

ms_status ms_choose(ms_type type, const void* probs, int64_t rows, int64_t vocab, const uint8_t* live,
                    ms_source* source, int64_t* token) {
    return with_type(type, [&](auto kinds) {
        const auto* dists = static_cast<const NUMBER(kinds)*>(probs);
        if (!can_decide(*source, rows)) return MS_BAD_NUMBER;
        for (Int row = 0; row < rows; ++row)
            if ((!live || live[row]) && !is_distribution(dists + row * vocab, vocab)) return MS_BAD_DISTRIBUTION;
        for (Int row = 0; row < rows; ++row)
            token[row] = !live || live[row] ? pick(*source, dists + row * vocab, vocab, row, 0) : 0;
        return MS_OK;
    });
}

ms_status ms_decide(ms_type type, ms_rule rule, ms_decision* decision, ms_source* source) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        const ms_status status = check_decision<T>(rule, *decision, *source);
        if (status == MS_OK) decide<T>(rule, *decision, *source);
        return status;
    });
}

}  // extern "C"
