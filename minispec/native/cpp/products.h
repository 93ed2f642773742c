// Products of matrices with few rows.
//
// A small model's weights lie in a processor's caches, a larger one's in memory. To fetch them takes most of
// the time of a forward over one token. A forward over seven tokens fetches them once as well, if each weight
// that has come is multiplied with all seven before the next one. That is what `tile` does, and why to check a
// draft takes far less time than to write as many tokens.
#pragma once

#include "vectors.h"

namespace {

// A matrix [depth, columns] to multiply with. `stride` is the distance between its rows; 0: it lies in panels
// of WIDE vectors, one after the other, so that it is read from its first number to its last.
template <class T>
struct Matrix {
    const T* data;
    Int depth, columns, stride;
};

// c[HEIGHT, WIDTH vectors] (+)= a[HEIGHT, depth] · b[depth, WIDTH vectors]. The sums stay in registers.
template <class T, int HEIGHT, int WIDTH>
void tile(const T* a, Int a_row, Int depth, const T* b, Int b_row, T* c, Int c_row, bool add) {
    typename Lanes<T>::Vector sum[HEIGHT][WIDTH] = {};
    for (Int k = 0; k < depth; ++k, b += b_row) {
        typename Lanes<T>::Vector weight[WIDTH];
        for (int j = 0; j < WIDTH; ++j) {
            weight[j] = load(b + j * Lanes<T>::count);
            __builtin_prefetch(b + AHEAD * b_row + j * Lanes<T>::count);
        }
        for (int i = 0; i < HEIGHT; ++i)
            for (int j = 0; j < WIDTH; ++j) sum[i][j] += a[i * a_row + k] * weight[j];
    }
    for (int i = 0; i < HEIGHT; ++i)
        for (int j = 0; j < WIDTH; ++j) {
            T* to = c + i * c_row + j * Lanes<T>::count;
            if (add) sum[i][j] += load(to);
            std::memcpy(to, &sum[i][j], BYTES);
        }
}

// Finds the tile of a height and width that are known only now.
template <class T, int HEIGHT = HIGH, int WIDTH = WIDE>
void any_tile(Int height, Int width, const T* a, Int a_row, Int depth, const T* b, Int b_row, T* c, Int c_row,
              bool add) {
    if constexpr (HEIGHT > 1)
        if (height < HEIGHT)
            return any_tile<T, HEIGHT - 1, WIDTH>(height, width, a, a_row, depth, b, b_row, c, c_row, add);
    if constexpr (WIDTH > 1)
        if (width < WIDTH)
            return any_tile<T, HEIGHT, WIDTH - 1>(height, width, a, a_row, depth, b, b_row, c, c_row, add);
    tile<T, HEIGHT, WIDTH>(a, a_row, depth, b, b_row, c, c_row, add);
}

// c[rows, columns] = a[rows, depth] · b, or is increased by it. Rows of c are padded to whole vectors.
template <class T>
void multiply(const T* a, Int a_row, Int rows, const Matrix<T>& b, T* c, Int c_row, bool add = false) {
    const Int lanes = Lanes<T>::count;
    for (Int column = 0; column < b.columns; column += WIDE * lanes) {
        const Int width = std::min<Int>(WIDE, (b.columns - column + lanes - 1) / lanes);
        const T* panel = b.stride ? b.data + column : b.data + column * b.depth;
        const Int b_row = b.stride ? b.stride : width * lanes;
        for (Int row = 0, height; row < rows; row += height) {
            const Int tiles = (rows - row + HIGH - 1) / HIGH;
            height = (rows - row + tiles - 1) / tiles;  // the rows are shared evenly
            any_tile<T>(height, width, a + row * a_row, a_row, b.depth, panel, b_row,
                        c + row * c_row + column, c_row, add);
        }
    }
}

// A copy of a matrix [depth, columns] in panels, its last columns padded with 0.
template <class T>
Memory<T> panels(const T* from, Int depth, Int columns) {
    Memory<T> to = memory<T>(depth * padded<T>(columns));
    const Int most = WIDE * Lanes<T>::count;
    for (Int column = 0; column < columns; column += most) {
        const Int width = std::min(most, padded<T>(columns) - column), real = std::min(most, columns - column);
        for (Int k = 0; k < depth; ++k)
            std::copy_n(from + k * columns + column, real, to.get() + column * depth + k * width);
    }
    return to;
}

}  // namespace
