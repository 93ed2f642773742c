"use strict";
// A verifier of one drafted token, made of two formulas: what it does exactly, and rounds that are drawn.

/** Reads two formulas at a place {p, q, words}: {accepts [V], residuals [V][V]}; Error where it is no verifier. */
function readRule(test, residual, { p, q, words }) {
  const accepts = q.map((_, x) => probabilityOf((u) => test({ p, q, x, u })));
  const residuals = accepts.map((accept, x) => {
    const dist = accept < 1 ? residual({ p, q, x }) : p;
    const fault = dist.length !== p.length ? "is no vector, as p is"
      : dist.some((y) => y < 0) ? "has something below 0"
        : Math.abs(sum(dist) - 1) > 1e-9 && `sums to ${sum(dist)}, not to 1: norm(…) scales it`;
    if (fault) throw new Error(`Residual: it ${fault}, where x is ${x} (${words[x]})`);
    return dist;
  });
  return { accepts, residuals };
}

/** Enumerates what comes out, drafted token by drafted token: the distribution [V]. */
function enumerate({ accepts, residuals }, q) {
  const replaced = (x) => combine(multiply, residuals[x], q[x] * (1 - accepts[x]));
  return q.reduce((dist, _, x) => combine(add, dist, replaced(x)), combine(multiply, q, accepts));
}

/** Returns half the sum of all differences of two distributions. */
const totalVariation = (a, b) => sum(combine((x, y) => Math.abs(x - y), a, b)) / 2;

/** Returns a generator of numbers in [0, 1) from a seed: Marsaglia's xorshift of 32 bits. */
function numbersFrom(seed) {
  let state = Math.imul(seed, 0x9e3779b1) ^ 0x6d2b79f5 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Draws from a distribution; its most probable entry where rounding left its sum below the number. */
function draw(dist, number) {
  let rest = number;
  const found = dist.findIndex((y) => (rest -= y) < 0);
  return found < 0 ? dist.indexOf(Math.max(...dist)) : found;
}

/** Plays one round: a token is drafted, and accepted or replaced. */
function playRound({ accepts, residuals }, q, next) {
  const x = draw(q, next());
  return next() < accepts[x] ? x : draw(residuals[x], next());
}
