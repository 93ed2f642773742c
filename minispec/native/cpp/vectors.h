// Vectors: as many numbers as the processor handles at once, and memory for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

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
constexpr std::size_t HUGE_PAGE = 1 << 21;  // bytes; with such pages, addresses of weights are looked up sooner
constexpr Int SOON = 48, LATER = 160;  // so many rows ahead, weights are asked for: to the first cache, to the second

template <class T>
constexpr Int LANES = BYTES / sizeof(T);

template <class T>
struct Lanes {
    typedef T Together __attribute__((vector_size(BYTES)));
};

template <class T>
using Vector = typename Lanes<T>::Together;

using Half = std::uint16_t;  // the upper half of a float, whose lower one is 0
using Byte = std::int8_t;    // a whole number, to be multiplied by a scale

template <class T>
T widened(T number) { return number; }

inline float widened(Half half) {
    const std::uint32_t bits = std::uint32_t(half) << 16;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

template <class T>
constexpr Int padded(Int columns) { return (columns + LANES<T> - 1) / LANES<T> * LANES<T>; }

// A vector of numbers as they lie in memory.
template <class T>
Vector<T> load(const void* from) {
    Vector<T> vector;
    std::memcpy(&vector, from, BYTES);
    return vector;
}

template <class V>
void store(void* to, const V& vector) { std::memcpy(to, &vector, BYTES); }

// Row d of as many rows of weights W as a vector holds side by side: it is the only one, or one of two rows of halves,
// or of four of bytes. Of each 32 bits the lowest belong to the first.
template <class T, class W>
Vector<T> row_of(Vector<T> rows, int d) {
    if constexpr (sizeof(W) < sizeof(T)) {
        auto bits = load<std::int32_t>(&rows);
        if constexpr (std::is_same_v<W, Byte>)
            return __builtin_convertvector(bits << (24 - 8 * d) >> 24, Vector<T>);
        bits = d ? bits & ~0xffff : bits << 16;
        return load<T>(&bits);
    }
    return rows;
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

// Copies rows of numbers that lie so many apart.
template <class T>
void copy_rows(const void* from, Int from_step, Int rows, Int columns, T* to, Int to_step) {
    for (Int row = 0; row < rows; ++row)
        std::copy_n(static_cast<const T*>(from) + row * from_step, columns, to + row * to_step);
}

template <class T>
using Memory = std::unique_ptr<T[], decltype(&std::free)>;

// Memory for `count` numbers, all 0, aligned for vectors, or for pages that are as large as can be. Where the system
// refuses it, std::bad_alloc is thrown, as by `new`.
template <class T>
Memory<T> memory(Int count) {
    const std::size_t all = count * sizeof(T), unit = all >= HUGE_PAGE ? HUGE_PAGE : 64;
    const std::size_t bytes = (all / unit + 1) * unit;
    void* taken = std::aligned_alloc(unit, bytes);
    if (!taken) throw std::bad_alloc();
#if defined(__linux__)
    if (unit == HUGE_PAGE) madvise(taken, bytes, MADV_HUGEPAGE);
#endif
    std::memset(taken, 0, bytes);
    return Memory<T>(static_cast<T*>(taken), &std::free);
}

}  // namespace
