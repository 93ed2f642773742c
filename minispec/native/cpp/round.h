// A round: draft, verify, decide, commit, as in `core/loop.py`, which is the one to read. Between two rounds the caller
// cuts what was emitted, and sets the lengths of the caches, which is the rollback.
#pragma once

#include "drafts.h"

namespace {

// Reads pending tokens and drafts, and makes the target's distributions [B, K + 1, V] after all of its tokens.
template <class T, class W>
ms_status score(const Model<T, W>& model, ms_round& r, const Int* tokens, T* p) {
    ms_block block = *r.block;
    const Int n = block.n, m = block.rows * n, V = model.s.vocab, wide = padded<T>(V);
    Workspace<T> work(model.s, block.rows, n, block.slots, r.threads);
    block.tokens = tokens;
    std::vector<Int> positions;
    std::vector<std::uint8_t> mask;
    for (Int row = 0; r.decision->parents && row < block.rows; ++row) {
        const Shape shape(r.decision->parents + row * (n - 1), n - 1);
        for (Int depth : shape.depths) positions.push_back(block.starts[row] + depth);
        mask.insert(mask.end(), shape.sees.begin(), shape.sees.end());
        block.positions = positions.data(), block.mask = mask.data(), block.window = n;
    }
    {
        const Stopwatch forwards(r.seconds[2]);
        forward(model, work, block, LOGITS, p);
    }
    std::atomic<bool> possible{true};
    // Where nothing is cut the threads share this: 9 distributions over 49,152 ids take as long as a layer. To cut takes
    // memory, which may be refused: that is for the caller's thread to see.
    const bool cuts = r.warp->top_k > 0 || r.warp->top_p < 1;
    Team::get().run(cuts ? 1 : r.threads, [&](Share share) {
        for (Int i = cut(m, share.count, share.index); i < cut(m, share.count, share.index + 1); ++i) {
            const bool padding = i % n > r.decision->lengths[i / n];
            if (!padding && !make_distribution(p + i * wide, V, *r.warp)) possible = false;
        }
    });
    if (!possible) return MS_BAD_LOGITS;
    if (wide > V) copy_rows(p, wide, m, V, p, V);  // they lie closer than their logits
    return MS_OK;
}

// Moves what was kept of a tree together in the target's cache, and lets what drafts learn.
template <class T, class W>
ms_status commit(const Model<T, W>& model, ms_round& r, const Int* block) {
    const ms_decision& d = *r.decision;
    std::vector<Int> last(d.accepted, d.accepted + d.rows);
    for (Int row = 0; d.path && row < d.rows; ++row) {
        std::vector<Int> slots;
        for (Int i = 0; i < d.k; ++i)
            if (d.path[row * d.k + i]) slots.push_back(r.block->starts[row] + i + 1);
        last[row] = slots.empty() ? 0 : slots.back() - r.block->starts[row];
        gather<T>(model.s, *r.block, row, r.block->starts[row] + 1, slots);
    }
    if (!r.draft) return MS_OK;
    const Stopwatch drafting(r.seconds[0]);
    return with_type(r.draft->drafter->type, [&](auto kinds) {
        commit(kinds, *r.draft, d, block, last, static_cast<const NUMBER(kinds)*>(r.block->hidden));
        return MS_OK;
    });
}

// Plays a round.
template <class T, class W>
ms_status play(Kinds<T, W> kinds, ms_round& r) {
    const Model<T, W>& model = model_of(kinds, r.target);
    ms_decision& decision = *r.decision;
    ms_draft* draft = r.draft;
    const Int rows = decision.rows, k = decision.k;
    for (Int row = 0; row < rows; ++row) {
        r.block->starts[row] = r.positions[row] - 1;
        if (!draft || decision.parents) continue;
        draft->budgets[row] = std::max(decision.budgets[row] - 1, Int(0));
        decision.lengths[row] = std::min(draft->budgets[row], k);
    }
    if (draft) {
        const Stopwatch drafting(r.seconds[0]);
        if (const ms_status status = ms_draw(draft, r.source)) return status;
        for (Int row = 0; row < rows; ++row)
            std::fill(draft->tokens + row * k + decision.lengths[row], draft->tokens + (row + 1) * k, 0);
    }
    std::vector<Int> tokens;
    for (Int row = 0; row < rows; ++row) {
        tokens.push_back(r.pending[row]);
        tokens.insert(tokens.end(), decision.tokens + row * k, decision.tokens + (row + 1) * k);
    }
    if (!are_ids(tokens.data(), rows * (k + 1), model.s.vocab)) return MS_BAD_TOKEN;
    {
        const Stopwatch verifying(r.seconds[1]);
        Memory<T> p = memory<T>(rows * (k + 1) * padded<T>(model.s.vocab));
        if (const ms_status status = score(model, r, tokens.data(), p.get())) return status;
        ms_decision seen = decision;
        const Int certain = decision.q || r.rule == MS_GREEDY || r.rule == MS_COUPLED ? 0 : rows * k;
        std::vector<T> q(certain * model.s.vocab);
        for (Int i = 0; i < certain; ++i) q[i * model.s.vocab + decision.tokens[i]] = 1;
        if (certain) seen.q = q.data();
        seen.p = p.get();
        decide<T>(r.rule, seen, *r.source);
    }
    return commit(model, r, tokens.data());
}

}  // namespace
