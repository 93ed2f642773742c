// The forward: the same arithmetic as `model.py`, which is the one to read first, with every loop in sight.
//
// Names: m tokens in all, n of them in each row of the batch, D the width, V the vocabulary.
#pragma once

#include <vector>

#include "functions.h"
#include "products.h"

namespace {

struct Sizes {
    Int vocab, layers, width, heads, kv_heads, head_dim, ffn, capacity, groups, slots, padded_head;
    double norm_eps;  // what a norm adds to the sum of squares
};

template <class T, class W>
struct Layer {
    std::vector<T> attention_gain, mlp_gain;  // [D], times √D
    Weights<W> qkv, out, gate, up, down;
};

// A model that computes with numbers T and keeps its weights as numbers W.
template <class T, class W>
struct Model {
    Sizes s;
    std::vector<T> embedding, cos, sin, gain;  // [V, D], [capacity, head_dim / 2] twice, [D]
    std::vector<Layer<T, W>> layers;
    Weights<W> head;
};

// Where a model is left early: after so many layers the stream, and its product with a matrix added to it, go through a
// norm of their own.
template <class T, class W>
struct Exit {
    Int layers;
    Weights<W> proj;
    std::vector<T> gain;
};

// The memory that a forward over m tokens works in, n of each row. All is padded to whole vectors. Each thread has its
// own part of the last four.
template <class T>
struct Workspace {
    const Sizes& s;
    Int m, tokens, threads, each = threads * tokens * s.groups;
    Int D = padded<T>(s.width), Q = padded<T>((s.heads + 2 * s.kv_heads) * s.head_dim);
    Int S = padded<T>(s.heads * s.head_dim), F = padded<T>(s.ffn);
    Memory<T> x = memory<T>(m * D), qkv = memory<T>(m * Q), attended = memory<T>(m * S), gates = memory<T>(m * 2 * F);
    Memory<T> normed = memory<T>(threads * m * D), query = memory<T>(each * s.head_dim);
    Memory<T> scores = memory<T>(each * s.slots), mixed = memory<T>(each * s.padded_head);

    // Without it, some compilers lose the first members where memory for a later one is refused.
    Workspace(const Sizes& s, Int m, Int tokens, Int threads) : s(s), m(m), tokens(tokens), threads(threads) {}
};

// Divides every token's vector by its length and multiplies it with a gain; see `pack.py` for what became of √D.
template <class T>
void norm(const Sizes& s, const T* x, const std::vector<T>& gain, T* to, Int m, Int D) {
    for (Int i = 0; i < m; ++i, x += D, to += D) {
        typename Lanes<T>::Vector sums = {};
        for (Int d = 0; d < D; d += Lanes<T>::count) sums += load<T>(x + d) * load<T>(x + d);
        const T scale = 1 / std::sqrt(across<T>(sums, plus) + static_cast<T>(s.norm_eps));
        for (Int d = 0; d < s.width; ++d) to[d] = x[d] * scale * gain[d];
    }
}

// Rotates pairs of neighbours by the position's angles (Su et al. 2021, equation 15).
template <class T, class W>
void rotate(const Model<T, W>& model, T* head, Int position, T* to, Int step) {
    const Int half = model.s.head_dim / 2;
    const T *cos = model.cos.data() + position * half, *sin = model.sin.data() + position * half;
    for (Int i = 0; i < half; ++i) {
        const T real = head[2 * i], imaginary = head[2 * i + 1];
        to[2 * i * step] = real * cos[i] - imaginary * sin[i];
        to[(2 * i + 1) * step] = real * sin[i] + imaginary * cos[i];
    }
}

// How many numbers a cache holds for one layer, row and key head: keys [head_dim, slots], then values [slots, padded_head].
// Keys lie across, so that the scores of neighbouring slots are computed together.
inline Int cache_numbers(const Sizes& s) { return s.slots * (s.head_dim + s.padded_head); }

// Lets n tokens of one row, which follow `start` others, look at themselves and what came before, in one key head.
template <class T, class W>
void attend(const Model<T, W>& model, Workspace<T>& work, Int thread, Int first, Int n, Int start, T* keys, Int head) {
    const Sizes& s = model.s;
    const Int each = work.tokens * s.groups;
    T *query = work.query.get() + thread * each * s.head_dim, *scores = work.scores.get() + thread * each * s.slots;
    T* mixed = work.mixed.get() + thread * each * s.padded_head;
    const Int end = start + n, rows = n * s.groups, key = (s.heads + head) * s.head_dim;
    T* values = keys + s.head_dim * s.slots;
    for (Int i = 0; i < n; ++i) {
        T* token = work.qkv.get() + (first + i) * work.Q;
        rotate(model, token + key, start + i, keys + start + i, s.slots);
        std::copy_n(token + key + s.kv_heads * s.head_dim, s.head_dim, values + (start + i) * s.padded_head);
        for (Int g = 0; g < s.groups; ++g)  // heads that share keys are further rows of queries
            rotate(model, token + (head * s.groups + g) * s.head_dim, start + i,
                 query + (i * s.groups + g) * s.head_dim, 1);
    }
    const T sharpness = 1 / std::sqrt(static_cast<T>(s.head_dim));
    multiply(query, s.head_dim, rows, Matrix<T>{keys, s.head_dim, end, s.slots, 1}, scores, s.slots);
    for (Int row = 0; row < rows; ++row) {
        const Int visible = start + row / s.groups + 1;
        softmax<T>(scores + row * s.slots, visible, sharpness);
        std::fill(scores + row * s.slots + visible, scores + row * s.slots + padded<T>(end), T(0));
    }
    multiply(scores, s.slots, rows, Matrix<T>{values, end, s.head_dim, s.padded_head, 1}, mixed, s.padded_head);
    for (Int row = 0; row < rows; ++row)
        std::copy_n(mixed + row * s.padded_head, s.head_dim,
                    work.attended.get() + (first + row / s.groups) * work.S +
                        (head * s.groups + row % s.groups) * s.head_dim);
}

// silu(gate) · up; the result replaces the gates [m, F], in this thread's share of the columns.
template <class T>
void activate(Workspace<T>& work, Int m, Int parts, Share share) {
    const Int lanes = Lanes<T>::count, vectors = work.F / lanes;
    const Int begin = cut(vectors, parts, cut(parts, share.count, share.index)) * lanes;
    const Int end = cut(vectors, parts, cut(parts, share.count, share.index + 1)) * lanes;
    for (Int row = 0; row < m; ++row) {
        T* gates = work.gates.get() + row * 2 * work.F;
        for (Int i = begin; i < end; i += lanes) {
            const auto gate = load<T>(gates + i);
            const auto active = gate / (exponential(-gate) + T(1)) * load<T>(gates + work.F + i);
            std::memcpy(gates + i, &active, BYTES);
        }
    }
}

// One thread's share of a forward over m tokens, n in each row, row b after its first starts[b] tokens; keys and values
// go into the cache. Each product is shared column by column, attention head by head. The residual stream goes through
// layers [begin, end). A row's tokens past the context's end mean nothing.
template <class T, class W>
void read(const Model<T, W>& model, Workspace<T>& work, Int rows, Int n, const Int* starts, T* cache, Int begin,
          Int end, Share share) {
    const Sizes& s = model.s;
    const Int m = rows * n, D = work.D, F = work.F, heads = rows * s.kv_heads;
    T *x = work.x.get(), *normed = work.normed.get() + share.index * m * D, *gates = work.gates.get();
    for (Int l = begin; l < end; ++l) {
        const Layer<T, W>& layer = model.layers[l];
        norm(s, x, layer.attention_gain, normed, m, D);  // by every thread: to wait for each other takes longer
        multiply<T, W>(normed, D, m, layer.qkv, work.qkv.get(), work.Q, false, share);
        share.wait();
        for (Int i = cut(heads, share.count, share.index); i < cut(heads, share.count, share.index + 1); ++i) {
            const Int row = i / s.kv_heads, head = i % s.kv_heads;
            attend(model, work, share.index, row * n, std::min(n, s.capacity - starts[row]), starts[row],
                   cache + (l * heads + i) * cache_numbers(s), head);
        }
        share.wait();
        multiply<T, W>(work.attended.get(), work.S, m, layer.out, x, D, true, share);
        share.wait();
        norm(s, x, layer.mlp_gain, normed, m, D);
        multiply<T, W>(normed, D, m, layer.gate, gates, 2 * F, false, share);
        multiply<T, W>(normed, D, m, layer.up, gates + F, 2 * F, false, share);
        activate(work, m, layer.up.parts, share);
        share.wait();
        multiply<T, W>(gates, 2 * F, m, layer.down, x, D, true, share);
        share.wait();
    }
}

// Reads tokens [rows, n], shared by threads; what the head reads stays in `normed`, and logits [rows · n, V up to whole
// vectors] go to `to`, if it is given. With an exit only the first layers read them, and the head reads what the exit
// makes of the stream that they leave in `x`; with such streams [rows · n, D] only the other layers go on from there.
template <class T, class W>
void forward(const Model<T, W>& model, Workspace<T>& work, const Int* tokens, Int rows, Int n, const Int* starts,
             T* cache, T* to, const Exit<T, W>* exit = nullptr, const T* streams = nullptr) {
    const Sizes& s = model.s;
    const Int m = rows * n, D = work.D;
    const bool early = exit && !streams;
    for (Int i = 0; i < m; ++i)
        std::copy_n(streams ? streams + i * s.width : model.embedding.data() + tokens[i] * s.width, s.width,
                    work.x.get() + i * D);
    Team::get().run(work.threads, [&](Share share) {
        T *x = work.x.get(), *normed = work.normed.get() + share.index * m * D;
        const Int begin = streams ? exit->layers : 0, end = early ? exit->layers : s.layers;
        read(model, work, rows, n, starts, cache, begin, end, share);
        if (early && !to) return;
        if (early) {  // by every thread, as norms are
            std::copy_n(x, m * D, normed);
            multiply<T, W>(x, D, m, exit->proj, normed, D, true);
        }
        norm(s, early ? normed : x, early ? exit->gain : model.gain, normed, m, D);
        if (to) multiply<T, W>(normed, D, m, model.head, to, padded<T>(s.vocab), false, share);
    });
}

}  // namespace
