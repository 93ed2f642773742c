// A round: draft, verify, decide, as in `core/loop.py`, which is the one to read. Between two rounds the caller commits:
// it cuts what was emitted, and sets the lengths of the caches, which is the rollback.
#pragma once

#include "drafts.h"

namespace {

// Reads a block, pending tokens and drafts, and makes the target's distributions [B, K + 1, V] after all of its tokens.
template <class T, class W>
ms_status score(const Model<T, W>& model, ms_round& r, const ms_block& b, T* p) {
    const Int m = b.rows * b.n, D = model.s.width, V = model.s.vocab, wide = padded<T>(V);
    Workspace<T> work(model.s, m, b.n, r.threads);
    take(model, work, b.tokens, static_cast<const T*>(b.states), m);
    const Block block{b.rows, b.n, b.starts, b.positions, b.mask, b.window};
    {
        const Stopwatch forwards(r.seconds[2]);
        forward(model, work, block, static_cast<T*>(b.cache), b.begin, b.end, LOGITS, p);
    }
    for (Int i = 0; i < m; ++i) {
        if (r.hidden) std::copy_n(work.normed + i * work.D, D, static_cast<T*>(r.hidden) + i * D);
        if (i % b.n > r.decision->lengths[i / b.n]) continue;  // padding
        T* dist = p + i * wide;
        if (!can_be_distribution(dist, V)) return MS_BAD_LOGITS;
        make_distribution(dist, V, *r.warp);
        std::copy_n(dist, V, p + i * V);  // they lie closer than their logits
    }
    return MS_OK;
}

// Plays a round.
template <class T, class W>
ms_status play(Kinds<T, W> kinds, ms_round& r) {
    const Model<T, W>& model = model_of(kinds, r.target);
    ms_decision& decision = *r.decision;
    ms_draft* draft = r.draft;
    const Int rows = decision.rows, k = decision.k;
    for (Int row = 0; row < rows; ++row) {
        r.starts[row] = r.positions[row] - 1;
        r.drafts[row] = std::max(decision.budgets[row] - 1, Int(0));
        if (draft || !k) r.lengths[row] = std::min(r.drafts[row], k);
    }
    if (draft) {
        const Stopwatch drafting(r.seconds[0]);
        const auto drawing = [&](auto its_kinds) { return draw(its_kinds, *draft, *r.source); };
        if (const ms_status status = with_type(draft->drafter->type, drawing)) return status;
    }
    std::vector<Int> tokens;
    for (Int row = 0; row < rows; ++row) {
        tokens.push_back(r.pending[row]);
        tokens.insert(tokens.end(), decision.tokens + row * k, decision.tokens + (row + 1) * k);
    }
    if (!are_ids(tokens.data(), rows * (k + 1), model.s.vocab)) return MS_BAD_TOKEN;
    {
        const Stopwatch verifying(r.seconds[1]);
        ms_block block = *r.block;
        block.tokens = tokens.data();
        Memory<T> p = memory<T>(rows * (k + 1) * padded<T>(model.s.vocab));
        if (const ms_status status = score(model, r, block, p.get())) return status;
        decision.p = p.get();
        decide<T>(r.rule, decision, *r.source);
        decision.p = nullptr;
    }
    bool all = false;
    for (Int row = 0; row < rows; ++row) all |= decision.accepted[row] == k;
    if (!draft || !all) return MS_OK;
    const Stopwatch drafting(r.seconds[0]);
    return with_type(draft->drafter->type, [&](auto its_kinds) { return catch_up(its_kinds, *draft); });
}

}  // namespace
