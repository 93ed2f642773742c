// The native path: the forward of `GPT` for decoding, written out. `model.py` is the one to read first;
// here is the same arithmetic where every loop can be seen.
//
// A small model's weights lie in a processor's caches. To read them takes most of the time of a forward over
// one token. A forward over seven tokens reads them once as well, if each weight that has been fetched is
// multiplied with all seven tokens before the next one comes. That is what `tile` does, and why a draft can be
// checked in little more than the time of one token.
//
// Names: m tokens in all, n of them in each row of the batch, D the width, V the vocabulary.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace {

using Int = std::int64_t;

// How many bytes the processor handles at once. A tile is up to HIGH rows by WIDE such vectors: its sums must fit
// into the registers, of which there are 32 or 16, beside the weights that they are made of.
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

template <class T>
using Room = std::unique_ptr<T[], decltype(&std::free)>;

// Memory for `count` numbers, all 0, at an address that vectors like.
template <class T>
Room<T> room(Int count) {
    const std::size_t bytes = (count * sizeof(T) / 64 + 1) * 64;
    void* taken = std::aligned_alloc(64, bytes);
    std::memset(taken, 0, bytes);
    return Room<T>(static_cast<T*>(taken), &std::free);
}

// ---------------------------------------------------------------------------------------------- products

// A matrix [depth, columns] to multiply with. `stride` is the distance between its rows; 0: it lies in panels
// of WIDE vectors, one behind the other, so that it is read from its first number to its last.
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
Room<T> panels(const T* from, Int depth, Int columns) {
    Room<T> to = room<T>(depth * padded<T>(columns));
    const Int most = WIDE * Lanes<T>::count;
    for (Int column = 0; column < columns; column += most) {
        const Int width = std::min(most, padded<T>(columns) - column), real = std::min(most, columns - column);
        for (Int k = 0; k < depth; ++k)
            std::copy_n(from + k * columns + column, real, to.get() + column * depth + k * width);
    }
    return to;
}

// -------------------------------------------------------------------------------------------- functions

// e^x, lane by lane.
Lanes<double>::Vector exponential(Lanes<double>::Vector x) {
    for (Int i = 0; i < Lanes<double>::count; ++i) x[i] = std::exp(x[i]);
    return x;
}

// e^x = 2^n · e^r with n whole and |r| ≤ ln(2) / 2: n goes into the exponent's bits, and e^r is a short sum.
Lanes<float>::Vector exponential(Lanes<float>::Vector x) {
    typedef std::int32_t Whole __attribute__((vector_size(BYTES)));
    typedef Lanes<float>::Vector Vector;
    const Vector low = Vector{} - 87.0f, high = Vector{} + 88.0f;
    const auto nothing = x < low;  // too small for this type
    x = x > high ? high : nothing ? low : x;
    const float shift = 12582912.0f;  // 1.5 · 2^23: behind it there is no room for a fraction
    const Vector n = (x * 1.44269504f + shift) - shift;
    const Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector sum = Vector{} + 1.0f / 5040;
    for (float next : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) sum = sum * r + next;
    const Whole power = (__builtin_convertvector(n, Whole) + 127) << 23;
    Vector scale;
    std::memcpy(&scale, &power, BYTES);
    return nothing ? Vector{} : sum * scale;
}

// Turns `count` scores into a law, in place; what lies behind them, up to whole vectors, becomes 0.
template <class T>
void softmax(T* scores, Int count, T warmth) {
    typedef typename Lanes<T>::Vector Vector;
    const Int lanes = Lanes<T>::count, end = padded<T>(count);
    std::fill(scores + count, scores + end, -std::numeric_limits<T>::infinity());
    Vector highest = load(scores), sums = {};
    for (Int i = lanes; i < end; i += lanes) highest = load(scores + i) > highest ? load(scores + i) : highest;
    const T most = across<T>(highest, [](auto one, auto other) { return one > other ? one : other; });
    for (Int i = 0; i < end; i += lanes) {
        const Vector risen = exponential((load(scores + i) - most) * (1 / warmth));
        sums += risen;
        std::memcpy(scores + i, &risen, BYTES);
    }
    const T scale = 1 / across<T>(sums, [](auto one, auto other) { return one + other; });
    for (Int i = 0; i < end; i += lanes) {
        const Vector share = load(scores + i) * scale;
        std::memcpy(scores + i, &share, BYTES);
    }
}

// The first id of the cumulative sum that exceeds `number` of its total, as `SeededRng` draws.
template <class T>
Int pick(const T* law, Int vocab, double number) {
    double total = 0, sum = 0;
    for (Int id = 0; id < vocab; ++id) total += law[id];
    const double threshold = std::min(number * total, std::nextafter(total, 0.0));
    for (Int id = 0; id < vocab; ++id)
        if ((sum += law[id]) > threshold) return id;
    return vocab - 1;
}

// ------------------------------------------------------------------------------------------------ model

struct Sizes {
    Int vocab, layers, width, heads, kv_heads, head_dim, ffn, capacity, groups, slots, deep;
    double little;  // what a norm adds to the sum of squares
};

template <class T>
struct Layer {
    Room<T> qkv, out, gate_up, down;  // in panels; gains and the scores' scale are folded in
};

template <class T>
struct Model {
    Sizes s;
    std::vector<T> embedding, cos, sin;  // [V, D], [capacity, head_dim / 2]
    std::vector<Layer<T>> layers;
    Room<T> head{nullptr, &std::free};
};

// Where one row's keys [head_dim, slots] and values [slots, deep] of one layer and head lie in a cache.
// Keys lie across, so that the scores of neighbouring slots are computed together.
template <class T>
struct Place {
    T *keys, *values;

    Place(const Sizes& s, T* cache, Int rows, Int layer, Int row, Int head) {
        const Int each = s.head_dim * s.slots + s.slots * s.deep;
        keys = cache + ((layer * rows + row) * s.kv_heads + head) * each;
        values = keys + s.head_dim * s.slots;
    }
};

// The rooms that one forward over m tokens works in; every row of them is padded to whole vectors.
template <class T>
struct Desk {
    Int D, Q, F;
    Room<T> x, normed, qkv, seen, gates, query, scores, found;

    Desk(const Sizes& s, Int m, Int n)
        : D(padded<T>(s.width)),
          Q(padded<T>((s.heads + 2 * s.kv_heads) * s.head_dim)),
          F(padded<T>(2 * s.ffn)),
          x(room<T>(m * D)),
          normed(room<T>(m * D)),
          qkv(room<T>(m * Q)),
          seen(room<T>(m * D)),
          gates(room<T>(m * F)),
          query(room<T>(n * s.groups * s.head_dim)),
          scores(room<T>(n * s.groups * s.slots)),
          found(room<T>(n * s.groups * s.deep)) {}
};

// Divides every token's vector by its length; see `lean.py` for what became of the gain and of √D.
template <class T>
void norm(const Sizes& s, const T* x, T* to, Int m, Int D) {
    for (Int i = 0; i < m; ++i, x += D, to += D) {
        typename Lanes<T>::Vector sums = {};
        for (Int d = 0; d < D; d += Lanes<T>::count) sums += load(x + d) * load(x + d);
        const T scale = 1 / std::sqrt(across<T>(sums, [](auto one, auto other) { return one + other; }) + static_cast<T>(s.little));
        for (Int d = 0; d < D; ++d) to[d] = x[d] * scale;
    }
}

// Turns pairs of neighbours by the position's angles (Su et al. 2021, equation 15).
template <class T>
void turn(const Model<T>& model, T* head, Int position, T* to, Int step) {
    const Int half = model.s.head_dim / 2;
    const T *cos = model.cos.data() + position * half, *sin = model.sin.data() + position * half;
    for (Int i = 0; i < half; ++i) {
        const T real = head[2 * i], imaginary = head[2 * i + 1];
        to[2 * i * step] = real * cos[i] - imaginary * sin[i];
        to[(2 * i + 1) * step] = real * sin[i] + imaginary * cos[i];
    }
}

// Lets the n tokens of one row, which follow `start` others, look at themselves and what came before.
template <class T>
void attend(const Model<T>& model, Desk<T>& desk, T* qkv, T* seen, Int n, Int start, Place<T> place, Int head) {
    const Sizes& s = model.s;
    const Int end = start + n, rows = n * s.groups, key = (s.heads + head) * s.head_dim;
    for (Int i = 0; i < n; ++i) {
        T* token = qkv + i * desk.Q;
        turn(model, token + key, start + i, place.keys + start + i, s.slots);
        std::copy_n(token + key + s.kv_heads * s.head_dim, s.head_dim, place.values + (start + i) * s.deep);
        for (Int g = 0; g < s.groups; ++g)  // heads that share keys are further rows of queries
            turn(model, token + (head * s.groups + g) * s.head_dim, start + i,
                 desk.query.get() + (i * s.groups + g) * s.head_dim, 1);
    }
    T* scores = desk.scores.get();
    multiply(desk.query.get(), s.head_dim, rows, {place.keys, s.head_dim, end, s.slots}, scores, s.slots);
    for (Int row = 0; row < rows; ++row) {
        const Int visible = start + row / s.groups + 1;
        softmax<T>(scores + row * s.slots, visible, 1);
        std::fill(scores + row * s.slots + visible, scores + row * s.slots + padded<T>(end), T(0));
    }
    multiply(scores, s.slots, rows, {place.values, end, s.head_dim, s.deep}, desk.found.get(), s.deep);
    for (Int row = 0; row < rows; ++row)
        std::copy_n(desk.found.get() + row * s.deep, s.head_dim,
                    seen + row / s.groups * desk.D + (head * s.groups + row % s.groups) * s.head_dim);
}

// silu(gate) · up, for gates [2 · ffn] whose first half is the gate; the result takes its place.
template <class T>
void activate(T* gates, Int ffn) {
    const Int lanes = Lanes<T>::count;
    Int i = 0;
    for (; i + lanes <= ffn; i += lanes) {
        const auto gate = load(gates + i);
        const auto active = gate / (exponential(-gate) + T(1)) * load(gates + ffn + i);
        std::memcpy(gates + i, &active, BYTES);
    }
    for (; i < ffn; ++i) gates[i] = gates[i] / (std::exp(-gates[i]) + T(1)) * gates[ffn + i];
}

// Reads tokens [rows, n], row b behind its first starts[b] tokens; their keys and values go into the cache.
// The stream behind the last norm stays on the desk. A row's tokens past the context's end mean nothing.
template <class T>
void read(const Model<T>& model, Desk<T>& desk, const Int* tokens, Int rows, Int n, const Int* starts, T* cache) {
    const Sizes& s = model.s;
    const Int m = rows * n, D = desk.D;
    for (Int i = 0; i < m; ++i)
        std::copy_n(model.embedding.data() + tokens[i] * s.width, s.width, desk.x.get() + i * D);
    for (Int l = 0; l < s.layers; ++l) {
        const Layer<T>& layer = model.layers[l];
        const Int columns = (s.heads + 2 * s.kv_heads) * s.head_dim;
        norm(s, desk.x.get(), desk.normed.get(), m, D);
        multiply(desk.normed.get(), D, m, {layer.qkv.get(), s.width, columns, 0}, desk.qkv.get(), desk.Q);
        for (Int row = 0; row < rows; ++row)
            for (Int head = 0; head < s.kv_heads; ++head)
                attend(model, desk, desk.qkv.get() + row * n * desk.Q, desk.seen.get() + row * n * D,
                       std::min(n, s.capacity - starts[row]), starts[row],
                       Place<T>(s, cache, rows, l, row, head), head);
        multiply(desk.seen.get(), D, m, {layer.out.get(), s.width, s.width, 0}, desk.x.get(), D, true);
        norm(s, desk.x.get(), desk.normed.get(), m, D);
        multiply(desk.normed.get(), D, m, {layer.gate_up.get(), s.width, 2 * s.ffn, 0}, desk.gates.get(), desk.F);
        for (Int i = 0; i < m; ++i) activate(desk.gates.get() + i * desk.F, s.ffn);
        multiply(desk.gates.get(), desk.F, m, {layer.down.get(), s.ffn, s.width, 0}, desk.x.get(), D, true);
    }
    norm(s, desk.x.get(), desk.normed.get(), m, D);
}

// Writes the logits [m, V] of a stream [m, D].
template <class T>
void logits(const Model<T>& model, const T* stream, Int D, Int m, T* to) {
    const Int V = model.s.vocab, wide = padded<T>(V);
    Room<T> made = room<T>(m * wide);
    multiply(stream, D, m, {model.head.get(), model.s.width, V, 0}, made.get(), wide);
    for (Int i = 0; i < m; ++i) std::copy_n(made.get() + i * wide, V, to + i * V);
}

// Takes `k` draft steps in one row: forward, law, draw. laws [k, V] and drawn [k] are the results.
template <class T>
void draft(const Model<T>& model, Int token, Int start, Int k, double temperature, const double* numbers,
           T* cache, T* laws, Int* drawn) {
    const Int V = model.s.vocab;
    Desk<T> desk(model.s, 1, 1);
    Room<T> law = room<T>(padded<T>(V));
    for (Int i = 0; i < k; ++i, ++start, laws += V) {
        read(model, desk, &token, 1, 1, &start, cache);
        multiply(desk.normed.get(), desk.D, 1, {model.head.get(), model.s.width, V, 0}, law.get(), padded<T>(V));
        if (temperature > 0) {
            softmax<T>(law.get(), V, static_cast<T>(temperature));
            token = pick(law.get(), V, numbers[i]);
        } else {
            token = std::max_element(law.get(), law.get() + V) - law.get();  // the lowest id on ties
            std::fill_n(law.get(), V, T(0));
            law[token] = 1;
        }
        std::copy_n(law.get(), V, laws);
        drawn[i] = token;
    }
}

// Packs weights as `LeanGPT.weights` lists them, [in, out] each, then cosines and sines.
template <class T>
Model<T>* packed(const Int* sizes, double little, const T* const* weights) {
    auto* model = new Model<T>;
    Sizes& s = model->s;
    s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[3] / sizes[4],
         padded<T>(sizes[7]), padded<T>(sizes[5]), little};
    const T* const* next = weights;
    model->embedding.assign(*next, *next + s.vocab * s.width);
    ++next;
    for (Int l = 0; l < s.layers; ++l, next += 4)
        model->layers.push_back({panels(next[0], s.width, (s.heads + 2 * s.kv_heads) * s.head_dim),
                                 panels(next[1], s.width, s.width), panels(next[2], s.width, 2 * s.ffn),
                                 panels(next[3], s.ffn, s.width)});
    model->head = panels(*next++, s.width, s.vocab);
    const Int angles = s.capacity * s.head_dim / 2;
    model->cos.assign(*next, *next + angles);
    ++next;
    model->sin.assign(*next, *next + angles);
    return model;
}

// Whether there is a token of every id.
template <class T>
bool known(const Model<T>& model, const Int* tokens, Int count) {
    return std::all_of(tokens, tokens + count, [&](Int id) { return 0 <= id && id < model.s.vocab; });
}

template <class T>
Int hidden_of(const Model<T>& model, const Int* tokens, Int rows, Int n, const Int* starts, T* cache, T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Desk<T> desk(model.s, rows * n, n);
    read(model, desk, tokens, rows, n, starts, cache);
    for (Int i = 0; i < rows * n; ++i)
        std::copy_n(desk.normed.get() + i * desk.D, model.s.width, to + i * model.s.width);
    return 1;
}

template <class T>
Int logits_of(const Model<T>& model, const Int* tokens, Int rows, Int n, const Int* starts, T* cache, T* to) {
    if (!known(model, tokens, rows * n)) return 0;
    Desk<T> desk(model.s, rows * n, n);
    read(model, desk, tokens, rows, n, starts, cache);
    logits(model, desk.normed.get(), desk.D, rows * n, to);
    return 1;
}

template <class T>
Int cache_of(const Sizes& s) {
    return s.layers * s.kv_heads * (s.head_dim * s.slots + s.slots * s.deep);
}

}  // namespace

// What Python calls, for float and for double. Those that read tokens return 0 if one of them is none.
#define NATIVE(T, NAME)                                                                                      \
    extern "C" void* new_##NAME(const Int* sizes, double little, const T* const* weights) {                  \
        return packed<T>(sizes, little, weights);                                                            \
    }                                                                                                        \
    extern "C" void free_##NAME(Model<T>* m) { delete m; }                                                   \
    extern "C" Int cache_##NAME(Model<T>* m) { return cache_of<T>(m->s); }                                   \
    extern "C" Int hidden_##NAME(Model<T>* m, Int* tokens, Int rows, Int n, Int* starts, T* cache, T* to) {  \
        return hidden_of(*m, tokens, rows, n, starts, cache, to);                                            \
    }                                                                                                        \
    extern "C" Int logits_##NAME(Model<T>* m, Int* tokens, Int rows, Int n, Int* starts, T* cache, T* to) {  \
        return logits_of(*m, tokens, rows, n, starts, cache, to);                                            \
    }                                                                                                        \
    extern "C" void draft_##NAME(Model<T>* m, Int token, Int start, Int k, double temperature,               \
                                 double* numbers, T* cache, T* laws, Int* drawn) {                           \
        draft(*m, token, start, k, temperature, numbers, cache, laws, drawn);                                \
    }

NATIVE(float, f32)
NATIVE(double, f64)
