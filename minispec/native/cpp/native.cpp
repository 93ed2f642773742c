// What Python calls: to pack a model's weights, to read tokens, to take draft steps, to decide.

#include <type_traits>
#include <utility>

#include "decisions.h"
#include "forward.h"

namespace {

// Takes `k` draft steps in each row: forward, warp, draw. Row b continues its first starts[b] tokens by tokens[b],
// and draws in its first budgets[b] steps; after them it gets token 0. It asks for numbers in the order of
// `ModelDrafter`: step by step, and row by row at each. dists [rows, k, V] and drawn [rows, k] are the results.
// Returns how many numbers were used, or -1 if some logits cannot be made a distribution. With an exit the first layers
// draft. They read the last token as well, and leave the streams [rows, k + 1, D].
template <class T, class W>
Int draft(const Model<T, W>& model, Int threads, Int* tokens, Int rows, Int* starts, Int k, double temperature,
          const Int* budgets, const double* numbers, T* cache, T* dists, Int* drawn, const Exit<T, W>* exit,
          T* streams) {
    if (!are_ids(tokens, rows, model.s.vocab)) return -1;
    if (temperature > 0 && !uniform(numbers, rows * k)) return -2;
    const Int V = model.s.vocab, D = model.s.width, wide = padded<T>(V), steps = exit ? k + 1 : k;
    const double* next = numbers;
    Workspace<T> work(model.s, rows, 1, threads);
    Memory<T> dist = memory<T>(rows * wide);
    for (Int i = 0; i < steps; ++i) {
        forward(model, work, tokens, rows, 1, starts, cache, i < k ? dist.get() : nullptr, exit);
        for (Int row = 0; row < rows; ++row) {
            if (exit) std::copy_n(work.x.get() + row * work.D, D, streams + (row * steps + i) * D);
            if (i == k) continue;
            T* row_dist = dist.get() + row * wide;
            if (!can_be_distribution(row_dist, V)) return -1;
            make_distribution(row_dist, V, temperature);
            tokens[row] = drawn[row * k + i] = i < budgets[row] ? choose(row_dist, V, next) : 0;
            std::copy_n(row_dist, V, dists + (row * k + i) * V);
            ++starts[row];
        }
    }
    return next - numbers;
}

// Packs weights as `packed_weights` lists them: matrices [in, out] are of W, all others of T. The matrices' columns are
// cut into parts, so that as many threads can share a product.
template <class T, class W>
Model<T, W>* packed(const Int* sizes, double norm_eps, Int parts, const void* const* weights) {
    auto model = std::make_unique<Model<T, W>>();
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         padded<T>(sizes[7]), padded<T>(sizes[5]), norm_eps};
    const void* const* next = weights;
    const auto matrix = [&](Int depth, Int columns) {
        return panels<T>(static_cast<const W*>(*next++), depth, columns, parts);
    };
    const auto vector = [&](Int count) {
        const T* from = static_cast<const T*>(*next++);
        return std::vector<T>(from, from + count);
    };
    model->embedding = vector(s.vocab * s.width);
    const Int query_width = s.heads * s.head_dim, qkv = query_width + 2 * s.kv_heads * s.head_dim;
    for (Int l = 0; l < s.layers; ++l) {
        Layer<T, W> layer;
        layer.qkv = matrix(s.width, qkv), layer.out = matrix(query_width, s.width);
        layer.gate = matrix(s.width, s.ffn), layer.up = matrix(s.width, s.ffn), layer.down = matrix(s.ffn, s.width);
        layer.attention_gain = vector(s.width), layer.mlp_gain = vector(s.width);
        model->layers.push_back(std::move(layer));
    }
    model->head = matrix(s.width, s.vocab);
    model->gain = vector(s.width);
    model->cos = vector(s.capacity * s.head_dim / 2), model->sin = vector(s.capacity * s.head_dim / 2);
    return model.release();
}

// Packs an exit: its matrix [D, D], in which each column is a sum of its own, and the gain of its norm [D].
template <class T, class W>
Exit<T, W>* exit_of(Int layers, Int width, const W* proj, const T* gain) {
    Weights<W> matrix = panels<T>(proj, width, width, 1);
    std::vector<T> gains(gain, gain + width);
    return new Exit<T, W>{layers, std::move(matrix), std::move(gains)};
}

// What a forward returns of each token: the stream that the first layers leave, or what the head reads; D numbers.
enum Result { STREAM, HIDDEN };

// Reads tokens [rows, n], with an exit and streams as in `forward`, and writes one result for each.
template <class T, class W, Result RESULT>
Int read_of(const Model<T, W>& model, Int threads, const Int* tokens, Int rows, Int n, const Int* starts, T* cache,
            T* to, const Exit<T, W>* exit, const T* streams) {
    if (!are_ids(tokens, rows * n, model.s.vocab)) return 0;
    Workspace<T> work(model.s, rows * n, n, threads);
    forward<T, W>(model, work, tokens, rows, n, starts, cache, nullptr, exit, streams);
    const T* results = RESULT == STREAM ? work.x.get() : work.normed.get();
    for (Int i = 0; i < rows * n; ++i) std::copy_n(results + i * work.D, model.s.width, to + i * model.s.width);
    return 1;
}

// Maps what the head reads, [m, D], to logits [m, V], shared by threads. Both are padded to whole vectors meanwhile.
template <class T, class W>
Int head_of(const Model<T, W>& model, Int threads, const T* hidden, Int m, T* to) {
    const Int D = model.s.width, V = model.s.vocab, D_padded = padded<T>(D), V_padded = padded<T>(V);
    Memory<T> states = memory<T>(m * D_padded), logits = memory<T>(m * V_padded);
    for (Int i = 0; i < m; ++i) std::copy_n(hidden + i * D, D, states.get() + i * D_padded);
    Team::get().run(threads, [&](Share share) {
        multiply<T, W>(states.get(), D_padded, m, model.head, logits.get(), V_padded, false, share);
    });
    for (Int i = 0; i < m; ++i) std::copy_n(logits.get() + i * V_padded, V, to + i * V);
    return 1;
}

// How many numbers a cache holds for each row.
template <class T, class W>
Int cache_of(const Model<T, W>& model) {
    return model.s.layers * model.s.kv_heads * cache_numbers(model.s);
}

template <class Made>
void free_of(Made* made) { delete made; }

constexpr Int NO_MEMORY = -3;

// A function as Python calls it, which knows nothing of exceptions: where the system refuses memory, what the function
// has taken is given back, and the result is no address, or NO_MEMORY.
template <auto FUNCTION>
struct Safe;

template <class Result, class... Given, Result (*FUNCTION)(Given...)>
struct Safe<FUNCTION> {
    static Result call(Given... given) {
        try {
            return FUNCTION(given...);
        } catch (const std::bad_alloc&) {
            if constexpr (std::is_pointer_v<Result>) return nullptr;
            else return NO_MEMORY;
        }
    }
};

}  // namespace

// What Python calls, in the order of `library.py`. `read_of` returns 0 if a token id is out of range, and so does
// `make_distributions` for logits that are not finite. `draft`, `choose_all`, `agree` and `reject` return how many
// numbers they have used, -1 for tokens, lengths or logits that cannot be, or -2 for numbers or distributions that are
// none. All that take memory do it safely.
#define SAFE(FUNCTION, ...) (void*)Safe<&FUNCTION<__VA_ARGS__>>::call
#define MODEL(T, W)                                                                          \
    {SAFE(packed, T, W),          (void*)free_of<Model<T, W>>, (void*)cache_of<T, W>,        \
     SAFE(read_of, T, W, HIDDEN), SAFE(read_of, T, W, STREAM), SAFE(head_of, T, W),          \
     SAFE(draft, T, W),           SAFE(exit_of, T, W),         (void*)free_of<Exit<T, W>>}
#define DECISIONS(T) {SAFE(make_distributions, T), SAFE(choose_all, T), SAFE(agree, T), SAFE(reject, T)}

extern "C" {
void* model_f32[] = MODEL(float, float);
void* model_f64[] = MODEL(double, double);
void* model_bf16[] = MODEL(float, Half);
void* decisions_f32[] = DECISIONS(float);
void* decisions_f64[] = DECISIONS(double);
}
