// The forward: the same arithmetic as `model.py`, which is the one to read first, with every loop in sight.
//
// Names: m tokens in all, n of them in each row of the batch, D the width, V the vocabulary.
#pragma once

#include <vector>

#include "functions.h"
#include "products.h"

namespace {

struct Sizes {
    Int vocab, layers, width, heads, kv_heads, head_dim, ffn, capacity, groups, slots, deep;
    double little;  // what a norm adds to the sum of squares
};

template <class T>
struct Layer {
    Memory<T> qkv, out, gate_up, down;  // in panels; gains and the scores' scale are folded in
};

template <class T>
struct Model {
    Sizes s;
    std::vector<T> embedding, cos, sin;  // [V, D], [capacity, head_dim / 2]
    std::vector<Layer<T>> layers;
    Memory<T> head{nullptr, &std::free};
};

// Where one row's keys [head_dim, slots] and values [slots, deep] of one layer and head lie in a cache.
// Keys lie across, so that the scores of neighbouring slots are computed together.
template <class T>
struct CacheSlots {
    T *keys, *values;

    CacheSlots(const Sizes& s, T* cache, Int rows, Int layer, Int row, Int head) {
        const Int each = s.head_dim * s.slots + s.slots * s.deep;
        keys = cache + ((layer * rows + row) * s.kv_heads + head) * each;
        values = keys + s.head_dim * s.slots;
    }
};

// The memory that one forward over m tokens works in; every row of it is padded to whole vectors.
template <class T>
struct Workspace {
    Int D, Q, F;
    Memory<T> x, normed, qkv, seen, gates, query, scores, found;

    Workspace(const Sizes& s, Int m, Int n)
        : D(padded<T>(s.width)),
          Q(padded<T>((s.heads + 2 * s.kv_heads) * s.head_dim)),
          F(padded<T>(2 * s.ffn)),
          x(memory<T>(m * D)),
          normed(memory<T>(m * D)),
          qkv(memory<T>(m * Q)),
          seen(memory<T>(m * D)),
          gates(memory<T>(m * F)),
          query(memory<T>(n * s.groups * s.head_dim)),
          scores(memory<T>(n * s.groups * s.slots)),
          found(memory<T>(n * s.groups * s.deep)) {}
};

// Divides every token's vector by its length; see `pack.py` for what became of the gain and of √D.
template <class T>
void norm(const Sizes& s, const T* x, T* to, Int m, Int D) {
    for (Int i = 0; i < m; ++i, x += D, to += D) {
        typename Lanes<T>::Vector sums = {};
        for (Int d = 0; d < D; d += Lanes<T>::count) sums += load(x + d) * load(x + d);
        const T scale = 1 / std::sqrt(across<T>(sums, plus) + static_cast<T>(s.little));
        for (Int d = 0; d < D; ++d) to[d] = x[d] * scale;
    }
}

// Turns pairs of neighbours by the position's angles (Su et al. 2021, equation 15).
template <class T>
void turn(const Model<T>& model, T* head, Int position, T* to, Int step) {
    const Int half = model.s.head_dim / 2;
    const T *cos = model.cos.data() + position * half, *sin = model.sin.data() + position * half;
    for (Int i = 0; i < half; ++i) {
        const T real = head[2 * i], imaginary = head[2 * i + 1];
        to[2 * i * step] = real * cos[i] - imaginary * sin[i];
        to[(2 * i + 1) * step] = real * sin[i] + imaginary * cos[i];
    }
}

// Lets the n tokens of one row, which follow `start` others, look at themselves and what came before.
template <class T>
void attend(const Model<T>& model, Workspace<T>& work, T* qkv, T* seen, Int n, Int start, CacheSlots<T> cached,
            Int head) {
    const Sizes& s = model.s;
    const Int end = start + n, rows = n * s.groups, key = (s.heads + head) * s.head_dim;
    for (Int i = 0; i < n; ++i) {
        T* token = qkv + i * work.Q;
        turn(model, token + key, start + i, cached.keys + start + i, s.slots);
        std::copy_n(token + key + s.kv_heads * s.head_dim, s.head_dim, cached.values + (start + i) * s.deep);
        for (Int g = 0; g < s.groups; ++g)  // heads that share keys are further rows of queries
            turn(model, token + (head * s.groups + g) * s.head_dim, start + i,
                 work.query.get() + (i * s.groups + g) * s.head_dim, 1);
    }
    T* scores = work.scores.get();
    multiply(work.query.get(), s.head_dim, rows, {cached.keys, s.head_dim, end, s.slots}, scores, s.slots);
    for (Int row = 0; row < rows; ++row) {
        const Int visible = start + row / s.groups + 1;
        softmax<T>(scores + row * s.slots, visible, 1);
        std::fill(scores + row * s.slots + visible, scores + row * s.slots + padded<T>(end), T(0));
    }
    multiply(scores, s.slots, rows, {cached.values, end, s.head_dim, s.deep}, work.found.get(), s.deep);
    for (Int row = 0; row < rows; ++row)
        std::copy_n(work.found.get() + row * s.deep, s.head_dim,
                    seen + row / s.groups * work.D + (head * s.groups + row % s.groups) * s.head_dim);
}

// silu(gate) · up, for gates [2 · ffn] whose first half is the gate; the result replaces it.
template <class T>
void activate(T* gates, Int ffn) {
    const Int lanes = Lanes<T>::count;
    Int i = 0;
    for (; i + lanes <= ffn; i += lanes) {
        const auto gate = load(gates + i);
        const auto active = gate / (exponential(-gate) + T(1)) * load(gates + ffn + i);
        std::memcpy(gates + i, &active, BYTES);
    }
    for (; i < ffn; ++i) gates[i] = gates[i] / (std::exp(-gates[i]) + T(1)) * gates[ffn + i];
}

// Reads tokens [rows, n], row b after its first starts[b] tokens; their keys and values go into the cache.
// The residual stream after the last norm stays in the workspace. A row's tokens past the context's end mean nothing.
template <class T>
void read(const Model<T>& model, Workspace<T>& work, const Int* tokens, Int rows, Int n, const Int* starts,
          T* cache) {
    const Sizes& s = model.s;
    const Int m = rows * n, D = work.D;
    for (Int i = 0; i < m; ++i)
        std::copy_n(model.embedding.data() + tokens[i] * s.width, s.width, work.x.get() + i * D);
    for (Int l = 0; l < s.layers; ++l) {
        const Layer<T>& layer = model.layers[l];
        const Int columns = (s.heads + 2 * s.kv_heads) * s.head_dim;
        norm(s, work.x.get(), work.normed.get(), m, D);
        multiply(work.normed.get(), D, m, {layer.qkv.get(), s.width, columns, 0}, work.qkv.get(), work.Q);
        for (Int row = 0; row < rows; ++row)
            for (Int head = 0; head < s.kv_heads; ++head)
                attend(model, work, work.qkv.get() + row * n * work.Q, work.seen.get() + row * n * D,
                       std::min(n, s.capacity - starts[row]), starts[row],
                       CacheSlots<T>(s, cache, rows, l, row, head), head);
        multiply(work.seen.get(), D, m, {layer.out.get(), s.width, s.width, 0}, work.x.get(), D, true);
        norm(s, work.x.get(), work.normed.get(), m, D);
        T* gates = work.gates.get();
        multiply(work.normed.get(), D, m, {layer.gate_up.get(), s.width, 2 * s.ffn, 0}, gates, work.F);
        for (Int i = 0; i < m; ++i) activate(gates + i * work.F, s.ffn);
        multiply(gates, work.F, m, {layer.down.get(), s.ffn, s.width, 0}, work.x.get(), D, true);
    }
    norm(s, work.x.get(), work.normed.get(), m, D);
}

// Writes the logits [m, V] of a stream [m, D].
template <class T>
void logits(const Model<T>& model, const T* stream, Int D, Int m, T* to) {
    const Int V = model.s.vocab, wide = padded<T>(V);
    Memory<T> made = memory<T>(m * wide);
    multiply(stream, D, m, {model.head.get(), model.s.width, V, 0}, made.get(), wide);
    for (Int i = 0; i < m; ++i) std::copy_n(made.get() + i * wide, V, to + i * V);
}

}  // namespace
