"use strict";
// A tiny language for formulas: numbers, names, + - * / ( ), comparisons, [index], min, max, sum, norm, len.
// A text becomes functions that only compute; nothing is ever handed to the browser as code. There are no
// loops and a text is short, so every formula ends.

const MOST_CHARACTERS = 200;
const TOKEN = "[\\d.]+(e-?\\d+)?|\\w+|==|\\S";

/** Applies an operation on numbers to numbers or vectors, entry by entry; a number goes with every entry. */
function combine(operation, a, b, refuse) {
  if (a.map && b.map && a.length !== b.length) refuse(`vectors of ${a.length} and ${b.length} entries do not fit`);
  if (a.map ?? b.map) return (a.map ? a : b).map((_, i) => combine(operation, a[i] ?? a, b[i] ?? b, refuse));
  const result = operation(a, b);
  return Number.isFinite(Number(result)) ? result : refuse(`${a} and ${b} make no number: is it a division by 0?`);
}

const add = (a, b) => a + b;
const multiply = (a, b) => a * b;
const divide = (a, b) => a / b;
const sum = (vector) => vector.flat(2).reduce(add, 0);
const norm = (vector) => combine(divide, vector, sum(vector));
const folded = (operation) => (given, refuse) => given.reduce((a, b) => combine(operation, a, b, refuse));
const FUNCTIONS = { // each takes the list of what is given to it, and what refuses that
  __proto__: null,
  min: folded(Math.min),
  max: folded(Math.max),
  sum,
  norm: (given, refuse) => combine(divide, given[0], sum(given), refuse),
  len: (given) => given.flat().length,
  "(": folded(() => NaN), // brackets around one value; several are none
};
const OPERATORS = { // how strongly each binds, and what it does
  __proto__: null,
  "<": [1, (a, b) => a < b],
  ">": [1, (a, b) => a > b],
  "==": [1, (a, b) => a === b],
  "+": [2, add],
  "-": [2, (a, b) => a - b],
  "*": [3, multiply],
  "/": [3, divide],
};

/**
 * Parses a formula that may use these names: it becomes a function from their values to its own. Faults, now and
 * then, are one line that begins with the name of the box and says at which character.
 */
function parseFormula(text, names, box) {
  const tokens = [...text.slice(0, MOST_CHARACTERS).matchAll(TOKEN), { index: text.length }];
  let next = 0;
  const seen = () => tokens[next][0];
  const take = (wanted) => seen() === wanted && (next += 1);
  const refusal = (at = tokens[next].index) => (message) => { throw new Error(`${box}: ${message} (character ${at + 1})`); };

  function formula(strength) {
    let left = operand();
    while (OPERATORS[seen()]?.[0] >= strength) {
      const refuse = refusal();
      const before = left;
      const [binding, operation] = OPERATORS[seen()];
      next += 1;
      const after = formula(binding + 1);
      left = (values) => combine(operation, before(values), after(values), refuse);
      if (binding === 1) break; // no chain of comparisons
    }
    return left;
  }

  function operand() {
    const refuse = refusal();
    const word = seen() ?? refuse("it ends too early");
    next += 1;
    if (word === "-") return negative(operand());
    if (names.includes(word)) return indexed((values) => values[word]);
    if (Number.isFinite(Number(word))) return () => Number(word);
    const apply = FUNCTIONS[word] ?? refuse(`there is no ${word} here; there are ${[...names, ...Object.keys(FUNCTIONS)].join(" ")}`);
    if (word !== "(" && !take("(")) refuse(`${word} needs brackets`);
    const parts = until(")", refuse);
    return indexed((values) => apply(parts.map((part) => part(values)), refuse));
  }

  const negative = (inner) => (values) => combine(multiply, -1, inner(values));

  function until(bracket, refuse) {
    const parts = [];
    do parts.push(formula(1)); while (take(","));
    return take(bracket) ? parts : refuse(`no ${bracket} ends what begins here`);
  }

  function indexed(vector) {
    const refuse = refusal();
    if (!take("[")) return vector;
    const [index] = until("]", refuse);
    return indexed((values) => {
      const whole = vector(values);
      const place = index(values);
      return whole[place < 0 ? place + whole.length : place] ?? refuse(`there is no entry ${place}`);
    });
  }

  const whole = formula(1);
  if (text.length > MOST_CHARACTERS) refusal()("a formula has at most 200 characters");
  return seen() ? refusal()(`${seen()} cannot stand here`) : whole;
}

/** Returns how probably a test of u holds, u being uniform: halves 256 parts on where it changes, to the last bit. */
function probabilityOf(test, low = 0, high = 1, depth = 0) {
  const holds = test(low);
  if (typeof holds !== "boolean") throw new Error("a test compares two numbers, such as u < p[x]");
  if (depth > 7 && (depth > 59 || holds === test(high))) return holds * (high - low);
  const middle = (low + high) / 2;
  return probabilityOf(test, low, middle, depth + 1) + probabilityOf(test, middle, high, depth + 1);
}
