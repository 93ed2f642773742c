// What Python calls: to pack a model's weights, to read tokens, to take draft steps, to decide.

#include "decisions.h"
#include "forward.h"

namespace {

// Takes `k` draft steps in each row: forward, warp, draw. Row b continues its first starts[b] tokens by tokens[b],
// and draws in its first budgets[b] steps; after them it gets token 0. It asks for numbers in the order of
// `ModelDrafter`: step by step, and row by row at each. dists [rows, k, V] and drawn [rows, k] are the results.
// Returns how many numbers were used, or -1 if some logits cannot be made a distribution.
template <class T>
Int draft(const Model<T>& model, Int* tokens, Int rows, Int* starts, Int k, double temperature,
          const Int* budgets, const double* numbers, T* cache, T* dists, Int* drawn) {
    const Int V = model.s.vocab, wide = padded<T>(V);
    const double* next = numbers;
    Workspace<T> work(model.s, rows, 1);
    Memory<T> dist = memory<T>(rows * wide);
    for (Int i = 0; i < k; ++i) {
        read(model, work, tokens, rows, 1, starts, cache);
        multiply(work.normed.get(), work.D, rows, {model.head.get(), model.s.width, V, 0}, dist.get(), wide);
        for (Int row = 0; row < rows; ++row) {
            T* own = dist.get() + row * wide;
            if (!sound(own, V)) return -1;
            make_distribution(own, V, temperature);
            tokens[row] = drawn[row * k + i] = i < budgets[row] ? choose(own, V, next) : 0;
            std::copy_n(own, V, dists + (row * k + i) * V);
            ++starts[row];
        }
    }
    return next - numbers;
}

// Packs weights as `packed_weights` lists them, [in, out] each, then cosines and sines.
template <class T>
Model<T>* packed(const Int* sizes, double little, const T* const* weights) {
    auto* model = new Model<T>;
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         padded<T>(sizes[7]), padded<T>(sizes[5]), little};
    const T* const* next = weights;
    model->embedding.assign(*next, *next + s.vocab * s.width);
    ++next;
    for (Int l = 0; l < s.layers; ++l, next += 4)
        model->layers.push_back({panels(next[0], s.width, (s.heads + 2 * s.kv_heads) * s.head_dim),
                                 panels(next[1], s.width, s.width), panels(next[2], s.width, 2 * s.ffn),
                                 panels(next[3], s.ffn, s.width)});
    model->head = panels(*next++, s.width, s.vocab);
    const Int angles = s.capacity * s.head_dim / 2;
    model->cos.assign(*next, *next + angles);
    ++next;
    model->sin.assign(*next, *next + angles);
    return model;
}

// Whether there is a token of every id.
template <class T>
bool known(const Model<T>& model, const Int* tokens, Int count) {
    return std::all_of(tokens, tokens + count, [&](Int id) { return 0 <= id && id < model.s.vocab; });
}

template <class T>
Int hidden_of(const Model<T>& model, const Int* tokens, Int rows, Int n, const Int* starts, T* cache, T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Workspace<T> work(model.s, rows * n, n);
    read(model, work, tokens, rows, n, starts, cache);
    for (Int i = 0; i < rows * n; ++i)
        std::copy_n(work.normed.get() + i * work.D, model.s.width, to + i * model.s.width);
    return 1;
}

template <class T>
Int logits_of(const Model<T>& model, const Int* tokens, Int rows, Int n, const Int* starts, T* cache, T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Workspace<T> work(model.s, rows * n, n);
    read(model, work, tokens, rows, n, starts, cache);
    logits(model, work.normed.get(), work.D, rows * n, to);
    return 1;
}

template <class T>
Int cache_of(const Sizes& s) {
    return s.layers * s.kv_heads * (s.head_dim * s.slots + s.slots * s.deep);
}

}  // namespace

// What Python calls, for float and for double. `hidden` and `logits` return 0 if a token id is out of range, and so
// does `warp` for logits that are not finite. `draft`, `choose`, `agree` and `reject` return how many numbers they
// have used, -1 for tokens, lengths or logits that cannot be, or -2 for numbers or distributions that are none.
#define NATIVE(T, NAME)                                                                                      \
    extern "C" void* new_##NAME(const Int* sizes, double little, const T* const* weights) {                  \
        return packed<T>(sizes, little, weights);                                                            \
    }                                                                                                        \
    extern "C" void free_##NAME(Model<T>* m) { delete m; }                                                   \
    extern "C" Int cache_##NAME(Model<T>* m) { return cache_of<T>(m->s); }                                   \
    extern "C" Int hidden_##NAME(Model<T>* m, Int* tokens, Int rows, Int n, Int* starts, T* cache, T* to) {  \
        return hidden_of(*m, tokens, rows, n, starts, cache, to);                                            \
    }                                                                                                        \
    extern "C" Int logits_##NAME(Model<T>* m, Int* tokens, Int rows, Int n, Int* starts, T* cache, T* to) {  \
        return logits_of(*m, tokens, rows, n, starts, cache, to);                                            \
    }                                                                                                        \
    extern "C" Int draft_##NAME(Model<T>* m, Int* tokens, Int rows, Int* starts, Int k, double temperature,  \
                                Int* budgets, double* numbers, T* cache, T* dists, Int* drawn) {             \
        if (!known(*m, tokens, rows)) return -1;                                                             \
        if (temperature > 0 && !uniform(numbers, rows * k)) return -2;                                       \
        return draft(*m, tokens, rows, starts, k, temperature, budgets, numbers, cache, dists, drawn);       \
    }                                                                                                        \
    extern "C" Int warp_##NAME(T* logits, Int rows, Int vocab, double temperature, T* dists) {               \
        return make_distributions(logits, rows, vocab, temperature, dists);                                  \
    }                                                                                                        \
    extern "C" Int choose_##NAME(T* dists, Int rows, Int vocab, Int* live, double* numbers, Int* picked) {   \
        return choose_all(dists, rows, vocab, live, numbers, picked);                                        \
    }                                                                                                        \
    extern "C" Int agree_##NAME(T* p, Int* tokens, Int* lengths, Int rows, Int k, Int vocab, Int* accepted,  \
                                Int* token) {                                                                \
        if (!proper(tokens, lengths, rows, k, vocab)) return -1;                                             \
        if (!are_distributions(p, rows, k + 1, lengths, 1, vocab)) return -2;                                \
        agree(p, tokens, lengths, rows, k, vocab, accepted, token);                                          \
        return 0;                                                                                            \
    }                                                                                                        \
    extern "C" Int reject_##NAME(T* p, T* q, Int* tokens, Int* lengths, Int* budgets, Int rows, Int k,       \
                                 Int vocab, double* numbers, Int* accepted, Int* token) {                    \
        if (!proper(tokens, lengths, rows, k, vocab)) return -1;                                             \
        if (!are_distributions(p, rows, k + 1, lengths, 1, vocab)) return -2;                                \
        if (!are_distributions(q, rows, k, lengths, 0, vocab)) return -2;                                    \
        return reject(p, q, tokens, lengths, budgets, rows, k, vocab, numbers, accepted, token);             \
    }

NATIVE(float, f32)
NATIVE(double, f64)
