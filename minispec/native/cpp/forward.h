// The forward: the same arithmetic as `model.py`, which is the one to read first, with every loop in sight.
//
// Names: m tokens in all, n of them in each row of the batch, D the width, V the vocabulary.
#pragma once

#include <vector>

#include "border.h"
#include "functions.h"
#include "products.h"

namespace {

constexpr Int NEAR = 256;  // angles add up: a position's is that of its rest, and that of a multiple of so many

struct Sizes {
    Int vocab, layers, width, heads, kv_heads, head_dim, ffn, capacity, groups, padded_head;
    double norm_eps;  // what a norm adds to the mean square
};

template <class T, class W>
struct Layer {
    std::vector<T> attention_gain, mlp_gain;  // [D], times √D
    std::vector<T> bias, query_gain, key_gain;  // of queries, keys and values; [head_dim], times its root; or empty
    Weights<W> qkv, out, gate, up, down;
};

// A model that computes with numbers T and keeps its weights as numbers W; bytes are for matrices only.
template <class T, class W>
struct Model {
    Sizes s;
    std::vector<std::conditional_t<std::is_same_v<W, Byte>, T, W>> embedding;  // [V, D]; layers that draft for a target
                                                                               // have neither embedding nor head
    std::vector<T> gain;            // [D]
    std::vector<double> rotations;  // [NEAR, head_dim], of the first positions; then of every NEAR-th of the context
    std::vector<Layer<T, W>> layers;
    const Weights<W>* head;  // [D, V]

    // Copies the embedding of a token.
    void embed(Int token, T* to) const {
        for (Int d = 0; d < s.width; ++d) to[d] = widened(embedding[token * s.width + d]);
    }
};

// The model at an address, of the kinds that `with_type` has found.
template <class T, class W>
const Model<T, W>& model_of(Kinds<T, W>, const void* model) {
    return *static_cast<const Model<T, W>*>(model);
}

// The memory that a forward works in. All is padded to whole vectors. Each thread has its own part of the four before
// the last, which has the cosine and the sine of each pair's angle at the position of each token.
template <class T>
struct Workspace {
    const Sizes& s;
    Int m, n, slots, threads, each = threads * n * s.groups;
    Int D = padded<T>(s.width), Q = padded<T>((s.heads + 2 * s.kv_heads) * s.head_dim);
    Int S = padded<T>(s.heads * s.head_dim), F = padded<T>(s.ffn);
    Int parts[9] = {m * D,           m * Q,          m * S,          m * 2 * F, threads * m * D,
                    each * s.head_dim, each * slots, each * s.padded_head, m * s.head_dim};
    Memory<T> all = memory<T>(before(9));  // a single request: to ask for memory takes time
    T *x = part(0), *qkv = part(1), *attended = part(2), *gates = part(3), *normed = part(4), *query = part(5);
    T *scores = part(6), *mixed = part(7), *rotations = part(8);

    Workspace(const Sizes& s, Int rows, Int n, Int slots, Int threads)
        : s(s), m(rows * n), n(n), slots(slots), threads(threads) {}

    Int before(Int end) const {
        Int sum = 0;
        for (Int i = 0; i < end; ++i) sum += padded<T>(parts[i]);
        return sum;
    }

    T* part(Int i) const { return all.get() + before(i); }
};

// Divides m vectors, `step` numbers apart, by their length and multiplies them with a gain; see `pack.py` for what
// became of the root of its size.
template <class T>
void norm(const Sizes& s, const T* x, const std::vector<T>& gain, T* to, Int m, Int step) {
    const Int width = gain.size(), lanes = LANES<T>;
    for (Int i = 0; i < m; ++i, x += step, to += step) {
        Vector<T> sums = {};
        Int d = 0;
        for (; d + lanes <= width; d += lanes) sums += load<T>(x + d) * load<T>(x + d);
        T sum = across<T>(sums, plus) + static_cast<T>(s.norm_eps * width);
        for (; d < width; ++d) sum += x[d] * x[d];
        const T scale = 1 / std::sqrt(sum);
        for (d = 0; d < width; ++d) to[d] = x[d] * scale * gain[d];
    }
}

// Rotates pairs of neighbours by angles whose cosines and sines are neighbours (Su et al. 2021, equation 15).
template <class F, class T>
void rotate(const F* from, Int count, const F* by, T* to, Int step) {
    for (Int i = 0; i < count; i += 2) {
        const F real = from[i], imaginary = from[i + 1];
        to[i * step] = real * by[i] - imaginary * by[i + 1];
        to[(i + 1) * step] = real * by[i + 1] + imaginary * by[i];
    }
}

// A head of a token's queries, keys or values: its bias is added and it is normed, where the layer does so.
template <class T, class W>
T* prepared(const Sizes& s, const Layer<T, W>& layer, T* token, Int first, const std::vector<T>& gain) {
    T* head = token + first;
    for (Int d = 0; d < s.head_dim && !layer.bias.empty(); ++d) head[d] += layer.bias[first + d];
    norm(s, head, gain, head, !gain.empty(), 0);
    return head;
}

// How many numbers a cache holds for one slot of a layer, row and key head, which has keys [head_dim, slots] and then
// values [slots, padded_head]. Keys lie across, so that the scores of neighbouring slots are computed together.
inline Int cache_numbers(const Sizes& s) { return s.head_dim + s.padded_head; }

// Hides from token i of a row what it does not see of the last slots; see `ms_block`.
template <class T>
void hide(const ms_block& block, Int row, Int i, Int end, T* scores) {
    const std::uint8_t* sees = block.mask + (row * block.n + i) * block.window;
    const Int first = block.starts[row] + block.n - block.window;
    for (Int j = std::max(-first, Int(0)); j < block.window && first + j < end; ++j)
        if (!sees[j]) scores[first + j] = -std::numeric_limits<T>::infinity();
}

// Lets the tokens of one row look at themselves and what came before, in one key head. What stands past the context's
// end is left out.
template <class T, class W>
void attend(const Layer<T, W>& layer, Workspace<T>& work, Int thread, const ms_block& block, Int row, T* keys, Int head) {
    const Sizes& s = work.s;
    const Int start = block.starts[row], first = row * block.n, n = std::min(block.n, s.capacity - start);
    const Int slots = work.slots, each = work.n * s.groups, end = start + n, rows = n * s.groups;
    const Int key = (s.heads + head) * s.head_dim;
    T *query = work.query + thread * each * s.head_dim, *scores = work.scores + thread * each * slots;
    T *mixed = work.mixed + thread * each * s.padded_head, *values = keys + s.head_dim * slots;
    for (Int i = 0; i < n; ++i) {
        T* token = work.qkv + (first + i) * work.Q;
        const T* by = work.rotations + (first + i) * s.head_dim;
        rotate(prepared(s, layer, token, key, layer.key_gain), s.head_dim, by, keys + start + i, slots);
        std::copy_n(prepared(s, layer, token, key + s.kv_heads * s.head_dim, {}), s.head_dim,
                    values + (start + i) * s.padded_head);
        for (Int g = 0; g < s.groups; ++g)  // heads that share keys are further rows of queries
            rotate(prepared(s, layer, token, (head * s.groups + g) * s.head_dim, layer.query_gain), s.head_dim, by,
                   query + (i * s.groups + g) * s.head_dim, 1);
    }
    const T sharpness = 1 / std::sqrt(static_cast<T>(s.head_dim));
    multiply(query, s.head_dim, rows, Matrix<T>{keys, s.head_dim, end, slots, 1}, scores, slots);
    for (Int r = 0; r < rows; ++r) {
        T* row_scores = scores + r * slots;
        const Int visible = block.mask ? end : start + r / s.groups + 1;
        if (block.mask) hide(block, row, r / s.groups, end, row_scores);
        softmax<T>(row_scores, visible, sharpness);
        std::fill(row_scores + visible, row_scores + padded<T>(end), T(0));
    }
    multiply(scores, slots, rows, Matrix<T>{values, end, s.head_dim, s.padded_head, 1}, mixed, s.padded_head);
    for (Int r = 0; r < rows; ++r)
        std::copy_n(mixed + r * s.padded_head, s.head_dim,
                    work.attended + (first + r / s.groups) * work.S + (head * s.groups + r % s.groups) * s.head_dim);
}

// silu(gate) · up; the result replaces the gates [m, F], in this thread's share of the columns.
template <class T>
void activate(Workspace<T>& work, Int m, Int parts, Share share) {
    const Int lanes = LANES<T>, vectors = work.F / lanes;
    const Int begin = cut(vectors, parts, cut(parts, share.count, share.index)) * lanes;
    const Int end = cut(vectors, parts, cut(parts, share.count, share.index + 1)) * lanes;
    for (Int row = 0; row < m; ++row) {
        T* gates = work.gates + row * 2 * work.F;
        for (Int i = begin; i < end; i += lanes) {
            const auto gate = load<T>(gates + i);
            store(gates + i, gate / (exponential(-gate) + T(1)) * load<T>(gates + work.F + i));
        }
    }
}

// One thread's share of a forward. The residual stream goes through the layers of a block; keys and values go into its
// cache, whose first layer is the first of them. Each product is shared column by column, attention head by head. A
// row's tokens past the context's end mean nothing.
template <class T, class W>
void read(const Model<T, W>& model, Workspace<T>& work, const ms_block& block, Share share) {
    const Sizes& s = model.s;
    const Int m = block.rows * block.n, D = work.D, F = work.F, heads = block.rows * s.kv_heads;
    T *x = work.x, *normed = work.normed + share.index * m * D, *gates = work.gates;
    for (Int l = block.begin; l < block.end; ++l) {
        const Layer<T, W>& layer = model.layers[l];
        norm(s, x, layer.attention_gain, normed, m, D);  // by every thread: to wait for each other takes longer
        if (l > block.begin || !block.qkv) multiply(normed, D, m, layer.qkv, work.qkv, work.Q, false, share);
        share.wait();
        for (Int i = cut(heads, share.count, share.index); i < cut(heads, share.count, share.index + 1); ++i)
            attend(layer, work, share.index, block, i / s.kv_heads,
                   static_cast<T*>(block.cache) + ((l - block.begin) * heads + i) * work.slots * cache_numbers(s),
                   i % s.kv_heads);
        share.wait();
        multiply(work.attended, work.S, m, layer.out, x, D, true, share);
        share.wait();
        norm(s, x, layer.mlp_gain, normed, m, D);
        multiply(normed, D, m, layer.gate, gates, 2 * F, false, share);
        multiply(normed, D, m, layer.up, gates + F, 2 * F, false, share);
        activate(work, m, layer.up.parts, share);
        share.wait();
        multiply(gates, 2 * F, m, layer.down, x, D, true, share);
        share.wait();
        for (Int t = 0; !share.index && t < block.tap_count; ++t)
            if (block.taps[t] == l + 1)
                copy_rows(x, D, m, s.width, static_cast<T*>(block.hidden) + t * s.width,
                          (block.tap_count + 1) * s.width);
    }
}

// What becomes of the stream after the last layer: nothing, the last norm, or the head after it.
enum End { STREAM, NORMED, LOGITS };

// Reads a block, shared by threads: its states, the embeddings of its tokens, or what lies in the workspace. What the head
// reads stays in `normed`; logits [m, V up to whole vectors] go to `to`.
template <class T, class W>
void forward(const Model<T, W>& model, Workspace<T>& work, const ms_block& block, End last, T* to = nullptr) {
    const Int n = block.n, m = block.rows * n, D = work.D, width = model.s.width, head_dim = model.s.head_dim;
    const Int columns = (model.s.heads + 2 * model.s.kv_heads) * head_dim;
    if (block.states) copy_rows(block.states, width, m, width, work.x, D);
    if (block.qkv && block.qkv != work.qkv) copy_rows(block.qkv, columns, m, columns, work.qkv, work.Q);
    for (Int i = 0; i < m; ++i) {
        if (block.tokens && !block.states) model.embed(block.tokens[i], work.x + i * D);
        const Int place = block.positions ? block.positions[i] : block.starts[i / n] + i % n;
        const Int position = std::min(place, model.s.capacity - 1);
        rotate(&model.rotations[position % NEAR * head_dim], head_dim,
               &model.rotations[(NEAR + position / NEAR) * head_dim], work.rotations + i * head_dim, 1);
    }
    Team::get().run(work.threads, [&](Share share) {
        T* normed = work.normed + share.index * m * D;
        read(model, work, block, share);
        if (last == STREAM) return;
        norm(model.s, work.x, model.gain, normed, m, D);
        if (last == NORMED) return;
        multiply(normed, D, m, *model.head, to, padded<T>(model.head->columns), false, share);
    });
    const Int step = (block.tap_count + 1) * width;
    if (block.hidden)
        copy_rows(last == STREAM ? work.x : work.normed, D, m, width, static_cast<T*>(block.hidden) + step - width, step);
}

// c [m, columns] = a [m, depth] · b, shared by threads; rows of both are padded to whole vectors.
template <class T, class W>
void product(const T* a, Int m, const Matrix<W>& b, T* c, Int threads, bool add = false) {
    Team::get().run(threads, [&](Share share) {
        multiply(a, padded<T>(b.depth), m, b, c, padded<T>(b.columns), add, share);
    });
}

// Moves what the cache of a block's layers holds of a row together: slot kept[i] to first + i; they ascend.
template <class T>
void gather(const Sizes& s, const ms_block& block, Int row, Int first, const std::vector<Int>& kept) {
    const Int slots = block.slots, count = kept.size();
    for (Int i = 0; i < (block.end - block.begin) * s.kv_heads; ++i) {
        const Int before = (i / s.kv_heads * block.rows + row) * s.kv_heads + i % s.kv_heads;
        T *keys = static_cast<T*>(block.cache) + before * slots * cache_numbers(s), *values = keys + s.head_dim * slots;
        for (Int j = 0; j < count; ++j) {
            if (kept[j] == first + j) continue;
            for (Int d = 0; d < s.head_dim; ++d) keys[d * slots + first + j] = keys[d * slots + kept[j]];
            std::copy_n(values + kept[j] * s.padded_head, s.head_dim, values + (first + j) * s.padded_head);
        }
    }
}

}  // namespace
