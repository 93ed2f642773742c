// The playground: a text is decoded round by round, and each round is shown phase by phase.
//
// A game is a run: its settings, the rounds played so far, and `at`, how many phases are shown; `alone` is the target's
// own run, which races it. A position is a place in a round: that of a drafted token, or the one after the last. What a
// reader typed is put into the page as text alone.
"use strict";
{
  const { Engine, lookUp, refuse } = globalThis.Minispec;
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

  function make(tag, { data, ...properties }, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    Object.assign(made.dataset, data);
    made.append(...children);
    return made;
  }

  const span = (...children) => make("span", {}, ...children);
  // A token after the space that it begins with, which stands before its sign.
  function chip({ id, ...data }) {
    const text = piece(id);
    const word = text.trimStart() || text;
    return span(text.slice(0, text.length - word.length), make("b", { data }, word));
  }
  const piece = (id) => (id === engine.tokenizer.end ? " <end>" : engine.tokenizer.decode([id]));
  const quoted = (text) => JSON.stringify(text.slice(0, 40));
  const word = (id) => quoted(piece(id));
  const share = (value) => value.toFixed(value > 0 && value < 0.001 ? 5 : 3);

  // A name, lengths on a track, and a value. Each length is that of a state, or of a bar.
  function lane(kind, name, value, scale, lengths) {
    const stretches = Object.entries(lengths).map(([key, length]) =>
      make("i", { data: { [kind]: key }, style: `width:${(100 * length) / scale}%` }));
    const track = make("span", { className: "play-track" }, ...stretches);
    return make("div", { className: `play-lane-${kind}` }, span(name), track, span(value));
  }

  // ---- Settings: each box says in its attributes what it takes

  function checked({ name, low, high, whole, choices }, value) {
    const found = value.trim() ? Number(value) : NaN;
    const fits = found >= low && found <= high && (!whole || Number.isInteger(found));
    refuse(
      low && !fits,
      `${name} must be ${whole ? "a whole" : "a"} number from ${low} to ${high}, not ${quoted(value)}.`,
    );
    refuse(!low && value.length > high, `${name} has ${value.length} characters; ${high} are the most.`);
    refuse(
      choices && !choices.split(" ").includes(value),
      `${name} must be one of ${choices}, not ${quoted(value)}.`,
    );
    return low ? found : value;
  }

  const settingsOf = (valueOf) =>
    Object.fromEntries(boxes.map((box) => [box.name, checked(box.dataset, valueOf(box))]));
  const settingsNow = () => settingsOf((box) => box.value);

  function begin(settings, drafts = []) {
    const prompt = engine.tokenizer.encode(settings.prompt);
    const context = engine.target.maxLength;
    refuse(!prompt.length, "The prompt is empty: type at least one character.");
    refuse(
      prompt.length >= context,
      `The prompt has ${prompt.length} tokens; the context holds ${context - 1} and a new one.`,
    );
    refuse(
      settings.verifier === "greedy" && settings.temperature,
      "The greedy verifier needs temperature 0: set it to 0, or choose rejection.",
    );
    const begun = { settings, prompt, drafts, rounds: [], clock: 0, at: 0, position: 0 };
    begun.play = engine.rounds(request(begun, settings.k, settings.most));
    begun.alone = { play: engine.rounds(request(begun, 0, settings.most)), rounds: [], clock: 0 };
    return begun;
  }

  function request({ settings, prompt, drafts, rounds }, k, maxNewTokens) {
    const { verifier, drafter, temperature, topK, topP, seed } = settings;
    const typedDraft = (_, most) => ({ ids: engine.tokenizer.encode(drafts[rounds.length] ?? "").slice(0, most) });
    const propose = { ngram: lookUp, you: typedDraft }[drafter];
    const warp = { temperature, top_k: topK, top_p: topP };
    return { prompt, k, verifier, warp, numbers: engine.numbers(seed), propose, maxNewTokens };
  }

  function change(to) {
    game?.play.return();
    game?.alone.play.return();
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
      refuse(!known.includes(key), `The link has a field ${quoted(key)}, which this page does not know.`);
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
    const phase = (at - 1) % PHASES; // -1: the prompt is read
    return { index, phase, round: rounds[index], done: rounds.slice(0, Math.floor(at / PHASES)) };
  }

  const ended = ({ rounds }) => rounds.at(-1)?.finish;

  // Plays a round, of a game or of its target alone; `clock` says how long all of them took, in milliseconds.
  function advance(run) {
    const began = performance.now();
    const { value } = run.play.next();
    run.clock += performance.now() - began;
    run.rounds.push({ ...value, clock: run.clock });
  }

  // After each round the target alone runs until it has used as much time, and after the last one to its end.
  function forward(run, to) {
    const { rounds, alone } = run;
    while (rounds.length * PHASES < to && !ended(run)) {
      advance(run);
      while (!ended(alone) && (ended(run) || alone.clock < run.clock)) advance(alone);
    }
    run.at = Math.max(0, Math.min(to, rounds.length * PHASES));
    const { phase, round } = placeOf(run);
    run.position = phase >= 2 ? Math.min(round.accepted, round.emitted.length - 1) : 0;
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

  // Whether the text ends inside the accepted draft: then nothing after the end counts, nor the target's own token.
  const isCut = ({ accepted, emitted }) => emitted.length <= accepted;
  const isDropped = (one, i) => isCut(one) && i >= one.emitted.length;

  // The tokens of a round, each with its state and its position; once it is decided, with the target's own token.
  function judged(one, round, phase) {
    const { drafted, accepted, token } = one;
    const after = game.settings.verifier === "block" ? "rejected" : "untested";
    const decided = (i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : after);
    const verdict = (i) => (isDropped(one, i) ? "untested" : decided(i));
    const list = drafted.map((id, i) => ({ id, state: phase < 2 ? "drafted" : verdict(i), round, position: i }));
    const state = accepted < drafted.length ? "correction" : "bonus";
    if (phase >= 2 && !isCut(one)) list.splice(accepted + 1, 0, { id: token, state, round, position: accepted });
    return list;
  }

  function showText({ index, phase, round, done }) {
    const isKept = ({ state }) => state !== "rejected" && state !== "untested";
    const kept = (one, r) => judged(one, r, 2).filter(isKept).slice(0, one.emitted.length);
    const list = [...game.prompt.map((id) => ({ id, state: "prompt" })), ...done.flatMap(kept)];
    if (!done.at(-1)?.finish) list.at(-1).pending = "yes";
    if (round && phase < 3) list.push(...judged(round, index, phase));
    find("text").replaceChildren(...list.map(chip));
    find("text").scrollTop = find("text").scrollHeight;
  }

  function showRound({ index, phase, round }) {
    const all = round ? judged(round, index, phase) : [];
    const buttons = Array.from(round?.p ?? [], (_, position) => {
      const here = all.filter((token) => token.position === position);
      const words = here.map(({ id, state }) => `${word(id)} ${state}`);
      const ariaLabel = `Position ${position + 1}: ${words.join(", ")}`;
      const properties = { type: "button", ariaLabel, data: { round: index, position } };
      return make("button", properties, ...(here.length ? here.map(chip) : ["one more"]));
    });
    find("round").replaceChildren(...buttons);
  }

  // ---- A position: distributions, the number drawn, the residual

  function detail(r, i) {
    for (const one of find("round").children) one.ariaPressed = one.dataset.position === `${i}`;
    const { index, phase } = placeOf(game);
    const round = game.rounds[r];
    const known = r < index ? PHASES : phase;
    const follows = known >= 2 && i === round.accepted && !isCut(round);
    const all = { p: known >= 1 && round.p[i], q: round?.q[i], residual: follows && round.residual() };
    const rows = Object.entries(all).filter(([, row]) => row);
    const names = rows.map(([name]) => name).join(", ");
    tell("at", names ? `Position ${i + 1} of round ${r + 1}: ${names}` : "No distribution is known here yet.");
    const marks = { [round?.drafted[i]]: " drafted", ...(follows && { [round.token]: " taken" }) };
    find("bars").replaceChildren(...bars(rows, marks));
    tell("why", known >= 2 ? reason(round, i) : "");
    const { number, threshold } = (known >= 2 && !isDropped(round, i) && round.draws[i]) || {};
    find("draw").hidden = number === undefined;
    const [zone, needle] = find("draw").children;
    zone.style.width = `${100 * threshold}%`;
    needle.style.left = `${100 * number}%`;
  }

  function bars(rows, marks) {
    const highest = (id) => Math.max(...rows.map(([, row]) => row[id]));
    const all = [...Array(engine.target.vocabSize).keys()];
    const ids = all.filter((id) => marks[id] || highest(id) >= LEAST).sort((a, b) => highest(b) - highest(a));
    return ids.filter((id, rank) => marks[id] || rank < TOP).map((id) => {
      const line = ([bar, row]) => lane("bar", bar, share(row[id]), 1, { [bar]: row[id] });
      return make("tr", {}, make("th", { scope: "row" }, word(id), marks[id] ?? ""), make("td", {}, ...rows.map(line)));
    });
  }

  function reason(round, i) {
    const { drafted, accepted, token, p, q, draws, number } = round;
    const { verifier } = game.settings;
    if (isDropped(round, i)) return "The text ends before it: it is dropped.";
    const kept = i < accepted ? "accepted" : "rejected";
    const isDrafted = i < drafted.length;
    const lines = [];
    const draw = draws[i];
    if (!draw)
      lines.push(isDrafted ? "A token before it was rejected: it is not tested." : "Nothing was drafted here.");
    else if (verifier === "greedy")
      lines.push(`The target's most probable token is ${i < accepted ? "the same" : "another"}: ${kept}.`);
    else {
      const [over, under] = [p, q].map((rows) => share(rows[i][drafted[i]]));
      const ratio = `p = ${over}, q = ${under}: min(1, p/q) =`;
      const lead = verifier === "block" ? "All up to here is kept with probability" : ratio;
      const side = draw.number < draw.threshold ? "below it" : "not below it";
      const drawn =
        draw.number === undefined ? "No number is drawn" : `The number drawn, ${share(draw.number)}, is ${side}`;
      lines.push(`${lead} ${share(draw.threshold)}. ${drawn}. The token is ${kept}.`);
    }
    const by = number === undefined ? "" : `, by the number ${share(number)}`;
    const source = verifier === "greedy" ? "" : `, drawn from ${isDrafted ? "the residual" : "p"}${by}`;
    if (i === accepted) lines.push(`${word(token)} is the target's${source}.`);
    return lines.join(" ");
  }

  function sentence({ index, phase, round }) {
    if (!round) return `The prompt is read: ${game.prompt.length - 1} tokens. Its last one is pending.`;
    const { drafted, accepted, token, emitted, finish } = round;
    const kept = Math.min(accepted, emitted.length);
    const k = drafted.length;
    const replaced = accepted < k ? `Instead of ${word(drafted[accepted])} the correction` : "The bonus";
    const said = [
      k ? `${PROPOSERS[game.settings.drafter]} ${drafted.map(word).join(" ")}.` : "Nothing is drafted.",
      `One target forward over the pending token and ${k} drafted gives ${k + 1} distributions.`,
      `${kept} of ${k} are accepted. ${isCut(round) ? "The text ends there." : `${replaced} ${word(token)} follows.`}`,
      `New tokens for one target call: ${emitted.length}. ${ENDS[finish] ?? `${word(emitted.at(-1))} is pending now.`}`,
    ];
    return `Round ${index + 1}. ${said[phase]}`;
  }

  // ---- Caches and race

  function showCaches({ phase, round }) {
    const { drafter, k } = game.settings;
    const { drafted, emitted, lengths } = round ?? { drafted: [], emitted: [], lengths: [game.prompt.length - 1] };
    const before = lengths[0] + 1 - emitted.length;
    const length = before + (phase === 3 ? emitted.length : 0);
    const read = before - 1 + drafted.length; // by the draft; the target reads one more
    const held = [phase < 1 ? before - 1 : read + 1, read];
    const said = [`Tokens: ${length} in the text`];
    const names = ["target's cache", "draft's cache"].slice(0, drafter === "model" && k ? 2 : 1);
    const lanes = names.map((name, which) => {
      const n = phase === 3 ? lengths[which] : held[which];
      const cut = held[which] - n;
      const sure = Math.min(n, length);
      said.push(`${n} in the ${name}${cut ? `, ${cut} rolled back` : ""}`);
      return lane("state", name, n, before + AHEAD, { committed: sure, drafted: n - sure, "rolled back": cut });
    });
    find("caches").replaceChildren(...lanes);
    tell("held", `${said.join("; ")}.`);
  }

  function showRace({ done }) {
    const { clock, finish } = done.at(-1) ?? { clock: 0 };
    const calls = done.length;
    const count = (name) => done.flatMap((round) => round[name]).length;
    const emitted = count("emitted");
    const accepted = done.reduce((sum, round) => sum + Math.min(round.accepted, round.emitted.length), 0);
    const tested = done.reduce((sum, one) => sum + (isCut(one) ? one.emitted : one.draws).length, 0);
    const { rounds } = game.alone;
    const inTime = rounds.filter((one) => one.clock <= clock);
    const scale = Math.max(rounds.length, emitted, 1);
    find("race").replaceChildren(
      lane("state", "with the draft", emitted, scale, { accepted: emitted }),
      lane("state", "target alone", inTime.length, scale, { committed: inTime.length }),
    );
    const end = finish ? ` It ends after ${game.alone.clock.toFixed(1)} ms.` : "";
    const said = [
      `With the draft: ${emitted} tokens in ${calls} target calls and ${clock.toFixed(1)} ms;`,
      `${(emitted / calls).toFixed(2)} tokens a call; accepted: ${accepted} of ${tested} tested,`,
      `${count("drafted")} drafted. The target alone in this time: ${inTime.length} tokens.${end}`,
    ];
    tell("raced", calls ? said.join(" ") : "The target alone gets as much time as the rounds take.");
    tell("alone", (finish ? rounds : inTime).map(({ token }) => piece(token)).join(""));
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
    const asked = { ...request(game, k, most), stop: null, numbers: engine.numbers(seed) };
    const began = performance.now();
    const calls = [...engine.rounds(asked)].length;
    return { milliseconds: (performance.now() - began) / most, tokens: most / calls };
  }

  // Milliseconds of a forward over n positions, after a cache of zeros.
  function forwardTime(model, n) {
    const { native } = engine;
    const cache = model.newCache();
    const began = performance.now();
    for (let i = 0; i < TIMED.forwards; i++) {
      cache.length = TIMED.space;
      native.lend(() => model.read(cache, Array(n).fill(game.prompt[0])));
    }
    native.library.free(cache.address);
    return (performance.now() - began) / TIMED.forwards;
  }

  async function time() {
    refuse(game.settings.drafter === "you", "Your typing cannot be timed: choose another drafter.");
    const found = KS.map(() => []);
    for (let i = -TIMED.warmUp; i < TIMED.texts; i++) {
      tell("timed", `${i < 0 ? "Warming up" : `Text ${i + 1} of ${TIMED.texts}`}…`);
      await new Promise(requestAnimationFrame);
      KS.forEach((k, which) => {
        const alone = timeText(0, i);
        const { milliseconds, tokens } = timeText(k, i);
        const gain = alone.milliseconds / milliseconds;
        if (i >= 0) found[which].push({ k, tokens, gain, speed: 1000 / alone.milliseconds });
      });
    }
    tellTimes(found);
  }

  function tellTimes(found) {
    const median = (runs, name) => runs.map((run) => run[name]).sort((a, b) => a - b)[runs.length >> 1];
    const one = forwardTime(engine.target, 1);
    const cost = (n) => forwardTime(engine.target, n) / one;
    const small = game.settings.drafter === "model" ? forwardTime(engine.draft, 1) / one : 0;
    const lines = found.map((runs) => ["k", "tokens", "gain"].map((name) => median(runs, name)));
    const rows = lines.map((line) => make("tr", {}, ...line.map((value, i) => make("td", {}, value.toFixed(i && 2)))));
    find("times").replaceChildren(...rows);
    find("times").parentElement.hidden = false;
    const [k, tokens, gain] = lines.reduce((best, line) => (line[2] > best[2] ? line : best));
    const limit = tokens / (cost(k + 1) + k * small);
    const speed = median(found.flat(), "speed");
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
      engine = new Engine(globalThis.MINISPEC_DATA);
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
