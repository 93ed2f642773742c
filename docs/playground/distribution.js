"use strict";
// The page on which a verifier's distribution grows: boxes, the exact verdict, and rounds that are drawn.
// Its data, DISTRIBUTION, is written when the book is built.

(() => {
  const { rounds, places, verifiers } = DISTRIBUTION;
  const get = (id) => document.getElementById(`dist-${id}`);
  const boxes = [get("test"), get("residual")];
  const each = (name, work) => document.querySelectorAll(`.dist-place:not([hidden]) .dist-${name}`).forEach(work);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches; // then all rounds are drawn at once
  let running; // what draws in the run that goes on

  function judge(rule, { p, q }) {
    const exact = enumerate(rule, q);
    const damage = totalVariation(exact, p);
    get("verdict").textContent = `${damage < 1e-12 ? "Lossless" : "Not lossless"}: over every branch, the total variation to the target's distribution is ${damage.toPrecision(2)}. It accepts ${sum(combine(multiply, q, rule.accepts)).toFixed(4)} of the drafted tokens; a lossless verifier accepts at most ${sum(FUNCTIONS.min([p, q])).toFixed(4)}.`;
    each("exact", (cell, id) => { cell.textContent = exact[id].toFixed(6); });
  }

  function play(rule, { q, limits }) {
    const numbers = (running = numbersFrom(get("seed").value));
    const counts = q.map(() => 0);
    const frame = () => {
      if (running !== numbers) return;
      for (let i = 0; i < (still ? rounds : 400); i += 1) counts[playRound(rule, q, numbers)] += 1;
      each("bar", (bar, id) => bar.setAttribute("width", `${100 * Math.sqrt(counts[id] / rounds)}%`));
      each("count", (cell, id) => { cell.textContent = counts[id]; });
      if (sum(counts) < rounds) return setTimeout(frame, 35);
      const outside = counts.map((count, id) => count < limits[id][0] || count > limits[id][1]);
      each("where", (cell, id) => { cell.textContent = outside[id] ? "■ outside" : "inside"; });
      get("drawn").textContent = `${rounds} rounds: ${sum(outside)} of ${counts.length} counts outside.`;
    };
    frame();
  }

  function update() {
    const chosen = verifiers[get("verifier").value];
    for (const box of boxes) box.value = chosen?.[box.name] ?? box.value;
    get("about").textContent = chosen?.about;
    try {
      const place = places[get("place").value];
      if (!get("seed").checkValidity()) throw new Error(`Seed: ${get("seed").validationMessage}`);
      const [test, residual] = boxes.map((box, i) => parseFormula(box.value, ["u", "p", "q", "x"].slice(i), box.labels[0].textContent));
      const rule = readRule(test, residual, place);
      places.forEach((one, at) => { get(`place-${at}`).hidden = one !== place; });
      judge(rule, place);
      play(rule, place);
      get("fault").textContent = "";
    } catch (error) {
      get("fault").textContent = error.message;
    }
  }

  get("form").oninput = ({ target }) => {
    if (boxes.includes(target)) get("verifier").value = "yours";
    update();
  };
  get("play").onclick = update;
  update();
})();
