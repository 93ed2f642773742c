// What Python calls: to pack a model's weights, to read tokens, to take draft steps, to decide.

#include "decisions.h"
#include "forward.h"

namespace {

// Whether there is a token of every id.
template <class T, class W>
bool known(const Model<T, W>& model, const Int* tokens, Int count) {
    return std::all_of(tokens, tokens + count, [&](Int id) { return 0 <= id && id < model.s.vocab; });
}

// Takes `k` draft steps in each row: forward, warp, draw. Row b continues its first starts[b] tokens by tokens[b],
// and draws in its first budgets[b] steps; after them it gets token 0. It asks for numbers in the order of
// `ModelDrafter`: step by step, and row by row at each. dists [rows, k, V] and drawn [rows, k] are the results.
// Returns how many numbers were used, or -1 if some logits cannot be made a distribution.
template <class T, class W>
Int draft(const Model<T, W>& model, Int threads, Int* tokens, Int rows, Int* starts, Int k, double temperature,
          const Int* budgets, const double* numbers, T* cache, T* dists, Int* drawn) {
    if (!known(model, tokens, rows)) return -1;
    if (temperature > 0 && !uniform(numbers, rows * k)) return -2;
    const Int V = model.s.vocab, wide = padded<T>(V);
    const double* next = numbers;
    Workspace<T> work(model.s, rows, 1, threads);
    Memory<T> dist = memory<T>(rows * wide);
    for (Int i = 0; i < k; ++i) {
        forward(model, work, tokens, rows, 1, starts, cache,
                [&](Share share) { logits(model, work, rows, dist.get(), share); });
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

// Packs weights as `packed_weights` lists them: matrices [in, out] of W, and then gains, cosines and sines of T. Their
// columns are cut into parts, so that as many threads can share a product.
template <class T, class W>
Model<T, W>* packed(const Int* sizes, double little, Int parts, const void* const* weights) {
    auto* model = new Model<T, W>;
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         padded<T>(sizes[7]), padded<T>(sizes[5]), little};
    const void* const* next = weights;
    const auto matrix = [&](Int depth, Int columns) {
        return panels<T>(static_cast<const W*>(*next++), depth, columns, parts);
    };
    const auto vector = [&](Int count) {
        const T* from = static_cast<const T*>(*next++);
        return std::vector<T>(from, from + count);
    };
    const W* embedding = static_cast<const W*>(*next++);
    model->embedding.assign(embedding, embedding + s.vocab * s.width);
    const Int seen = s.heads * s.head_dim, qkv = seen + 2 * s.kv_heads * s.head_dim;
    for (Int l = 0; l < s.layers; ++l) {
        Layer<T, W> layer;
        layer.qkv = matrix(s.width, qkv), layer.out = matrix(seen, s.width);
        layer.gate = matrix(s.width, s.ffn), layer.up = matrix(s.width, s.ffn), layer.down = matrix(s.ffn, s.width);
        layer.attention_gain = vector(s.width), layer.mlp_gain = vector(s.width);
        model->layers.push_back(std::move(layer));
    }
    model->head = matrix(s.width, s.vocab);
    model->gain = vector(s.width);
    model->cos = vector(s.capacity * s.head_dim / 2), model->sin = vector(s.capacity * s.head_dim / 2);
    return model;
}

// The residual stream after the last norm of tokens [rows, n]: to [rows, n, D].
template <class T, class W>
Int hidden_of(const Model<T, W>& model, Int threads, const Int* tokens, Int rows, Int n, const Int* starts, T* cache,
              T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Workspace<T> work(model.s, rows * n, n, threads);
    forward(model, work, tokens, rows, n, starts, cache, [](Share) {});
    const T* normed = work.scratch[0].normed.get();
    for (Int i = 0; i < rows * n; ++i) std::copy_n(normed + i * work.D, model.s.width, to + i * model.s.width);
    return 1;
}

// The logits of tokens [rows, n]: to [rows, n, V]. Where V is not a number of whole vectors, they are copied.
template <class T, class W>
Int logits_of(const Model<T, W>& model, Int threads, const Int* tokens, Int rows, Int n, const Int* starts, T* cache,
              T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    const Int m = rows * n, V = model.s.vocab, wide = padded<T>(V);
    Workspace<T> work(model.s, m, n, threads);
    Memory<T> made = memory<T>(wide == V ? 0 : m * wide);
    T* found = wide == V ? to : made.get();
    forward(model, work, tokens, rows, n, starts, cache, [&](Share share) { logits(model, work, m, found, share); });
    for (Int i = 0; found != to && i < m; ++i) std::copy_n(found + i * wide, V, to + i * V);
    return 1;
}

// How many numbers a cache holds for each row.
template <class T, class W>
Int cache_of(const Model<T, W>& model) {
    const Sizes& s = model.s;
    return s.layers * s.kv_heads * (s.head_dim * s.slots + s.slots * s.deep);
}

template <class T, class W>
void freed(Model<T, W>* model) {
    delete model;
}

template <class Function>
void* address(Function* function) {
    return reinterpret_cast<void*>(function);
}

}  // namespace

// What Python calls, in the order of `library.py`. `hidden_of` and `logits_of` return 0 if a token id is out of range,
// and so does `make_distributions` for logits that are not finite. `draft`, `choose_all`, `agree` and `reject` return how
// many numbers they have used, -1 for tokens, lengths or logits that cannot be, or -2 for numbers or distributions that
// are none.
#define MODEL(T, W)                                                                                \
    {address(packed<T, W>),    address(freed<T, W>),     address(cache_of<T, W>),                  \
     address(hidden_of<T, W>), address(logits_of<T, W>), address(draft<T, W>)}
#define DECISIONS(T) {address(make_distributions<T>), address(choose_all<T>), address(agree<T>), address(reject<T>)}

extern "C" {
void* model_f32[] = MODEL(float, float);
void* model_f64[] = MODEL(double, double);
void* model_bf16[] = MODEL(float, Half);
void* decisions_f32[] = DECISIONS(float);
void* decisions_f64[] = DECISIONS(double);
}
