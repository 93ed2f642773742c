// The functions of `minispec.h`.

#include <utility>

#include "round.h"

namespace {

// Packs weights as `pack.py` lists them: matrices [out, in] are of W, the embedding as it is kept, rotations double, all
// others of T.
template <class T, class W>
Model<T, W>* packed(const Int* sizes, double norm_eps, Int parts, const void* const* weights, Model<T, W>* to) {
    auto model = std::make_unique<Model<T, W>>();
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         (sizes[5] + 15) / 16 * 16, norm_eps};
    const auto matrix = [&](Int depth, Int columns) {
        return panels<T>(static_cast<const W*>(*weights++), depth, columns, parts);
    };
    const auto vector = [&](auto& to, Int count) {
        using N = std::remove_reference_t<decltype(to[0])>;
        if (const void* from = *weights++) to.assign(static_cast<const N*>(from), static_cast<const N*>(from) + count);
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
    model->head = static_cast<const Weights<W>*>(*weights++);
    vector(model->gain, s.width), vector(model->rotations, (NEAR + 1 + (s.capacity - 1) / NEAR) * s.head_dim);
    if (!to) return model.release();
    std::move(model->layers.begin(), model->layers.end(), std::back_inserter(to->layers));
    to->s.layers += s.layers;
    return to;
}

}  // namespace

ms_status ms_model_new(ms_type type, const Int* sizes, double norm_eps, Int parts, const void* const* weights,
                       void** model) {
    return with_type(type, [&](auto kinds) {
        using M = Model<NUMBER(kinds), KEPT(kinds)>;
        *model = packed(sizes, norm_eps, parts, weights, static_cast<M*>(*model));
        return MS_OK;
    });
}

void ms_model_free(ms_type type, void* model) {
    with_type(type, [&](auto kinds) { return delete &model_of(kinds, model), MS_OK; });
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

ms_status ms_read(ms_type type, const void* address, Int threads, const ms_block* block, Int normed) {
    return with_type(type, [&](auto kinds) {
        const auto& model = model_of(kinds, address);
        if (!block->states && !are_ids(block->tokens, block->rows * block->n, model.s.vocab)) return MS_BAD_TOKEN;
        Workspace<NUMBER(kinds)> work(model.s, block->rows, block->n, block->slots, threads);
        forward(model, work, *block, normed ? NORMED : STREAM);
        return MS_OK;
    });
}

ms_status ms_multiply(ms_type type, const void* matrix, Int threads, const void* numbers, Int m, void* result) {
    return with_type(type, [&](auto kinds) {
        using T = NUMBER(kinds);
        const auto& b = *static_cast<const Weights<KEPT(kinds)>*>(matrix);
        const Int a_row = padded<T>(b.depth), c_row = padded<T>(b.columns);
        Memory<T> rows = memory<T>(m * (a_row + c_row));
        T *a = rows.get(), *c = a + m * a_row;
        copy_rows(numbers, b.depth, m, b.depth, a, a_row);
        product(a, m, b, c, threads);
        copy_rows(c, c_row, m, b.columns, static_cast<T*>(result), b.columns);
        return MS_OK;
    });
}

ms_status ms_draw(ms_draft* draft, ms_source* source) {
    return with_type(draft->drafter->type, [&](auto kinds) { return draw(kinds, *draft, *source); });
}

ms_status ms_play(ms_round* round) {
    return with_type(round->type, [&](auto kinds) { return play(kinds, *round); });
}
