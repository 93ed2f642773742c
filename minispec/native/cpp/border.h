// The border to C: types that are known only now, and what C knows nothing of.
#pragma once

#include "minispec.h"
#include "vectors.h"

namespace {

// A model computes with numbers T, and its matrices are kept as numbers W.
template <class T, class W>
struct Kinds {
    using Number = T;
    using Kept = W;
};

// Returns call(Kinds) for a type, or MS_NO_MEMORY where the system refuses memory: what the call has taken is then
// given back. C knows no exceptions.
template <class Call>
ms_status with_type(ms_type type, Call call) {
    try {
        switch (type) {
            case MS_F32: return call(Kinds<float, float>{});
            case MS_F64: return call(Kinds<double, double>{});
            case MS_BF16: return call(Kinds<float, Half>{});
            case MS_INT8: return call(Kinds<float, Byte>{});
        }
    } catch (const std::bad_alloc&) {
    }
    return MS_NO_MEMORY;
}

// The types of such kinds.
#define NUMBER(kinds) typename decltype(kinds)::Number
#define KEPT(kinds) typename decltype(kinds)::Kept

}  // namespace
