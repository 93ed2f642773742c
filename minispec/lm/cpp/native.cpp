// What Python calls: to pack a model's weights, to read tokens, to take draft steps, to decide.

#include "decisions.h"
#include "forward.h"

namespace {

// Makes logits [V] a law, and draws from it by a number.
template <class T>
Int draw(T* law, Int vocab, double temperature, double number) {
    make_law(law, vocab, temperature);
    if (temperature > 0) return pick(law, vocab, total_of(law, vocab), number);
    return std::find(law, law + vocab, T(1)) - law;
}

// Takes `k` draft steps in each row: forward, law, draw. Row b continues its first starts[b] tokens by tokens[b],
// and decides step i by numbers[b, i]. laws [rows, k, V] and drawn [rows, k] are the results. Returns 0 if some
// logits cannot be made a law.
template <class T>
Int draft(const Model<T>& model, Int* tokens, Int rows, Int* starts, Int k, double temperature,
          const double* numbers, T* cache, T* laws, Int* drawn) {
    const Int V = model.s.vocab, wide = padded<T>(V);
    Desk<T> desk(model.s, rows, 1);
    Room<T> law = room<T>(rows * wide);
    for (Int i = 0; i < k; ++i) {
        read(model, desk, tokens, rows, 1, starts, cache);
        multiply(desk.normed.get(), desk.D, rows, {model.head.get(), model.s.width, V, 0}, law.get(), wide);
        for (Int row = 0; row < rows; ++row) {
            T* own = law.get() + row * wide;
            if (!sound(own, V)) return 0;
            tokens[row] = drawn[row * k + i] = draw(own, V, temperature, numbers[row * k + i]);
            std::copy_n(own, V, laws + (row * k + i) * V);
            ++starts[row];
        }
    }
    return 1;
}

// Packs weights as `LeanGPT.weights` lists them, [in, out] each, then cosines and sines.
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
    Desk<T> desk(model.s, rows * n, n);
    read(model, desk, tokens, rows, n, starts, cache);
    for (Int i = 0; i < rows * n; ++i)
        std::copy_n(desk.normed.get() + i * desk.D, model.s.width, to + i * model.s.width);
    return 1;
}

template <class T>
Int logits_of(const Model<T>& model, const Int* tokens, Int rows, Int n, const Int* starts, T* cache, T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Desk<T> desk(model.s, rows * n, n);
    read(model, desk, tokens, rows, n, starts, cache);
    logits(model, desk.normed.get(), desk.D, rows * n, to);
    return 1;
}

template <class T>
Int cache_of(const Sizes& s) {
    return s.layers * s.kv_heads * (s.head_dim * s.slots + s.slots * s.deep);
}

}  // namespace

// What Python calls, for float and for double. Those that read tokens return 0 if one of them is none, and so
// does `laws` for logits that are none. `choose`, `agree` and `reject` return how many numbers they have used;
// the latter two return -1 if a draft is none.
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
                                double* numbers, T* cache, T* laws, Int* drawn) {                            \
        if (!known(*m, tokens, rows)) return 0;                                                              \
        return draft(*m, tokens, rows, starts, k, temperature, numbers, cache, laws, drawn);                 \
    }                                                                                                        \
    extern "C" Int laws_##NAME(T* logits, Int rows, Int vocab, double temperature, T* laws) {                \
        return make_laws(logits, rows, vocab, temperature, laws);                                            \
    }                                                                                                        \
    extern "C" Int choose_##NAME(T* laws, Int rows, Int vocab, Int* live, double* numbers, Int* picked) {    \
        return choose_all(laws, rows, vocab, live, numbers, picked);                                         \
    }                                                                                                        \
    extern "C" Int agree_##NAME(T* p, Int* tokens, Int* lengths, Int rows, Int k, Int vocab, Int* accepted,  \
                                Int* token) {                                                                \
        if (!proper(tokens, lengths, rows, k, vocab)) return -1;                                             \
        agree(p, tokens, lengths, rows, k, vocab, accepted, token);                                          \
        return 0;                                                                                            \
    }                                                                                                        \
    extern "C" Int reject_##NAME(T* p, T* q, Int* tokens, Int* lengths, Int* rooms, Int rows, Int k,         \
                                 Int vocab, double* numbers, Int* accepted, Int* token) {                    \
        if (!proper(tokens, lengths, rows, k, vocab)) return -1;                                             \
        return reject(p, q, tokens, lengths, rooms, rows, k, vocab, numbers, accepted, token);               \
    }

NATIVE(float, f32)
NATIVE(double, f64)
