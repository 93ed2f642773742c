// Vectors: as many numbers as the processor handles at once, and memory for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

using Int = std::int64_t;

// How many bytes the processor handles at once. A tile is up to HIGH rows by WIDE such vectors: its sums must
// fit into the registers, of which there are 32 or 16, together with the weights that they are made of.
#if defined(__AVX512F__)
constexpr int BYTES = 64, HIGH = 9, WIDE = 3;
#elif defined(__AVX__)
constexpr int BYTES = 32, HIGH = 6, WIDE = 2;
#elif defined(__aarch64__)
constexpr int BYTES = 16, HIGH = 9, WIDE = 3;
#else
constexpr int BYTES = 16, HIGH = 6, WIDE = 2;
#endif
constexpr Int AHEAD = 48;  // so many rows of weights before they are needed, they are asked for

template <class T>
struct Lanes {
    typedef T Vector __attribute__((vector_size(BYTES)));
    static constexpr Int count = BYTES / sizeof(T);
};

template <class T>
Int padded(Int columns) {
    return (columns + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count;
}

template <class T>
typename Lanes<T>::Vector load(const T* from) {
    typename Lanes<T>::Vector vector;
    std::memcpy(&vector, from, BYTES);
    return vector;
}

// Joins the lanes of a vector: its halves, their halves, and so on.
template <class T, int SIZE = BYTES, class Wide, class Join>
T across(Wide vector, Join join) {
    if constexpr (SIZE == sizeof(T)) {
        return vector[0];
    } else {
        typedef T Half __attribute__((vector_size(SIZE / 2)));
        Half halves[2];
        std::memcpy(halves, &vector, SIZE);
        return across<T, SIZE / 2>(join(halves[0], halves[1]), join);
    }
}

constexpr auto plus = [](auto one, auto other) { return one + other; };
constexpr auto larger = [](auto one, auto other) { return one > other ? one : other; };

template <class T>
using Memory = std::unique_ptr<T[], decltype(&std::free)>;

// Memory for `count` numbers, all 0, aligned for vectors.
template <class T>
Memory<T> memory(Int count) {
    const std::size_t bytes = (count * sizeof(T) / 64 + 1) * 64;
    void* taken = std::aligned_alloc(64, bytes);
    std::memset(taken, 0, bytes);
    return Memory<T>(static_cast<T*>(taken), &std::free);
}

}  // namespace
