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

// What a draft reads in a forward through so many layers: n tokens in each row, after what the cache holds of them.
inline ms_block block_of(const ms_draft& draft, Int n, const Int* tokens, std::vector<Int>& starts, Int layers) {
    return {draft.rows, n, tokens, nullptr, starts.data(), draft.drafter->cache, draft.drafter->slots, 0, layers};
}

// A way to draft, at work: what it remembers from one token of a draft to the next.
template <class T, class W>
class Chain {
    const ms_draft& draft;
    const ms_drafter& drafter;
    const Model<T, W>&model, &layers;  // whose embedding and head, and whose layers
    const Int rows = draft.rows, k = draft.k, width = model.s.width, D = padded<T>(width);
    const Int at_first = drafter.kind == MS_PARALLEL ? k : std::max(draft.n, Int(1));  // tokens of each row
    T* const given = static_cast<T*>(draft.states);
    std::vector<Int> starts{draft.starts, draft.starts + rows};
    Workspace<T> work{layers.s, rows, at_first, drafter.slots, drafter.threads};
    Memory<T> rows_of_states = memory<T>(rows * 2 * D);
    T *states = rows_of_states.get(), *more = states + rows * D;  // [rows, D] each

    const Weights<W>& matrix(Int i) const { return *static_cast<const Weights<W>*>(drafter.matrices[i]); }

    // Reads tokens, or without them what lies in the workspace, after what the cache holds.
    void read(const Int* tokens, Int end, End last, T* logits = nullptr, Int n = 1) {
        ms_block block = block_of(draft, n, tokens, starts, end);
        if (drafter.kind == MS_JOINED) block.qkv = work.qkv;
        forward(layers, work, block, last, logits);
        for (Int& start : starts) ++start;
    }

    void multiply_rows(const T* from, const Matrix<W>& b, T* to, bool add = false) {
        product(from, rows, b, to, drafter.threads, add);
    }

    // The target's first layers, and a matrix, added, and a norm (`Exit`).
    void next_by_exit(const Int* tokens, Int step, T* logits) {
        read(tokens, drafter.first_layers, STREAM);
        copy_rows(work.x, D, rows, width, given + step * width, (k + 1) * width);
        if (step == k) return;
        std::copy_n(work.x, rows * D, states);
        multiply_rows(work.x, matrix(0), states, true);
        const auto& own = *static_cast<const Model<T, W>*>(drafter.layers);  // a norm, with an epsilon of its own
        norm(own.s, states, own.gain, states, rows, D);
        multiply_rows(states, *model.head, logits);
    }

    // Multiplies embeddings of tokens [m], side by side with features, that of token i at feature(i); for a joined layer
    // both are normed.
    template <class F>
    void join(const Int* tokens, Int m, F feature, T* to) {
        const Int wide = padded<T>(2 * width);
        Memory<T> both = memory<T>(m * wide);
        for (Int i = 0; i < m; ++i) {
            T *embedded = both.get() + i * wide, *beside = embedded + width;
            model.embed(tokens[i], embedded);
            std::copy_n(feature(i), width, beside);
            if (drafter.kind != MS_JOINED) continue;
            const T* gain = static_cast<const T*>(drafter.mask);
            norm(layers.s, embedded, {gain, gain + width}, embedded, 1, 0);
            norm(layers.s, beside, layers.layers[0].attention_gain, beside, 1, 0);
            if (drafter.first_layers) std::copy_n(beside, width, work.x + i * D);
        }
        product(both.get(), m, matrix(0), to, drafter.threads);
    }

    // Embedding and feature, joined, through layers that predict the next feature (`FeatureLayer`).
    void next_by_features(const Int* tokens, Int step, T* logits) {
        join(tokens, rows, [&](Int row) { return step ? work.normed + row * D : given + row * width; }, work.x);
        read(nullptr, layers.s.layers, LOGITS, logits);
    }

    // A feature and the token's embedding, side by side, make queries, keys and values (`JoinedBlock`); the layer's
    // stream is the next feature, and its head knows some of the ids.
    void next_by_joined(const Int* tokens, Int step, T* logits) {
        const Int n = step ? 1 : draft.n, all = padded<T>(model.s.vocab), known = padded<T>(layers.head->columns);
        if (!step) copy_rows(given, width, rows * n, width, work.x, D);
        join(step ? tokens : draft.read, rows * n, [&](Int i) { return work.x + i * D; }, work.qkv);
        read(nullptr, 1, STREAM, nullptr, n);
        for (Int row = 0; !step && row < rows; ++row) {
            const Int last = draft.counts[row] - 1;
            std::copy_n(work.x + (row * n + last) * D, D, work.x + row * D);
            starts[row] += last;
        }
        Memory<T> few = memory<T>(rows * known);
        norm(layers.s, work.x, layers.gain, states, rows, D);
        multiply_rows(states, *layers.head, few.get());
        std::fill_n(logits, rows * all, -std::numeric_limits<T>::infinity());
        for (Int row = 0; row < rows; ++row)
            for (Int i = 0; i < layers.head->columns; ++i) logits[row * all + drafter.ids[i]] = few[row * known + i];
    }

    // One forward for all positions, each state corrected by the token before (`ParallelLayers`).
    void next_by_masks(const Int* tokens, Int step, T* logits) {
        if (step == 0) {
            copy_rows(drafter.mask, 0, rows * k, width, work.x, D);
            for (Int row = 0; row < rows; ++row) model.embed(tokens[row], work.x + row * k * D);
            read(nullptr, layers.s.layers, NORMED, nullptr, k);
        }
        for (Int row = 0; row < rows; ++row) model.embed(tokens[row], more + row * D);
        copy_rows(work.normed + step * D, k * D, rows, D, states, D);
        Memory<T> change = memory<T>(rows * padded<T>(matrix(0).columns));
        multiply_rows(more, matrix(0), change.get());
        multiply_rows(change.get(), matrix(1), states, true);
        multiply_rows(states, *model.head, logits);
    }

    // A head for each position, on the state that the target has left (`MedusaHead`).
    void next_by_heads(Int step, T* logits) {
        copy_rows(given, width, rows, width, states, D);
        multiply_rows(states, matrix(2 * step), more);
        for (Int i = 0; i < rows * D; i += LANES<T>) {
            const auto gate = load<T>(more + i);
            store(states + i, load<T>(states + i) + gate / (exponential(-gate) + T(1)));
        }
        multiply_rows(states, matrix(2 * step + 1), logits);
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
            case MS_JOINED: return next_by_joined(tokens, step, logits);
            case MS_EXIT: return next_by_exit(tokens, step, logits);
            case MS_MODEL: return read(tokens, layers.s.layers, LOGITS, logits);
        }
    }

    // Reads tokens of a block [rows, k + 1], pending and drafted ones, for good: n of them in each row, from number
    // first[row] on, after `held` tokens. hidden: [rows, k + 1, D], the target's states at the block.
    void read_again(const Int* block, Int n, const std::vector<Int>& first, std::vector<Int> held, const T* hidden) {
        std::vector<Int> tokens, places;  // of each token, and of the state before it
        for (Int row = 0; row < rows; ++row) {
            held[row] = std::min(held[row], layers.s.capacity);
            for (Int i = 0; i < n; ++i) {
                places.push_back(row * (k + 1) + first[row] + i);
                tokens.push_back(block[places.back()]);
            }
        }
        Workspace<T> again(layers.s, rows, n, drafter.slots, drafter.threads);
        const auto before = [&](Int i) { return i % n ? hidden + (places[i] - 1) * width : given + i / n * width; };
        if (drafter.kind == MS_FEATURE)
            join(tokens.data(), rows * n, before, again.x);
        else
            for (Int i = 0; i < rows * n; ++i) model.embed(tokens[i], again.x + i * D);
        forward(layers, again, block_of(draft, n, nullptr, held, layers.s.layers), STREAM);
    }
};

// Makes rows of logits [rows, V up to whole vectors] distributions; whether that can be.
template <class T>
bool warp_rows(T* logits, Int rows, Int V, const ms_warp& warp) {
    for (Int row = 0; row < rows; ++row)
        if (!make_distribution(logits + row * padded<T>(V), V, warp)) return false;
    return true;
}

// Draws a chain, with the decisions in the order of `draw_chain`: step by step, and row by row at each. A row draws in
// its first budgets[b] steps; after them it gets token 0.
template <class T, class W>
ms_status draw_chain(Kinds<T, W> kinds, ms_draft& draft, ms_source& source, Int V) {
    const Int rows = draft.rows, k = draft.k, wide = padded<T>(V);
    Chain<T, W> chain(kinds, draft);
    std::vector<Int> tokens(draft.pending, draft.pending + rows);
    Memory<T> dists = memory<T>(rows * wide);
    const Int steps = draft.drafter->kind == MS_EXIT ? k + 1 : k;
    for (Int i = 0; i < steps; ++i) {
        {
            const Stopwatch forwards(draft.seconds);
            chain.next(tokens.data(), i, dists.get());
        }
        if (i == k) break;
        if (!warp_rows(dists.get(), rows, V, *draft.warp)) return MS_BAD_LOGITS;
        for (Int row = 0; row < rows; ++row) {
            const T* dist = dists.get() + row * wide;
            tokens[row] = draft.tokens[row * k + i] = i < draft.budgets[row] ? pick(source, dist, V, row, i) : 0;
            std::copy_n(dist, V, static_cast<T*>(draft.q) + (row * k + i) * V);
        }
    }
    return MS_OK;
}

// How deep the tokens of a tree stand, the pending one first, and which others each one follows.
struct Shape {
    std::vector<Int> depths{0};
    std::vector<std::uint8_t> sees;  // [k + 1, k + 1]; itself, too

    Shape(const Int* parents, Int k) : sees((k + 1) * (k + 1)) {
        sees[0] = 1;
        for (Int i = 1; i <= k; ++i) {
            const Int parent = parents[i - 1];
            depths.push_back(depths[parent] + 1);
            std::copy_n(&sees[parent * (k + 1)], k + 1, &sees[i * (k + 1)]);
            sees[i * (k + 2)] = 1;
        }
    }
};

// A tree at work: which of its tokens the draft model has read.
template <class T, class W>
struct Tree {
    const ms_draft& draft;
    const Model<T, W>& model;
    const Shape shape{draft.parents, draft.k};
    std::vector<Int> read{};

    Int parent(Int i) const { return draft.parents[i - 1]; }
    Int depth(Int i) const { return shape.depths[i]; }
    Int token(Int row, Int i) const { return i ? draft.tokens[row * draft.k + i - 1] : draft.pending[row]; }

    // The draft model reads tokens `at` of the tree in each row: logits [rows, at, V up to whole vectors].
    void next(const std::vector<Int>& at, T* logits) {
        const Int n = at.size();
        std::vector<Int> tokens, positions, starts;
        std::vector<std::uint8_t> mask;
        const Int before = read.size();
        read.insert(read.end(), at.begin(), at.end());
        for (Int row = 0; row < draft.rows; ++row) {
            starts.push_back(std::min(draft.starts[row] + before, model.s.capacity));
            for (Int i : at) {
                tokens.push_back(token(row, i));
                positions.push_back(draft.starts[row] + depth(i));
                for (Int other : read) mask.push_back(shape.sees[i * (draft.k + 1) + other]);
            }
        }
        Workspace<T> work(model.s, draft.rows, n, draft.drafter->slots, draft.drafter->threads);
        ms_block block = block_of(draft, n, tokens.data(), starts, model.s.layers);
        block.positions = positions.data(), block.mask = mask.data(), block.window = before + n;
        forward(model, work, block, LOGITS, logits);
    }
};

// Takes an earlier candidate out of q, which is rescaled. Where nothing is left, as at temperature 0, the most probable
// of the others comes, by the logits, of which those of candidates are minus infinity.
template <class T>
void without(T* q, T* logits, Int candidate, Int V) {
    logits[candidate] = -std::numeric_limits<T>::infinity();
    q[candidate] = 0;
    const T mass = std::accumulate(q, q + V, T(0));
    for (Int id = 0; id < V && mass > 0; ++id) q[id] /= mass;
    if (!(mass > 0)) q[largest(logits, V)] = 1;
}

// Draws a tree level by level, candidate by candidate, and row by row at each, as `draw_tree` does.
template <class T, class W>
ms_status draw_tree(Kinds<T, W> kinds, ms_draft& draft, ms_source& source, Int V) {
    const Int rows = draft.rows, k = draft.k, wide = padded<T>(V);
    const bool by_heads = draft.drafter->kind == MS_MEDUSA;
    Tree<T, W> tree{draft, model_of(kinds, draft.drafter->model)};
    Chain<T, W> heads(kinds, draft);
    for (Int first = 1, end; first <= k; first = end) {
        std::vector<Int> at;  // the parents of this level's tokens [first, end)
        for (end = first; end <= k && tree.depth(end) == tree.depth(first); ++end)
            if (at.empty() || at.back() != tree.parent(end)) at.push_back(tree.parent(end));
        const Int n = at.size(), m = rows * n;
        Memory<T> both = memory<T>(2 * m * wide);
        T *q = both.get(), *logits = q + m * wide;
        {
            const Stopwatch forwards(draft.seconds);
            if (by_heads)
                heads.next(nullptr, tree.depth(first) - 1, logits);
            else
                tree.next(at, logits);
        }
        for (Int i = m; by_heads && i-- > 0;) std::copy_n(logits + i / n * wide, wide, logits + i * wide);
        std::copy_n(logits, m * wide, q);
        if (!warp_rows(q, m, V, *draft.warp)) return MS_BAD_LOGITS;
        for (Int i = first, j = 0; i < end; ++i) {
            const bool again = i > first && tree.parent(i) == tree.parent(i - 1);  // a further candidate
            if (i > first && !again) ++j;
            for (Int row = 0; row < rows; ++row) {
                T *dist = q + (row * n + j) * wide, *its_logits = logits + (row * n + j) * wide;
                if (again) without(dist, its_logits, tree.token(row, i - 1), V);
                draft.tokens[row * k + i - 1] = i <= draft.budgets[row] ? pick(source, dist, V, row, tree.depth(i) - 1)
                                                                                     : largest(dist, V);
                std::copy_n(dist, V, static_cast<T*>(draft.q) + (row * k + i - 1) * V);
            }
        }
    }
    return MS_OK;
}

// Draws K tokens in each row.
template <class T, class W>
ms_status draw(Kinds<T, W> kinds, ms_draft& draft, ms_source& source) {
    const Int V = model_of(kinds, draft.drafter->model).s.vocab;
    if (!are_ids(draft.pending, draft.rows, V) || !are_ids(draft.read, draft.rows * draft.n, V))
        return MS_BAD_TOKEN;
    if (!can_decide(source, draft.warp->temperature > 0 ? draft.rows * draft.k : 0)) return MS_BAD_NUMBER;
    return draft.parents ? draw_tree(kinds, draft, source, V) : draw_chain(kinds, draft, source, V);
}

// Moves what a cache of a draft model holds of a tree together, so that each row holds its path; of the pending token and
// the drafted ones it has read those that have children. Returns how many tokens each row then holds.
template <class T, class W>
std::vector<Int> keep_path(const Model<T, W>& model, const ms_draft& draft, const std::uint8_t* path) {
    std::vector<Int> held;
    const ms_block block = block_of(draft, 0, nullptr, held, model.s.layers);
    for (Int row = 0; row < draft.rows; ++row) {
        std::vector<Int> slots;
        for (Int i = 0, read = -1; i < draft.k; ++i) {
            const Int parent = draft.parents[i];
            if (i && parent == draft.parents[i - 1]) continue;
            ++read;
            if (!parent || path[row * draft.k + parent - 1]) slots.push_back(draft.starts[row] + read);
        }
        held.push_back(draft.starts[row] + slots.size());
        gather<T>(model.s, block, row, draft.starts[row], slots);
    }
    return held;
}

// Has what drafts learn what became of its draft, as `commit` of the drafters does: it reads what was accepted and not
// read yet, a feature drafter all of it again, with true features.
//
// block: [B, K + 1], the pending and the drafted tokens; last: [B], the last one that each row keeps; hidden:
// [B, K + 1, D], the target's states at the block.
template <class T, class W>
void commit(Kinds<T, W> kinds, ms_draft& draft, const ms_decision& decision, const Int* block,
            const std::vector<Int>& last, const T* hidden) {
    const Stopwatch forwards(draft.seconds);
    const Model<T, W>& model = model_of(kinds, draft.drafter->model);
    const Int rows = draft.rows, k = draft.k, width = model.s.width;
    const Int most = *std::max_element(decision.accepted, decision.accepted + rows);
    Int first = 0, n = 0;  // what each row reads again: n tokens of the block from this one on
    switch (draft.drafter->kind) {
        case MS_MODEL: first = k, n = most == k; break;
        case MS_PARALLEL: first = 1, n = most; break;
        case MS_FEATURE: n = most + 1; break;
        case MS_MEDUSA: break;
        case MS_JOINED:
        case MS_EXIT: return;
    }
    std::vector<Int> firsts(rows, first), held;
    for (Int row = 0; row < rows; ++row) held.push_back(draft.starts[row] + first);
    if (draft.parents && draft.drafter->kind == MS_MODEL) {
        firsts = last, n = 1;
        held = keep_path(model, draft, decision.path);
    }
    if (n) Chain<T, W>(kinds, draft).read_again(block, n, firsts, held, hidden);
    if (!draft.states) return;
    for (Int row = 0; row < rows; ++row)
        std::copy_n(hidden + (row * (k + 1) + last[row]) * width, width, static_cast<T*>(draft.states) + row * width);
}

}  // namespace
