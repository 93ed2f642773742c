"use strict";
// Exercises in the page: blanks are formulas. Cases, what should come out, what typical wrong answers give and
// all that is said come from minispec/classroom, in EXERCISES, which is written when the book is built.

// As with tensors, a number divided by 0 is more than all others. 0 / 0 is no number here either.
OPERATORS["/"] = [3, (a, b) => Math.min(a / b, Number.MAX_VALUE)];

// The one of the exercise before.
FUNCTIONS.residual = ([p, q]) => {
  const excess = combine((a, b) => Math.max(0, a - b), p, q);
  return sum(excess) > 0 ? norm(excess) : p;
};

// What the blanks stand in, by exercise: (blanks, the arguments of a case) -> what comes out.
const PROGRAMS = {
  "verify-greedily"([limit, agrees, kept, token], drafted, best) {
    const values = { drafted, best, accepted: 0 };
    while (values.accepted < Math.min(limit(values), 99) && agrees(values)) values.accepted += 1;
    return [kept(values), token(values)];
  },
  residual([excess, some, none], ...weights) {
    const [p, q] = weights.map(norm);
    const values = { p, q, excess: excess({ p, q }) };
    values.mass = sum([values.excess]);
    return (values.mass > 0 ? some : none)(values);
  },
  "accept-one-row"([test, kept, correction, bonus], tokens, drafts, targets) {
    const target_dists = targets.map(norm);
    const outcomes = {};
    let alive = 1; // the probability that nothing was rejected so far
    const emit = (ids, dist, share) => [dist].flat().forEach((y, id) => {
      const text = `\n    [${[...ids, id].join(", ")}] with probability `;
      if (share * y) outcomes[text] = (outcomes[text] ?? 0) + share * y;
    });
    tokens.forEach((x, i) => {
      const values = { i, x, p: target_dists[i], q: norm(drafts[i]), target_dists };
      const passes = probabilityOf((u) => test({ ...values, u }));
      if (passes < 1) emit(tokens.slice(0, kept(values)), correction(values), alive * (1 - passes));
      alive *= passes;
    });
    if (alive) emit(tokens, bonus({ target_dists }), alive);
    return Object.keys(outcomes).sort().map((text) => text + rounded(outcomes[text]));
  },
  "cache-lengths": (blanks, cached, k, accepted) => blanks.map((blank) => blank({ cached, k, accepted })),
};

/** Rounds a number to what texts of results say. */
const rounded = (y) => Number(Number(y).toFixed(9));

/** Judges an answer as `Exercise.judge` does, by texts of what comes out: [verdict, message, detail]. */
function judgeAnswer({ key, cases, expected, wrong, praise }, blanks) {
  const faults = [];
  const results = cases.map(({ given }, i) => {
    try {
      return [PROGRAMS[key](blanks, ...given)].flat(2).map((y) => (y.length ? y : rounded(y))).join(", ");
    } catch (error) {
      faults[i] = error.message;
      return "nothing";
    }
  });
  const numbers = [...cases.keys()];
  const failing = numbers.filter((i) => results[i] !== expected[i]);
  if (!failing.length) return ["right", praise];
  const fits = (tried) => wrong.find(({ outcomes }) => tried.every((i) => results[i] === outcomes[i]));
  const known = fits(numbers) ?? fits(failing);
  const [first] = failing;
  const detail = `${cases[first].text}\n  should be: ${expected[first]}\n  came out:  ${faults[first] ?? results[first]}`;
  return ["wrong", known?.message ?? faults[first] ?? EXERCISES.other, detail];
}

for (const exercise of EXERCISES.exercises) {
  const form = document.getElementById(`blanks-${exercise.key}`);
  const boxes = [...form.querySelectorAll("input")];
  const [say, detail] = form.querySelectorAll("output > *");
  const answer = () => {
    if (!boxes.every((box) => box.value.trim())) return ["blank", EXERCISES.blank];
    try {
      return judgeAnswer(exercise, boxes.map((box, i) => parseFormula(box.value, exercise.names[i], `Blank ${i + 1}`)));
    } catch (error) {
      return ["wrong", error.message];
    }
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    const [verdict, message, more] = answer();
    form.dataset.verdict = verdict;
    say.textContent = `${EXERCISES.headings[verdict]}: ${exercise.title}. ${message}`;
    detail.textContent = more;
  };
  try {
    for (const box of boxes) box.value = localStorage.getItem(box.id);
    form.oninput = ({ target }) => localStorage.setItem(target.id, target.value);
  } catch {
    // A browser that keeps nothing still checks.
  }
}
