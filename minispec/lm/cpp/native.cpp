// What Python calls: to pack a model's weights, to read tokens, to take draft steps.

#include "forward.h"

namespace {

// Makes logits [V] a law, and draws from it by a number.
template <class T>
Int draw(T* law, Int vocab, double temperature, double number) {
    if (temperature > 0) {
        // One over a temperature may be more, or less, than this type can hold.
        const double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
        softmax<T>(law, vocab, static_cast<T>(std::clamp(1 / temperature, least, most)));
        return pick(law, vocab, number);
    }
    const Int best = std::max_element(law, law + vocab) - law;  // the lowest id on ties
    std::fill_n(law, vocab, T(0));
    law[best] = 1;
    return best;
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

// What Python calls, for float and for double. Those that read tokens return 0 if one of them is none.
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
    }

NATIVE(float, f32)
NATIVE(double, f64)
