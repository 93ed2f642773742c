// What a page needs besides the native backend: a hash of its data, random numbers, an end instead of exceptions.

#include <vector>

#include "../../minispec/native/cpp/functions.h"

namespace {

using Word = std::uint32_t;

constexpr int ROUNDS = 64;  // of a block, which has as many bytes
constexpr int STATE = 8;    // words

// The first 32 bits of a number's fraction.
Word fraction(double number) { return static_cast<Word>((number - std::floor(number)) * 0x1p32); }

Word turned(Word x, int by) { return x >> by | x << (32 - by); }

// Makes a block [64 bytes] part of a hash.
void mix(Word* hash, const unsigned char* block, const Word* constants) {
    Word words[ROUNDS], state[STATE];
    std::memcpy(state, hash, sizeof state);
    auto& [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < ROUNDS; ++i) {
        if (i < 16) {
            words[i] = block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
        } else {
            const Word x = words[i - 15], y = words[i - 2];
            words[i] = words[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ x >> 3) + words[i - 7] +
                       (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
        }
        const Word one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + words[i];
        const Word two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        std::memmove(state + 1, state, sizeof(Word) * (STATE - 1));
        e += one;
        a = one + two;
    }
    for (int i = 0; i < STATE; ++i) hash[i] += state[i];
}

}  // namespace

extern "C" {

// The SHA-256 of `count` bytes (FIPS 180-4), to hash: 32 bytes, as they are written. The browser's own does not answer
// at once, and not on a page that came without encryption.
void page_hash(const unsigned char* bytes, std::uint32_t count, unsigned char* hash) {
    Word constants[ROUNDS], state[STATE];
    for (int prime = 2, found = 0; found < ROUNDS; ++prime) {
        int divisor = 2;
        while (prime % divisor) ++divisor;
        if (divisor < prime) continue;
        if (found < STATE) state[found] = fraction(std::sqrt(prime));
        constants[found++] = fraction(std::cbrt(prime));
    }
    std::vector<unsigned char> padded((count + 9 + ROUNDS - 1) / ROUNDS * ROUNDS);
    std::memcpy(padded.data(), bytes, count);
    padded[count] = 0x80;
    for (int i = 0; i < 8; ++i) padded[padded.size() - 1 - i] = std::uint64_t(count) * 8 >> 8 * i;
    for (std::size_t begin = 0; begin < padded.size(); begin += ROUNDS) mix(state, padded.data() + begin, constants);
    for (int i = 0; i < 4 * STATE; ++i) hash[i] = state[i / 4] >> (24 - i % 4 * 8);
}

// The number in [0, 1) that a seed has at a place, counted from 0.
double page_number(std::int64_t seed, std::int64_t place) { return (scramble(scramble(seed) + place) >> 11) * 0x1p-53; }

// WebAssembly as it is built here has no exceptions: a throw ends the engine. The library throws only where the system
// refuses memory.
void* __cxa_allocate_exception(std::size_t) { __builtin_trap(); }
void __cxa_throw(void*, void*, void (*)(void*)) { __builtin_trap(); }

}  // extern "C"
