// Drafts: chains of K tokens, each drawn from logits after the one before. `core/draft.py` is the one to read, and
// beside it `drafters/exit.py`, `eagle.py`, `parallel.py` and `medusa.py`: from where the logits come is theirs.
#pragma once

#include <chrono>

#include "decisions.h"
#include "forward.h"

namespace {

// Adds the seconds for which it lives to a sum.
struct Stopwatch {
    double& sum;
    Clock::time_point started = Clock::now();

    explicit Stopwatch(double& sum) : sum(sum) {}
    ~Stopwatch() { sum += std::chrono::duration<double>(Clock::now() - started).count(); }
};

// A way to draft, at work: what it remembers from one token of a draft to the next.
template <class T, class W>
class Chain {
    const ms_draft& draft;
    const ms_drafter& drafter;
    const Model<T, W>&model, &layers;  // whose embedding and head, and whose layers
    const Int rows = draft.rows, k = draft.k, width = model.s.width, D = padded<T>(width);
    const Int read_at_once = drafter.kind == MS_PARALLEL ? k : 1;  // tokens of each row
    T* const given = static_cast<T*>(draft.states);
    std::vector<Int> starts{draft.starts, draft.starts + rows};
    Workspace<T> work{layers.s, rows * read_at_once, read_at_once, drafter.threads};
    Memory<T> rows_of_states = memory<T>(rows * 2 * D);
    T *states = rows_of_states.get(), *more = states + rows * D;  // [rows, D] each

    const Matrix<W> matrix(Int i) const { return *static_cast<const Weights<W>*>(drafter.matrices[i]); }

    const T* embedding(Int token) const { return model.embedding.data() + token * width; }

    // Reads what lies in the workspace through layers, after what the cache holds.
    void read(Int end, End last, T* logits = nullptr) {
        forward(layers, work, Block{rows, read_at_once, starts.data()}, static_cast<T*>(drafter.cache), 0, end, last,
                logits, &model);
        for (Int& start : starts) ++start;
    }

    void multiply_states(const T* from, const Matrix<W>& b, T* to, bool add = false) {
        product<T, W>(from, D, rows, b, to, padded<T>(b.columns), drafter.threads, add);
    }

    // The target's first layers, and a matrix, added, and a norm (`Exit`).
    void next_by_exit(Int step, T* logits) {
        read(drafter.first_layers, STREAM);
        for (Int row = 0; row < rows; ++row) std::copy_n(work.x + row * D, width, given + (row * (k + 1) + step) * width);
        if (step == k) return;
        std::copy_n(work.x, rows * D, states);
        multiply_states(work.x, matrix(0), states, true);
        norm(layers.s, states, static_cast<const Model<T, W>*>(drafter.layers)->gain, states, rows, D);
        multiply_states(states, model.head, logits);
    }

    // Embedding and feature, joined, through layers that predict the next feature (`FeatureLayer`).
    void next_by_features(const Int* tokens, Int step, T* logits) {
        const Int wide = padded<T>(2 * width);
        Memory<T> both = memory<T>(rows * wide);
        for (Int row = 0; row < rows; ++row) {
            std::copy_n(embedding(tokens[row]), width, both.get() + row * wide);
            std::copy_n(step ? work.normed + row * D : given + row * width, width, both.get() + row * wide + width);
        }
        product<T, W>(both.get(), wide, rows, matrix(0), work.x, D, drafter.threads);
        read(layers.s.layers, LOGITS, logits);
    }

    // One forward for all positions, each state corrected by the token before (`ParallelLayers`).
    void next_by_masks(const Int* tokens, Int step, T* logits) {
        if (step == 0) {
            for (Int i = 0; i < rows * k; ++i)
                std::copy_n(i % k ? static_cast<const T*>(drafter.mask) : embedding(tokens[i / k]), width, work.x + i * D);
            read(layers.s.layers, NORMED);
        }
        for (Int row = 0; row < rows; ++row) {
            std::copy_n(embedding(tokens[row]), width, more + row * D);
            std::copy_n(work.normed + (row * k + step) * D, D, states + row * D);
        }
        const Matrix<W> before = matrix(0);
        const Int rank = padded<T>(before.columns);
        Memory<T> change = memory<T>(rows * rank);
        product<T, W>(more, D, rows, before, change.get(), rank, drafter.threads);
        product<T, W>(change.get(), rank, rows, matrix(1), states, D, drafter.threads, true);
        multiply_states(states, model.head, logits);
    }

    // A head for each position, on the state that the target has left (`MedusaHead`).
    void next_by_heads(Int step, T* logits) {
        for (Int row = 0; row < rows; ++row) std::copy_n(given + row * width, width, states + row * D);
        multiply_states(states, matrix(2 * step), more);
        for (Int i = 0; i < rows * D; i += Lanes<T>::count) {
            const auto gate = load<T>(more + i);
            const auto sum = load<T>(states + i) + gate / (exponential(-gate) + T(1));
            std::memcpy(states + i, &sum, BYTES);
        }
        multiply_states(states, matrix(2 * step + 1), logits);
    }

  public:
    Chain(Kinds<T, W> kinds, const ms_draft& draft)
        : draft(draft),
          drafter(*draft.drafter),
          model(model_of(kinds, drafter.model)),
          layers(drafter.layers && drafter.kind != MS_EXIT ? model_of(kinds, drafter.layers) : model) {}

    // Reads tokens [rows], number `step` of each row's draft, 0 the pending one; makes the logits of what follows, rows
    // of V up to whole vectors. An early exit reads the last drafted token too, for the target: there without logits.
    void next(const Int* tokens, Int step, T* logits) {
        switch (drafter.kind) {
            case MS_FEATURE: return next_by_features(tokens, step, logits);
            case MS_PARALLEL: return next_by_masks(tokens, step, logits);
            case MS_MEDUSA: return next_by_heads(step, logits);
            case MS_MODEL:
            case MS_EXIT: break;
        }
        take(model, work, tokens, static_cast<const T*>(nullptr), rows);
        if (drafter.kind == MS_EXIT) return next_by_exit(step, logits);
        read(layers.s.layers, LOGITS, logits);
    }
};

// Draws K tokens in each row, with the decisions in the order of `draw_chain`: step by step, and row by row at each. A
// row draws in its first budgets[b] steps; after them it gets token 0. Adds up the seconds of forwards.
template <class T, class W>
ms_status draw(Kinds<T, W> kinds, const ms_draft& draft, ms_source& numbers, double& seconds) {
    const Int rows = draft.rows, k = draft.k, V = model_of(kinds, draft.drafter->model).s.vocab, wide = padded<T>(V);
    if (!are_ids(draft.pending, rows, V)) return MS_BAD_TOKEN;
    Source source(numbers);
    Chain<T, W> chain(kinds, draft);
    std::vector<Int> tokens(draft.pending, draft.pending + rows);
    Memory<T> dists = memory<T>(rows * wide);
    const Int steps = draft.drafter->kind == MS_EXIT ? k + 1 : k;
    for (Int i = 0; i < steps; ++i) {
        {
            const Stopwatch forwards(seconds);
            chain.next(tokens.data(), i, dists.get());
        }
        for (Int row = 0; row < rows && i < k; ++row) {
            T* dist = dists.get() + row * wide;
            if (!can_be_distribution(dist, V)) return MS_BAD_LOGITS;
            make_distribution(dist, V, *draft.warp);
            tokens[row] = draft.tokens[row * k + i] = i < draft.budgets[row] ? source.pick(dist, V, row, i) : 0;
            std::copy_n(dist, V, static_cast<T*>(draft.q) + (row * k + i) * V);
        }
    }
    return MS_OK;
}

// Has a draft model read the last drafted token of each row, which it has guessed but never read.
template <class T, class W>
ms_status catch_up(Kinds<T, W> kinds, const ms_draft& draft, double& seconds) {
    const Stopwatch forwards(seconds);
    const Model<T, W>& model = model_of(kinds, draft.drafter->model);
    Workspace<T> work(model.s, draft.rows, 1, draft.drafter->threads);
    std::vector<Int> tokens, starts;
    for (Int row = 0; row < draft.rows; ++row) {
        tokens.push_back(draft.tokens[(row + 1) * draft.k - 1]);
        starts.push_back(std::min(draft.starts[row] + draft.k, model.s.capacity));
    }
    take(model, work, tokens.data(), static_cast<const T*>(nullptr), draft.rows);
    const Block block{draft.rows, 1, starts.data()};
    forward(model, work, block, static_cast<T*>(draft.drafter->cache), 0, model.s.layers, STREAM);
    return MS_OK;
}

}  // namespace
