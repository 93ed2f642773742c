// Products of matrices with few rows.
//
// A small model's weights lie in a processor's caches, a larger one's in memory. To fetch them takes most of
// the time of a forward over one token. A forward over seven tokens fetches them once as well, if each weight
// that has come is multiplied with all seven before the next one. That is what `tile` does, and why to check a
// draft takes far less time than to write as many tokens.
#pragma once

#include <utility>

#include "threads.h"
#include "vectors.h"

namespace {

// A matrix [depth, columns] to multiply with, of numbers W. `stride` is the distance between its rows; 0: it lies in
// panels, so that it is read from its first number to its last. Its columns are cut into `parts`, one for each thread.
template <class W>
struct Matrix {
    const W* data;
    Int depth, columns, stride, parts;
};

// The weights of a model: a matrix in panels that owns its memory.
template <class W>
struct Weights : Matrix<W> {
    Memory<W> memory{nullptr, &std::free};
};

// Cuts `all` into `pieces` that are as equal as can be; returns where piece i begins.
constexpr Int cut(Int all, Int pieces, Int i) { return all * i / pieces; }

// Calls visit(first, width) for every panel of parts [from, to), counted in vectors. No panel is wider than WIDE.
template <class Visit>
void each_panel(Int vectors, Int parts, Int from, Int to, Visit visit) {
    for (Int part = from; part < to; ++part) {
        const Int first = cut(vectors, parts, part), all = cut(vectors, parts, part + 1) - first;
        const Int panels = (all + WIDE - 1) / WIDE;
        for (Int i = 0; i < panels; ++i)
            visit(first + cut(all, panels, i), cut(all, panels, i + 1) - cut(all, panels, i));
    }
}

// How many rows of weights W lie side by side in a vector of numbers T.
template <class T, class W>
constexpr int STACKED = sizeof(T) / sizeof(W);

// So many rows of bytes share a scale in each column. Before two such groups lie their scales, two rows of halves.
constexpr Int GROUP = 32;

// How many numbers W a column takes in a panel: its depth, up to a whole number of such rows.
template <class T, class W>
constexpr Int stacked_depth(Int depth) {
    if (std::is_same_v<W, Byte>) return (depth + 2 * GROUP - 1) / (2 * GROUP) * (2 * GROUP + STACKED<T, W>);
    return (depth + STACKED<T, W> - 1) / STACKED<T, W> * STACKED<T, W>;
}

// sum[HEIGHT, WIDTH vectors] += a[HEIGHT, depth] · b[depth, WIDTH vectors]; returns where b ends.
template <class T, class W, int HEIGHT, int WIDTH>
const W* add_up(const T* a, Int a_row, Int depth, const W* b, Int b_row, Vector<T> (&sum)[HEIGHT][WIDTH]) {
    for (Int k = 0; k < depth; k += STACKED<T, W>, b += b_row) {
        Vector<T> rows[WIDTH];
        for (int j = 0; j < WIDTH; ++j) {
            rows[j] = load<T>(b + j * LANES<W>);
            __builtin_prefetch(b + SOON * b_row + j * LANES<W>);
            __builtin_prefetch(b + LATER * b_row + j * LANES<W>, 0, 2);
        }
#pragma GCC unroll 4  // else GCC keeps sums in memory
        for (int d = 0; d < STACKED<T, W>; ++d) {
            Vector<T> weight[WIDTH];
            for (int j = 0; j < WIDTH; ++j) weight[j] = row_of<T, W>(rows[j], d);
            for (int i = 0; i < HEIGHT; ++i)
                for (int j = 0; j < WIDTH; ++j) sum[i][j] += a[i * a_row + k + d] * weight[j];
        }
    }
    return b;
}

// c[HEIGHT, WIDTH vectors] (+)= a[HEIGHT, depth] · b[depth, WIDTH vectors]. The sums stay in registers; those of bytes
// for a group of rows, and then they are scaled.
template <class T, class W, int HEIGHT, int WIDTH>
void tile(const T* a, Int a_row, Int depth, const W* b, Int b_row, T* c, Int c_row, bool add) {
    constexpr bool SCALED = std::is_same_v<W, Byte>;
    const Int group = SCALED ? GROUP : depth;
    const W* scales = b;
    for (Int begin = 0; begin < depth; begin += group, add = true) {
        const int second = begin / GROUP % 2;  // of the two groups that follow their scales
        if (SCALED && !second) scales = std::exchange(b, b + b_row);
        Vector<T> sum[HEIGHT][WIDTH] = {};
        b = add_up<T, W>(a + begin, a_row, std::min(group, depth - begin), b, b_row, sum);
        for (int i = 0; i < HEIGHT; ++i)
            for (int j = 0; j < WIDTH; ++j) {
                T* to = c + i * c_row + j * LANES<T>;
                Vector<T> all = {};
                if (add) all = load<T>(to);
                if constexpr (SCALED)
                    all += sum[i][j] * row_of<T, Half>(load<T>(scales + j * LANES<W>), second);
                else
                    all += sum[i][j];
                store(to, all);
            }
    }
}

// How many rows a tile has at most: bytes need more registers on their way to numbers.
template <class W>
constexpr int HIGHEST = std::is_same_v<W, Byte> ? HIGH - 1 : HIGH;

// Finds the tile of a height and width that are known only now, and gives it the rest.
template <class T, class W, int HEIGHT = HIGHEST<W>, int WIDTH = WIDE, class... Rest>
void any_tile(Int height, Int width, Rest... rest) {
    if constexpr (HEIGHT > 1)
        if (height < HEIGHT) return any_tile<T, W, HEIGHT - 1, WIDTH>(height, width, rest...);
    if constexpr (WIDTH > 1)
        if (width < WIDTH) return any_tile<T, W, HEIGHT, WIDTH - 1>(height, width, rest...);
    tile<T, W, HEIGHT, WIDTH>(rest...);
}

// c[rows, columns] = a[rows, depth] · b, or is increased by it, in the columns that are this thread's share. Rows of c
// are padded to whole vectors. Every sum is added up in the same order, whoever computes it.
template <class T, class W>
void multiply(const T* a, Int a_row, Int rows, const Matrix<W>& b, T* c, Int c_row, bool add = false,
              Share share = {}) {
    const Int lanes = LANES<T>, vectors = padded<T>(b.columns) / lanes;
    const Int from = cut(b.parts, share.count, share.index), to = cut(b.parts, share.count, share.index + 1);
    each_panel(vectors, b.parts, from, to, [&](Int first, Int width) {
        const W* panel = b.data + first * lanes * (b.stride ? 1 : stacked_depth<T, W>(b.depth));
        const Int b_row = b.stride ? b.stride : width * LANES<W>;
        for (Int row = 0, height; row < rows; row += height) {
            const Int tiles = (rows - row + HIGHEST<W> - 1) / HIGHEST<W>;
            height = (rows - row + tiles - 1) / tiles;  // the rows are shared evenly
            any_tile<T, W>(height, width, a + row * a_row, a_row, b.depth, panel, b_row,
                           c + row * c_row + first * lanes, c_row, add);
        }
    });
}

// Copies the scales [columns, groups] of some columns of bytes into their panel, whose rows are `width` vectors long.
template <class T>
void copy_scales(const Byte* from, Int groups, Int first, Int real, Byte* to, Int width) {
    constexpr Int D = STACKED<T, Byte>, SIZE = sizeof(Half);
    for (Int group = 0; group < groups; ++group) {
        const Int row = group / 2 * (2 * GROUP / D + 1);
        for (Int i = 0; i < real; ++i)
            std::memcpy(to + row * width * LANES<Byte> + i * D + group % 2 * SIZE,
                        from + ((first + i) * groups + group) * SIZE, SIZE);
    }
}

// A copy of a matrix in panels, its last columns and rows padded with 0. It comes column by column, [columns, depth];
// before bytes come their scales, halves [columns, groups].
template <class T, class W>
Weights<W> panels(const W* from, Int depth, Int columns, Int parts) {
    constexpr bool SCALED = std::is_same_v<W, Byte>;
    constexpr Int D = STACKED<T, W>, lanes = LANES<T>;
    const Int all = padded<T>(columns), groups = (depth + GROUP - 1) / GROUP;
    const W* rows = SCALED ? from + groups * columns * Int(sizeof(Half)) : from;
    Memory<W> made = memory<W>(stacked_depth<T, W>(depth) * all);
    parts = std::min(parts, all / lanes);
    each_panel(all / lanes, parts, 0, parts, [&](Int first, Int width) {
        W* to = made.get() + first * lanes * stacked_depth<T, W>(depth);
        const Int real = std::min(width * lanes, columns - first * lanes);
        if constexpr (SCALED) copy_scales<T>(from, groups, first * lanes, real, to, width);
        for (Int k = 0; k < depth; ++k) {
            const Int row = k / D + SCALED * (k / (2 * GROUP) + 1);
            for (Int i = 0; i < real; ++i)
                to[(row * width * lanes + i) * D + k % D] = rows[(first * lanes + i) * depth + k];
        }
    });
    return {{made.get(), depth, columns, 0, parts}, std::move(made)};
}

}  // namespace
