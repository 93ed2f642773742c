// The functions of `minispec.h`.

#include <utility>

#include "border.h"
#include "decisions.h"
#include "drafts.h"
#include "forward.h"
#include "round.h"

namespace {

// Packs weights as `pack.py` lists them: matrices [in, out] are of W, frequencies double, all others of T.
template <class T, class W>
Model<T, W>* packed(const Int* sizes, double norm_eps, Int parts, const void* const* weights) {
    auto model = std::make_unique<Model<T, W>>();
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         padded<T>(sizes[7]), padded<T>(sizes[5]), norm_eps};
    const void* const* next = weights;
    const auto matrix = [&](Int depth, Int columns) {
        const W* from = static_cast<const W*>(*next++);
        return from ? panels<T>(from, depth, columns, parts) : Weights<W>{};
    };
    const auto vector = [&](auto& to, Int count) {
        using N = std::remove_reference_t<decltype(to[0])>;
        if (const void* from = *next++) to.assign(static_cast<const N*>(from), static_cast<const N*>(from) + count);
    };
    vector(model->embedding, s.vocab * s.width);
    const Int query_width = s.heads * s.head_dim, qkv = query_width + 2 * s.kv_heads * s.head_dim;
    for (Int l = 0; l < s.layers; ++l) {
        Layer<T, W> layer;
        layer.qkv = matrix(s.width, qkv), layer.out = matrix(query_width, s.width);
        layer.gate = matrix(s.width, s.ffn), layer.up = matrix(s.width, s.ffn), layer.down = matrix(s.ffn, s.width);
        vector(layer.attention_gain, s.width), vector(layer.mlp_gain, s.width);
        vector(layer.bias, qkv), vector(layer.query_gain, s.head_dim), vector(layer.key_gain, s.head_dim);
        model->layers.push_back(std::move(layer));
    }
    model->head = matrix(s.width, s.vocab);
    vector(model->gain, s.width), vector(model->frequencies, s.head_dim / 2);
    return model.release();
}

template <class T, class W>
ms_status read_block(const Model<T, W>& model, Int threads, const ms_block& b, bool normed, T* to) {
    const Int m = b.rows * b.n, D = model.s.width;
    if (!b.states && !are_ids(b.tokens, m, model.s.vocab)) return MS_BAD_TOKEN;
    Workspace<T> work(model.s, m, b.n, threads);
    take(model, work, b.tokens, static_cast<const T*>(b.states), m);
    const Block block{b.rows, b.n, b.starts, b.positions, b.mask, b.window};
    forward(model, work, block, static_cast<T*>(b.cache), b.begin, b.end, normed ? NORMED : STREAM);
    const T* results = normed ? work.normed : work.x;
    for (Int i = 0; i < m; ++i) std::copy_n(results + i * work.D, D, to + i * D);
    return MS_OK;
}

// Multiplies rows [m, depth] with a matrix; both are padded to whole vectors meanwhile.
template <class T, class W>
void multiply_rows(const Weights<W>& matrix, Int threads, const T* from, Int m, T* to) {
    const Int depth = matrix.depth, columns = matrix.columns, a = padded<T>(depth), c = padded<T>(columns);
    Memory<T> rows = memory<T>(m * (a + c));
    T* results = rows.get() + m * a;
    for (Int i = 0; i < m; ++i) std::copy_n(from + i * depth, depth, rows.get() + i * a);
    product<T, W>(rows.get(), a, m, matrix, results, c, threads);
    for (Int i = 0; i < m; ++i) std::copy_n(results + i * c, columns, to + i * columns);
}

}  // namespace

ms_status ms_model_new(ms_type type, const Int* sizes, double norm_eps, Int parts, const void* const* weights,
                       void** model) {
    return with_type(type, [&](auto kinds) {
        *model = packed<NUMBER(kinds), KEPT(kinds)>(sizes, norm_eps, parts, weights);
        return MS_OK;
    });
}

void ms_model_free(ms_type type, void* model) {
    with_type(type, [&](auto kinds) { return delete &model_of(kinds, model), MS_OK; });
}

Int ms_cache_numbers(ms_type type, const void* model) {
    Int numbers = 0;
    with_type(type, [&](auto kinds) {
        const Sizes& s = model_of(kinds, model).s;
        numbers = s.kv_heads * cache_numbers(s);
        return MS_OK;
    });
    return numbers;
}

ms_status ms_matrix_new(ms_type type, Int depth, Int columns, Int parts, const void* numbers, void** matrix) {
    return with_type(type, [&](auto kinds) {
        using W = KEPT(kinds);
        Weights<W> weights = panels<NUMBER(kinds)>(static_cast<const W*>(numbers), depth, columns, parts);
        *matrix = new Weights<W>(std::move(weights));
        return MS_OK;
    });
}

void ms_matrix_free(ms_type type, void* matrix) {
    with_type(type, [&](auto kinds) { return delete static_cast<Weights<KEPT(kinds)>*>(matrix), MS_OK; });
}

ms_status ms_read(ms_type type, const void* model, Int threads, const ms_block* block, Int normed, void* states) {
    return with_type(type, [&](auto kinds) {
        return read_block(model_of(kinds, model), threads, *block, normed, static_cast<NUMBER(kinds)*>(states));
    });
}

ms_status ms_head(ms_type type, const void* model, Int threads, const void* states, Int m, void* logits) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        const auto& head = model_of(kinds, model).head;
        multiply_rows<T>(head, threads, static_cast<const T*>(states), m, static_cast<T*>(logits));
        return MS_OK;
    });
}

ms_status ms_multiply(ms_type type, const void* matrix, Int threads, const void* numbers, Int m, void* result) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        const auto& weights = *static_cast<const Weights<KEPT(kinds)>*>(matrix);
        multiply_rows<T>(weights, threads, static_cast<const T*>(numbers), m, static_cast<T*>(result));
        return MS_OK;
    });
}

void ms_gather(ms_type type, const void* model, void* cache, Int layers, Int rows, Int row, Int first, const Int* slots,
               Int count) {
    with_type(type, [&](auto kinds) {
        gather(model_of(kinds, model).s, static_cast<NUMBER(kinds)*>(cache), layers, rows, row, first, slots, count);
        return MS_OK;
    });
}

ms_status ms_draw(ms_draft* draft, ms_source* source) {
    return with_type(draft->drafter->type, [&](auto kinds) { return draw(kinds, *draft, *source); });
}

ms_status ms_play(ms_round* round) {
    return with_type(round->type, [&](auto kinds) { return play(kinds, *round); });
}
