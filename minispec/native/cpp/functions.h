// Functions of single numbers and of distributions.
#pragma once

#include <cmath>
#include <limits>

#include "vectors.h"

namespace {

// e^x, lane by lane.
Vector<double> exponential(Vector<double> x) {
    for (Int i = 0; i < LANES<double>; ++i) x[i] = std::exp(x[i]);
    return x;
}

// e^x = 2^n · e^r with n whole and |r| ≤ ln(2) / 2: n goes into the exponent's bits, and e^r is a short sum.
Vector<float> exponential(Vector<float> x) {
    const Vector<float> low = Vector<float>{} - 87.0f, high = Vector<float>{} + 88.0f;
    const auto underflows = x < low;  // too small for this type
    x = x > high ? high : underflows ? low : x;
    const float shift = 12582912.0f;  // 1.5 · 2^23: above it there are no bits for a fraction
    const Vector<float> n = (x * 1.44269504f + shift) - shift;
    const Vector<float> r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector<float> sum = Vector<float>{} + 1.0f / 5040;
    for (float next : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) sum = sum * r + next;
    const auto power = (__builtin_convertvector(n, Vector<std::int32_t>) + 127) << 23;
    return underflows ? Vector<float>{} : sum * load<float>(&power);
}

// Mixes 64 bits so that neighbours come out unrelated: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
inline std::uint64_t scramble(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// Turns `count` scores into a distribution, in place; what comes after them, up to whole vectors, becomes 0. They are
// multiplied by `sharpness` first, which is above 0 and finite: 0 · ∞ would be no number.
template <class T>
void softmax(T* scores, Int count, T sharpness) {
    const Int lanes = LANES<T>, end = padded<T>(count);
    std::fill(scores + count, scores + end, -std::numeric_limits<T>::infinity());
    Vector<T> highest = load<T>(scores), sums = {};
    for (Int i = lanes; i < end; i += lanes) highest = larger(load<T>(scores + i), highest);
    const T most = across<T>(highest, larger);
    for (Int i = 0; i < end; i += lanes) {
        const Vector<T> powers = exponential((load<T>(scores + i) - most) * sharpness);
        sums += powers;
        store(scores + i, powers);
    }
    const T scale = 1 / across<T>(sums, plus);
    for (Int i = 0; i < end; i += lanes) store(scores + i, load<T>(scores + i) * scale);
}

// Where the largest of `count` numbers is, the first on ties; none of them is NaN.
template <class T>
Int largest(const T* numbers, Int count) {
    const Int lanes = LANES<T>, end = count / lanes * lanes;
    T most = numbers[0];
    if (end > 0) {
        auto highest = load<T>(numbers);
        for (Int i = lanes; i < end; i += lanes) highest = larger(load<T>(numbers + i), highest);
        most = across<T>(highest, larger);
    }
    for (Int i = end; i < count; ++i) most = larger(numbers[i], most);
    return std::find(numbers, numbers + count, most) - numbers;
}

// Whether logits can be made a distribution: none of them is NaN or plus infinity, and not all are minus infinity.
template <class T>
bool can_be_distribution(const T* logits, Int vocab) {
    const T most = std::numeric_limits<T>::infinity();
    Int some = 0, wrong = 0;
    for (Int id = 0; id < vocab; ++id) some |= logits[id] > -most, wrong |= !(logits[id] < most);
    return some && !wrong;
}

}  // namespace
