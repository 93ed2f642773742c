// The playground: a text is decoded round by round, and each round is shown phase by phase.
//
// A game is a run: its settings, the rounds played so far, and `at`, how many phases are shown. A position is a place in
// a round: that of a drafted token, or the one after the last. What a reader typed is put into the page as text alone.
"use strict";
{
  const PHASES = 4; // of a round: draft, verify, decide, commit
  const PROPOSERS = { model: "The draft model proposes", ngram: "Look-up proposes", you: "You propose" };
  const ENDS = {
    eos: "The text ends with its end-of-sequence token.",
    cap: "The text has as many new tokens as were asked for.",
    context: "The context is full: the text can grow no further.",
  };
  const TOP = 6; // tokens with bars
  const LEAST = 5e-4; // of a probability that gets a bar
  const AHEAD = 24; // slots of a ruler after the committed ones
  const KS = [1, 2, 3, 4, 6, 8]; // that are timed
  const TIMED = { warmUp: 5, texts: 9, tokens: 128, forwards: 200, space: 32 };

  const find = (name) => document.getElementById(`play-${name}`);
  const tell = (name, text) => (find(name).textContent = text);
  const form = find("form");
  const typed = form.elements.draft;
  const boxes = [...form.elements].filter((box) => box.dataset.name && box !== typed);
  let engine;
  let game;
  let running = false;

  function make(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function mark(made, data) {
    Object.assign(made.dataset, data);
    return made;
  }

  const span = (...children) => make("span", {}, ...children);
  const track = (...children) => make("span", { className: "play-track" }, ...children);
  const stretch = (data, part) => mark(make("i", { style: `width:${100 * part}%` }), data);
  const chip = ({ id, ...data }) => mark(make("b", {}, piece(id)), data);
  const piece = (id) => (id === engine.tokenizer.end ? " <end>" : engine.tokenizer.piece(id));
  const quoted = (text) => JSON.stringify(text.slice(0, 40));
  const word = (id) => quoted(piece(id));
  const share = (value) => value.toFixed(value > 0 && value < 0.001 ? 5 : 3);

  // ---- Settings: each box says in its attributes what it takes

  function checked({ name, low, high, whole, choices }, value) {
    const found = value.trim() ? Number(value) : NaN;
    if (low && !(found >= low && found <= high && (!whole || Number.isInteger(found))))
      throw Error(`${name} must be ${whole ? "a whole" : "a"} number from ${low} to ${high}, not ${quoted(value)}.`);
    if (!low && value.length > high)
      throw Error(`${name} has ${value.length} characters; ${high} are the most.`);
    if (choices && !choices.split(" ").includes(value))
      throw Error(`${name} must be one of ${choices}, not ${quoted(value)}.`);
    return low ? found : value;
  }

  const settingsOf = (valueOf) => Object.fromEntries(boxes.map((box) => [box.name, checked(box.dataset, valueOf(box))]));
  const settingsNow = () => settingsOf((box) => box.value);

  function begin(settings, drafts = []) {
    const prompt = engine.tokenizer.encode(settings.prompt);
    const context = engine.target.maxLength;
    if (!prompt.length) throw Error("The prompt is empty: type at least one character.");
    if (prompt.length >= context)
      throw Error(`The prompt has ${prompt.length} tokens; the context holds ${context - 1} and a new one.`);
    if (settings.verifier === "greedy" && settings.temperature)
      throw Error("The greedy verifier needs temperature 0: set it to 0, or choose rejection.");
    const total = { emitted: 0, drafted: 0, accepted: 0, tested: 0, clock: 0, alone: 0 };
    const begun = { settings, prompt, drafts, total, rounds: [], alone: [], aloneClock: 0, at: 0, position: 0 };
    begun.play = engine.rounds(request(begun, settings.k, settings.most));
    begun.race = engine.alone(request(begun, 0, settings.most));
    return begun;
  }

  function request({ settings, prompt, drafts, rounds }, k, maxNewTokens) {
    const { verifier, temperature, topK, topP, seed } = settings;
    const yours = (most) => engine.tokenizer.encode(drafts[rounds.length] ?? "").slice(0, most);
    const you = { propose: (text, most) => ({ ids: yours(most), q: null }), rollback() {} };
    const drafter = settings.drafter === "you" ? you : settings.drafter;
    const warp = { temperature, topK: topK || null, topP };
    return { prompt, k, verifier, warp, numbers: engine.numbers(seed), drafter, maxNewTokens };
  }

  function change(to) {
    game?.play.return();
    game?.race.return();
    game = to;
    halt();
    show();
  }

  // A game goes on from the boxes as they are; where one has changed it begins anew.
  function follow() {
    const settings = settingsNow();
    if (JSON.stringify(settings) !== JSON.stringify(game?.settings)) change(begin(settings));
  }

  // ---- Links: the state in the fragment, checked like the boxes

  function address() {
    const fields = new URLSearchParams({ ...game.settings, at: game.at, position: game.position });
    for (const draft of game.drafts) fields.append("draft", draft);
    find("link").href = `#${fields}`;
    history.replaceState(null, "", `#${fields}`);
  }

  function openLink() {
    if (!location.hash.includes("=")) return;
    const fields = new URLSearchParams(location.hash.slice(1));
    const known = ["at", "position", "draft", ...boxes.map((box) => box.name)];
    for (const key of fields.keys())
      if (!known.includes(key)) throw Error(`The link has a field ${quoted(key)}, which this page does not know.`);
    const place = (name, high, otherwise) =>
      checked({ name: `The ${name} of the link`, low: "0", high, whole: "whole" }, fields.get(name) ?? `${otherwise}`);
    const settings = settingsOf((box) => fields.get(box.name) ?? box.dataset.start);
    const opened = begin(settings, fields.getAll("draft").map((draft) => checked(typed.dataset, draft)));
    forward(opened, place("at", PHASES * settings.most, 0));
    opened.position = place("position", placeOf(opened).round?.drafted.length ?? 0, opened.position);
    for (const box of boxes) box.value = settings[box.name];
    change(opened);
  }

  // ---- Decoding

  function placeOf({ at, rounds }) {
    const index = Math.floor((at - 1) / PHASES);
    return { index, phase: at ? (at - 1) % PHASES : -1, round: rounds[index] };
  }

  // Plays a round; then the target alone runs until it has used as much time, and after the last round to its end.
  function playRound(run) {
    const { total } = run;
    const began = performance.now();
    const round = run.play.next().value;
    total.clock += performance.now() - began;
    race(run, total.clock);
    const before = run.prompt.length + total.emitted;
    const read = before - 1 + round.drafted.length;
    const held = [[before - 1, read], [read + 1, read], [read + 1, read], [round.targetLength, round.draftLength]];
    total.emitted += round.emitted.length;
    total.drafted += round.drafted.length;
    total.accepted += round.accepted;
    total.tested += round.draws.length;
    total.alone = run.alone.length;
    run.rounds.push({ ...round, before, held, total: { ...total } });
    if (round.finish) race(run, Infinity);
  }

  function race(run, until) {
    while (run.aloneClock < until) {
      const began = performance.now();
      const { value, done } = run.race.next();
      if (done) return;
      run.aloneClock += performance.now() - began;
      run.alone.push(value.id);
    }
  }

  const ended = ({ rounds }) => rounds.at(-1)?.finish;

  function forward(run, to) {
    while (run.rounds.length * PHASES < to && !ended(run)) playRound(run);
    run.at = Math.max(0, Math.min(to, run.rounds.length * PHASES));
    const { phase, round } = placeOf(run);
    run.position = phase >= 2 ? round.accepted : 0;
  }

  function step(by) {
    follow();
    const { at, rounds, drafts, settings } = game;
    if (by > 0 && settings.drafter === "you" && at === rounds.length * PHASES) {
      drafts[rounds.length] = checked(typed.dataset, typed.value);
      typed.value = "";
    }
    forward(game, at + by);
    show();
  }

  function halt() {
    running = false;
    tell("run", "Run");
  }

  function runOn() {
    step(PHASES - (game.at % PHASES));
    if (ended(game) || game.settings.drafter === "you") halt();
    else requestAnimationFrame(() => running && attempt(runOn));
    if (!running) address();
  }

  // ---- The text and the round

  // The tokens of a round, each with its state and its position; once it is decided, with the target's own token.
  function judged({ drafted, accepted, token }, round, phase) {
    const after = game.settings.verifier === "block" ? "rejected" : "untested";
    const verdict = (i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : after);
    const list = drafted.map((id, i) => ({ id, state: phase < 2 ? "drafted" : verdict(i), round, position: i }));
    const state = accepted < drafted.length ? "correction" : "bonus";
    if (phase >= 2) list.splice(accepted + 1, 0, { id: token, state, round, position: accepted });
    return list;
  }

  function showText({ index, phase, round }) {
    const isDone = phase === 3;
    const done = game.rounds.slice(0, Math.max(index, 0) + isDone);
    const isKept = ({ state }) => state !== "rejected" && state !== "untested";
    const kept = (one, r) => judged(one, r, 2).filter(isKept).slice(0, one.emitted.length);
    const list = [...game.prompt.map((id) => ({ id, state: "prompt" })), ...done.flatMap(kept)];
    if (!done.at(-1)?.finish) list.at(-1).pending = "yes";
    if (round && !isDone) list.push(...judged(round, index, phase));
    find("text").replaceChildren(...list.map(chip));
    find("text").scrollTop = find("text").scrollHeight;
  }

  function showRound({ index, phase, round }) {
    const all = round ? judged(round, index, phase) : [];
    const buttons = Array.from(round?.p ?? [], (_, position) => {
      const here = all.filter((token) => token.position === position);
      const made = make("button", { type: "button" }, ...(here.length ? here.map(chip) : ["one more"]));
      const words = here.map(({ id, state }) => `${word(id)} ${state}`);
      made.ariaLabel = `Position ${position + 1}: ${words.join(", ")}`;
      return mark(made, { round: index, position });
    });
    find("round").replaceChildren(...buttons);
  }

  // ---- A position: distributions, the number drawn, the residual

  // norm(max(0, w·p − q)); w is 1, but for the block verifier: the probability ratio of what is kept.
  function residual({ drafted, p, q }, i) {
    const ratio = (w, id, j) => Math.min(1, (w * p[j][id]) / q[j][id]);
    const w = game.settings.verifier === "block" ? drafted.slice(0, i).reduce(ratio, 1) : 1;
    const rest = p[i].map((prob, id) => Math.max(0, w * prob - q[i][id]));
    const sum = rest.reduce((total, one) => total + one);
    return sum ? rest.map((one) => one / sum) : p[i];
  }

  function detail(r, i) {
    for (const one of find("round").children) one.ariaPressed = one.dataset.position === `${i}`;
    const { index, phase } = placeOf(game);
    const round = game.rounds[r];
    const known = r < index ? PHASES : phase;
    const follows = known >= 2 && i === round.accepted;
    const draws = known >= 2 ? round.draws : [];
    const q = round?.q[i];
    const rest = follows && q && game.settings.verifier !== "greedy" ? residual(round, i) : null;
    const rows = Object.entries({ p: known >= 1 && round.p[i], q, residual: rest }).filter(([, row]) => row);
    const names = rows.map(([name]) => name).join(", ");
    tell("at", names ? `Position ${i + 1} of round ${r + 1}: ${names}` : "No distribution is known here yet.");
    const marks = { [round?.drafted[i]]: " drafted", ...(follows && { [round.token]: " taken" }) };
    find("bars").replaceChildren(...bars(rows, marks));
    tell("why", known >= 2 ? reason(round, i) : "");
    const { number = null, threshold } = draws[i] ?? {};
    find("draw").hidden = number === null;
    const [zone, needle] = find("draw").children;
    zone.style.width = `${100 * threshold}%`;
    needle.style.left = `${100 * number}%`;
  }

  function bars(rows, marks) {
    const highest = (id) => Math.max(...rows.map(([, row]) => row[id]));
    const all = Array.from(rows[0]?.[1] ?? [], (_, id) => id);
    const ids = all.filter((id) => marks[id] || highest(id) >= LEAST).sort((a, b) => highest(b) - highest(a));
    return ids.filter((id, rank) => marks[id] || rank < TOP).map((id) => {
      const line = ([bar, row]) => span(span(bar), track(stretch({ bar }, row[id])), span(share(row[id])));
      return make("tr", {}, make("th", { scope: "row" }, word(id), marks[id] ?? ""), make("td", {}, ...rows.map(line)));
    });
  }

  function reason({ drafted, accepted, token, p, q, draws, number }, i) {
    const { verifier } = game.settings;
    const kept = i < accepted ? "accepted" : "rejected";
    const isDrafted = i < drafted.length;
    const lines = [];
    const draw = draws[i];
    if (!draw) lines.push(isDrafted ? "A token before it was rejected: it is not tested." : "Nothing was drafted here.");
    else if (verifier === "greedy")
      lines.push(`The target's most probable token is ${i < accepted ? "the same" : "another"}: ${kept}.`);
    else {
      const [over, under] = [p, q].map((rows) => share(rows[i][drafted[i]]));
      const ratio = `p = ${over}, q = ${under}: min(1, p/q) =`;
      const lead = { rejection: ratio, block: "All up to here is kept with probability" };
      const side = draw.accepted ? "below it" : "not below it";
      const drawn = draw.number === null ? "No number is drawn" : `The number drawn, ${share(draw.number)}, is ${side}`;
      lines.push(`${lead[verifier]} ${share(draw.threshold)}. ${drawn}. The token is ${kept}.`);
    }
    const by = number === null ? "" : `, by the number ${share(number)}`;
    const source = verifier === "greedy" ? "" : `, drawn from ${isDrafted ? "the residual" : "p"}${by}`;
    if (i === accepted) lines.push(`${word(token)} is the target's${source}.`);
    return lines.join(" ");
  }

  function sentence({ index, phase, round }) {
    if (!round) return `The prompt is read: ${game.prompt.length - 1} tokens. Its last one is pending.`;
    const { drafted, accepted, token, emitted, finish } = round;
    const k = drafted.length;
    const replaced = accepted < k ? `Instead of ${word(drafted[accepted])} the correction` : "The bonus";
    const said = [
      k ? `${PROPOSERS[game.settings.drafter]} ${drafted.map(word).join(" ")}.` : "Nothing is drafted.",
      `One target forward over the pending token and ${k} drafted gives ${k + 1} distributions.`,
      `${accepted} of ${k} are accepted. ${replaced} ${word(token)} follows.`,
      `New tokens for one target call: ${emitted.length}. ${ENDS[finish] ?? `${word(emitted.at(-1))} is pending now.`}`,
    ];
    return `Round ${index + 1}. ${said[phase]}`;
  }

  // ---- Caches and race

  function lane(name, value, scale, parts) {
    const pieces = parts.map(([state, n]) => stretch({ state }, n / scale));
    return make("div", { className: "play-lane" }, span(name), track(...pieces), span(value));
  }

  function showCaches({ phase, round }) {
    const { drafter, k } = game.settings;
    const read = game.prompt.length - 1;
    const { before, held, emitted } = round ?? { before: read + 1, held: { [-1]: [read, read] } };
    const isDone = phase === 3;
    const said = [`Tokens: ${before + (isDone ? emitted.length : 0)} in the text`];
    const names = ["target's cache", "draft's cache"].slice(0, drafter === "model" && k ? 2 : 1);
    const lanes = names.map((name, which) => {
      const n = held[phase][which];
      const cut = isDone ? held[2][which] - n : 0;
      const sure = isDone ? n : Math.min(n, before);
      said.push(`${n} in the ${name}${cut ? `, ${cut} rolled back` : ""}`);
      return lane(name, n, before + AHEAD, [["committed", sure], ["drafted", n - sure], ["rolled back", cut]]);
    });
    find("caches").replaceChildren(...lanes);
    tell("held", `${said.join("; ")}.`);
  }

  function showRace({ index, phase }) {
    const calls = phase === 3 ? index + 1 : Math.max(index, 0);
    const { total, finish } = game.rounds[calls - 1] ?? { total: { emitted: 0, alone: 0, clock: 0 } };
    const { emitted, drafted, accepted, tested, clock, alone } = total;
    const scale = Math.max(game.alone.length, emitted, 1);
    const drafting = lane("with the draft", emitted, scale, [["accepted", emitted]]);
    find("race").replaceChildren(drafting, lane("target alone", alone, scale, [["committed", alone]]));
    const end = finish ? ` It ends after ${game.aloneClock.toFixed(1)} ms.` : "";
    const said = [
      `With the draft: ${emitted} tokens in ${calls} target calls and ${clock.toFixed(1)} ms;`,
      `${(emitted / calls).toFixed(2)} tokens a call; accepted: ${accepted} of ${tested} tested, ${drafted} drafted.`,
      `The target alone in this time: ${alone} tokens.${end}`,
    ];
    tell("raced", calls ? said.join(" ") : "The target alone gets as much time as the rounds take.");
    tell("alone", game.alone.slice(0, finish ? undefined : alone).map(piece).join(""));
  }

  function show() {
    const now = placeOf(game);
    [...find("phases").children].forEach((one, i) => (one.ariaCurrent = i === now.phase + 1 ? "step" : null));
    tell("say", sentence(now));
    find("yours").hidden = game.settings.drafter !== "you";
    showText(now);
    showRound(now);
    detail(now.index, game.position);
    showCaches(now);
    showRace(now);
  }

  // ---- Speed

  // Milliseconds a token, and tokens a call, of a whole text; k is 0 for the target alone.
  function timeText(k, seed) {
    const most = Math.min(TIMED.tokens, engine.target.maxLength - game.prompt.length);
    const asked = { ...request(game, k, most), ignoreEnd: true, numbers: engine.numbers(seed) };
    const began = performance.now();
    let calls = 0;
    for (const _ of k ? engine.rounds(asked) : engine.alone(asked)) calls += 1;
    return { milliseconds: (performance.now() - began) / most, tokens: most / calls };
  }

  // Milliseconds of a forward over n positions.
  function forwardTime(model, n) {
    const cache = model.newCache();
    model.read(cache, game.prompt.slice(0, TIMED.space));
    const { length } = cache;
    const began = performance.now();
    for (let i = 0; i < TIMED.forwards; i++) {
      model.read(cache, Array(n).fill(game.prompt[0]));
      model.truncate(cache, length);
    }
    model.release(cache);
    return (performance.now() - began) / TIMED.forwards;
  }

  async function time() {
    if (game.settings.drafter === "you") throw Error("Your typing cannot be timed: choose another drafter.");
    const found = KS.map(() => []);
    for (let i = -TIMED.warmUp; i < TIMED.texts; i++) {
      tell("timed", `${i < 0 ? "Warming up" : `Text ${i + 1} of ${TIMED.texts}`}…`);
      await new Promise(requestAnimationFrame);
      KS.forEach((k, which) => {
        const pair = [timeText(0, i), timeText(k, i)];
        if (i >= 0) found[which].push(pair);
      });
    }
    tellTimes(found);
  }

  function tellTimes(found) {
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const one = forwardTime(engine.target, 1);
    const cost = (n) => forwardTime(engine.target, n) / one;
    const small = game.settings.drafter === "model" ? forwardTime(engine.draft, 1) / one : 0;
    const lines = found.map((pairs, which) => {
      const gain = median(pairs.map(([alone, drafted]) => alone.milliseconds / drafted.milliseconds));
      return [KS[which], median(pairs.map(([, drafted]) => drafted.tokens)), gain];
    });
    const rows = lines.map((line) => make("tr", {}, ...line.map((value, i) => make("td", {}, value.toFixed(i && 2)))));
    find("times").replaceChildren(...rows);
    find("times").parentElement.hidden = false;
    const [k, tokens, gain] = lines.reduce((best, line) => (line[2] > best[2] ? line : best));
    const limit = tokens / (cost(k + 1) + k * small);
    const speed = 1000 / median(found.flat().map(([alone]) => alone.milliseconds));
    const said = [
      `Best at K = ${k}: ${gain.toFixed(2)} times as fast as the target alone, at ${speed.toFixed(0)} tokens/s.`,
      `With nothing but forwards it would be ${limit.toFixed(2)} times.`,
      `A forward over five positions takes ${cost(5).toFixed(1)} times as long as one over one,`,
      `a step of the draft ${small.toFixed(2)} times.`,
    ];
    tell("timed", said.join(" "));
  }

  // ---- Begin

  // What goes wrong is told in one line, and the state stays.
  function wrong({ message }) {
    halt();
    tell("line", message.slice(0, 300));
  }

  function attempt(action) {
    tell("line", "");
    try {
      action();
    } catch (error) {
      wrong(error);
    }
  }

  function select({ target }) {
    const { round, position } = target.closest("[data-position]")?.dataset ?? {};
    if (position === undefined) return;
    if (Number(round) === placeOf(game).index) game.position = Number(position);
    detail(Number(round), Number(position));
  }

  const ACTIONS = {
    step: () => step(1),
    back: () => step(-1),
    restart: () => change(begin(settingsNow())),
    run() {
      running = !running;
      tell("run", running ? "Stop" : "Run");
      if (running) runOn();
    },
    time() {
      follow();
      find("time").disabled = true;
      time().catch(wrong).finally(() => (find("time").disabled = false));
    },
  };

  function listen(page) {
    for (const [name, action] of Object.entries(ACTIONS))
      find(name).addEventListener("click", () => attempt(() => {
        if (name !== "run") halt();
        action();
        address();
      }));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", ({ target }) => target !== typed && attempt(follow));
    for (const kind of ["pointerover", "focusin", "click"]) page.addEventListener(kind, select);
    addEventListener("hashchange", () => attempt(openLink));
  }

  function load() {
    const page = document.getElementById("play");
    try {
      engine = new Minispec.Engine(globalThis.MINISPEC_DATA);
    } catch ({ message }) {
      find("recorded").hidden = false;
      return tell("line", `The models do not run here: ${message}. Below is a recorded run.`);
    }
    page.hidden = false;
    listen(page);
    follow();
    attempt(openLink);
    // A race is fair once the browser has compiled what both sides run.
    setTimeout(() => [4, 0, 4, 0, 4, 0].forEach((k) => timeText(k, k)));
  }

  load();
}
