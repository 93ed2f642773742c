// Decisions: from logits to distributions, from a distribution to a token, and how much of a draft stays.
#pragma once

#include <numeric>
#include <vector>

#include "border.h"
#include "functions.h"

namespace {

constexpr double certain = 1 - 1e-12;  // `CERTAIN` of core/rng.py

// Makes logits [V] a distribution, in place; after them there is space up to whole vectors.
template <class T>
void make_distribution(T* dist, Int vocab, double temperature) {
    if (temperature > 0) {
        // One over a temperature may be more, or less, than this type can hold.
        const double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
        softmax<T>(dist, vocab, static_cast<T>(std::clamp(1 / temperature, least, most)));
        return;
    }
    const Int best = largest(dist, vocab);
    std::fill_n(dist, vocab, T(0));
    dist[best] = 1;
}

// Makes each row of logits [rows, V] a distribution. Returns 0 if one of them cannot be made one.
template <class T>
Int make_distributions(const T* logits, Int rows, Int vocab, double temperature, T* dists) {
    Memory<T> dist = memory<T>(padded<T>(vocab));
    for (Int row = 0; row < rows; ++row, logits += vocab, dists += vocab) {
        if (!can_be_distribution(logits, vocab)) return 0;
        std::copy_n(logits, vocab, dist.get());
        make_distribution(dist.get(), vocab, temperature);
        std::copy_n(dist.get(), vocab, dists);
    }
    return 1;
}

// The first id of the cumulative sum that exceeds `number` of its total, as `SeededRng` picks.
template <class T>
Int pick(const T* dist, Int vocab, double total, double number) {
    const double threshold = std::min(number * total, std::nextafter(total, 0.0));
    double sum = 0;
    for (Int id = 0; id < vocab; ++id)
        if ((sum += dist[id]) > threshold) return id;
    return vocab - 1;
}

// Picks by the next number, which is used up unless only one id has any probability.
template <class T>
Int choose(const T* dist, Int vocab, const double*& next) {
    const double total = std::accumulate(dist, dist + vocab, 0.0);
    const bool open = std::count_if(dist, dist + vocab, [](T prob) { return prob > 0; }) > 1;
    return pick(dist, vocab, total, open ? *next++ : 0.0);
}

// Whether numbers [V] are a distribution: none is negative, and their sum is 1 up to rounding; NaN has no such sum.
template <class T>
bool is_distribution(const T* dist, Int vocab) {
    const Int lanes = Lanes<T>::count, end = vocab / lanes * lanes;
    typename Lanes<T>::Vector sums = {}, highest = {};
    for (Int id = 0; id < end; id += lanes) {
        sums += load<T>(dist + id);
        highest = larger(-load<T>(dist + id), highest);
    }
    double sum = across<T>(sums, plus);
    bool negative = across<T>(highest, larger) > 0;
    for (Int id = end; id < vocab; ++id) sum += dist[id], negative |= dist[id] < 0;
    return !negative && std::abs(sum - 1) < 1e-3;
}

// Whether the first counts[b] + more of each row's `each` distributions are ones; after them comes padding.
template <class T>
bool are_distributions(const T* dists, Int rows, Int each, const Int* counts, Int more, Int vocab) {
    for (Int row = 0; row < rows; ++row)
        for (Int i = 0; i < counts[row] + more; ++i)
            if (!is_distribution(dists + (row * each + i) * vocab, vocab)) return false;
    return true;
}

// Whether numbers that a caller has chosen can decide: all lie in [0, 1).
inline bool uniform(const double* first, Int count) {
    return std::all_of(first, first + count, [](double number) { return 0 <= number && number < 1; });
}

// Picks in each row of distributions [rows, V] that is live, without `live` in all; 0 elsewhere. Returns how many
// numbers were used, or -2 if one that is live is no distribution.
template <class T>
Int choose_all(const T* dists, Int rows, Int vocab, const bool* live, const double* numbers, Int* token) {
    const auto decides = [&](Int row) { return !live || live[row]; };
    for (Int row = 0; row < rows; ++row)
        if (decides(row) && !is_distribution(dists + row * vocab, vocab)) return -2;
    const double* next = numbers;
    for (Int row = 0; row < rows; ++row) token[row] = decides(row) ? choose(dists + row * vocab, vocab, next) : 0;
    return next - numbers;
}

// Whether all of `count` numbers are ids of a vocabulary.
inline bool are_ids(const Int* ids, Int count, Int vocab) {
    return std::all_of(ids, ids + count, [=](Int id) { return 0 <= id && id < vocab; });
}

// Whether each row of tokens [rows, k] has lengths[b] real ones, and these are below `vocab`.
inline bool can_be_draft(const Int* tokens, const Int* lengths, Int rows, Int k, Int vocab) {
    for (Int row = 0; row < rows; ++row, tokens += k)
        if (lengths[row] < 0 || lengths[row] > k || !are_ids(tokens, lengths[row], vocab)) return false;
    return true;
}

// Greedy verification (Leviathan et al. 2023, section 2.2): keeps drafted tokens while they are p's largest.
template <class T>
Int agree(const T* p, const Int* tokens, const Int* lengths, Int rows, Int k, Int vocab, Int* accepted, Int* token) {
    if (!can_be_draft(tokens, lengths, rows, k, vocab)) return -1;
    if (!are_distributions(p, rows, k + 1, lengths, 1, vocab)) return -2;
    for (Int row = 0; row < rows; ++row, p += (k + 1) * vocab, tokens += k) {
        for (accepted[row] = 0;; ++accepted[row]) {
            const T* dist = p + accepted[row] * vocab;
            token[row] = largest(dist, vocab);
            if (accepted[row] == lengths[row] || tokens[accepted[row]] != token[row]) break;
        }
    }
    return 0;
}

// The token after the accepted prefix, from p where all was accepted, else from max(0, p - q).
template <class T>
Int choose_after(const T* p, const T* q, bool rejected, Int vocab, const double*& next) {
    if (!rejected) return choose(p, vocab, next);
    std::vector<double> residual(vocab);
    for (Int id = 0; id < vocab; ++id) residual[id] = std::max(double(p[id]) - double(q[id]), 0.0);
    const bool any = *std::max_element(residual.begin(), residual.end()) > 0;  // no: p = q but for rounding, and p is the limit
    return any ? choose(residual.data(), vocab, next) : choose(p, vocab, next);
}

// Rejection verification (Leviathan et al. 2023, algorithm 1) of tokens [rows, k], of which lengths[b] count, by
// p [rows, k + 1, V] and q [rows, k, V]. Row b decides in its first budgets[b] positions; after them it gets token 0.
// It asks for numbers in the order of `verify_rejection`: position by position, and row by row at each. Returns how
// many were used.
template <class T>
Int reject(const T* p, const T* q, const Int* tokens, const Int* lengths, const Int* budgets, Int rows,
           Int k, Int vocab, const double* numbers, Int* accepted, Int* token) {
    if (!can_be_draft(tokens, lengths, rows, k, vocab)) return -1;
    if (!are_distributions(p, rows, k + 1, lengths, 1, vocab)) return -2;
    if (!are_distributions(q, rows, k, lengths, 0, vocab)) return -2;
    const double* next = numbers;
    std::fill_n(accepted, rows, 0);
    for (Int i = 0; i < k; ++i)
        for (Int row = 0; row < rows; ++row) {
            if (accepted[row] < i || i >= std::min(lengths[row], budgets[row])) continue;  // nothing to test
            const Int x = tokens[row * k + i];
            const double ratio = double(p[(row * (k + 1) + i) * vocab + x]) / double(q[(row * k + i) * vocab + x]);
            if (ratio >= certain || (ratio > 0 && *next++ < ratio)) ++accepted[row];
        }
    for (Int row = 0; row < rows; ++row) {
        const Int n = accepted[row];
        const T* dist = p + (row * (k + 1) + n) * vocab;
        const T* guessed = q + (row * k + n) * vocab;
        token[row] = n < budgets[row] ? choose_after(dist, guessed, n < lengths[row], vocab, next) : 0;
    }
    return next - numbers;
}


class Source {
    ms_source& s;
  public:
    explicit Source(ms_source& s) : s(s) {}
    template <class T> Int pick(const T* dist, Int vocab, Int, Int) {
        const double* next = s.numbers + s.used;
        const Int token = choose(dist, vocab, next);
        s.used = next - s.numbers;
        return token;
    }
};
template <class T> void make_distribution(T* dist, Int vocab, const ms_warp& warp) { make_distribution(dist, vocab, warp.temperature); }
template <class T> void decide(ms_rule rule, ms_decision& d, ms_source& s) {
    const T *p = static_cast<const T*>(d.p), *q = static_cast<const T*>(d.q);
    if (rule == MS_GREEDY) agree<T>(p, d.tokens, d.lengths, d.rows, d.k, d.vocab, d.accepted, d.token);
    else s.used += reject<T>(p, q, d.tokens, d.lengths, d.budgets, d.rows, d.k, d.vocab, s.numbers + s.used, d.accepted, d.token);
}
}  // namespace
extern "C" ms_status ms_distributions(ms_type type, const ms_warp* warp, const void* logits, Int rows, Int vocab, void* probs) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        return make_distributions<T>(static_cast<const T*>(logits), rows, vocab, warp->temperature, static_cast<T*>(probs)) ? MS_OK : MS_BAD_LOGITS;
    });
}
extern "C" ms_status ms_choose(ms_type type, const void* probs, Int rows, Int vocab, const uint8_t* live, ms_source* s, Int* token) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        Int used = choose_all<T>(static_cast<const T*>(probs), rows, vocab, (const bool*)live, s->numbers + s->used, token);
        if (used < 0) return MS_BAD_DISTRIBUTION;
        s->used += used;
        return MS_OK;
    });
}
extern "C" ms_status ms_decide(ms_type type, ms_rule rule, ms_decision* d, ms_source* s) {
    return with_type(type, [&](auto kinds) { decide<NUMBER(kinds)>(rule, *d, *s); return MS_OK; });
}
