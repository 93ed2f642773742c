// The playground: a text is decoded round by round, and each round is shown phase by phase.
//
// A game is a run: its settings, the rounds played so far, and `at`, how many phases are shown. A position is a place in a
// round: that of a drafted token, or the one after the last. What a reader typed is only ever put into a page as text.
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
  const LONGEST_LINK = 20000; // characters
  const KS = [1, 2, 3, 4, 6, 8]; // that are timed
  const TIMED = { tokens: 128, warmUp: 5, texts: 9, forwards: 40, space: 32 };

  const find = (name) => document.getElementById(`play-${name}`);
  const tell = (name, text) => (find(name).textContent = text);
  const form = find("form");
  const typed = form.elements.draft;
  const boxes = [...form.elements].filter((box) => box.dataset.name && box !== typed);
  const marked = (mark) =>
    Object.fromEntries([...document.querySelectorAll(`[data-${mark}]`)].map((one) => [one.dataset[mark], one]));
  const signs = marked("sign");
  const fills = marked("bar");
  let engine;
  let game;
  let running = false;

  function make(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const quoted = (text) => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
  const piece = (id) => engine.tokenizer.piece(id);
  const word = (id) => quoted(piece(id));
  const share = (value) => value.toFixed(value > 0 && value < 0.001 ? 5 : 3);

  // ---- Settings: each box says in its attributes what it takes

  function number(name, value, low, high, whole) {
    const found = String(value).trim() ? Number(value) : NaN;
    if (found >= low && found <= high && (!whole || Number.isInteger(found))) return found;
    const kind = whole ? "a whole number" : "a number";
    throw Error(`${name} must be ${kind} from ${low} to ${high}, not ${quoted(String(value))}.`);
  }

  function checked(box, value) {
    const { name, low, high, whole, choices } = box.dataset;
    if (low) return number(name, value, Number(low), Number(high), whole);
    if (value.length > high) throw Error(`${name} has ${value.length} characters; ${high} are the most.`);
    if (choices && !choices.split(" ").includes(value))
      throw Error(`${name} must be one of: ${choices}; not ${quoted(value)}.`);
    return value;
  }

  const settingsOf = (valueOf) => Object.fromEntries(boxes.map((box) => [box.name, checked(box, valueOf(box))]));
  const settingsNow = () => settingsOf((box) => box.value);

  function begin(settings, drafts = []) {
    const prompt = engine.tokenizer.encode(settings.prompt);
    const context = engine.target.maxLength;
    if (!prompt.length) throw Error("The prompt is empty: type at least one character.");
    if (prompt.length >= context)
      throw Error(`The prompt has ${prompt.length} tokens; the context of ${context} holds ${context - 1} and a new one.`);
    if (settings.verifier === "greedy" && settings.temperature > 0)
      throw Error("The greedy verifier needs temperature 0: set it to 0, or choose rejection.");
    const total = { emitted: 0, drafted: 0, accepted: 0, tested: 0, clock: 0, alone: 0 };
    const begun = { settings, prompt, drafts, total, rounds: [], alone: [], aloneClock: 0, at: 0, position: 0 };
    const asked = request(begun, settings.k, settings.most, false, settings.seed);
    begun.play = engine.rounds(asked);
    begun.race = engine.alone({ ...asked, numbers: engine.numbers(settings.seed) });
    return begun;
  }

  function request({ settings, prompt, drafts, rounds }, k, maxNewTokens, ignoreEnd, seed) {
    const yours = (text, most) => engine.tokenizer.encode(drafts[rounds.length] ?? "").slice(0, most);
    const you = { propose: (...asked) => ({ ids: yours(...asked), q: null }), rollback() {} };
    const drafter = settings.drafter === "you" ? you : settings.drafter;
    const { verifier, temperature, topP } = settings;
    const warp = { temperature, topK: settings.topK || null, topP };
    return { prompt, k, verifier, warp, numbers: engine.numbers(seed), drafter, maxNewTokens, ignoreEnd };
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
    const fields = new URLSearchParams(game.settings);
    for (const draft of game.drafts) fields.append("draft", draft);
    fields.set("at", game.at);
    fields.set("position", game.position);
    find("link").href = `#${fields}`;
    history.replaceState(null, "", `#${fields}`);
  }

  function open(text) {
    if (text.length > LONGEST_LINK) throw Error(`The link has ${text.length} characters; ${LONGEST_LINK} are the most.`);
    const fields = new URLSearchParams(text);
    const drafts = fields.getAll("draft").map((draft) => checked(typed, draft));
    fields.delete("draft");
    const names = [...boxes.map((box) => box.name), "at", "position"];
    for (const key of fields.keys()) {
      if (!names.includes(key)) throw Error(`The link has a field ${quoted(key)}, which this page does not know.`);
      if (fields.getAll(key).length > 1) throw Error(`The link has the field ${quoted(key)} twice.`);
    }
    const opened = begin(settingsOf((box) => fields.get(box.name) ?? box.dataset.start), drafts);
    const at = number("The step of the link", fields.get("at") ?? 0, 0, PHASES * opened.settings.most, true);
    forward(opened, at);
    if (opened.at < at) throw Error(`The link is at step ${at}, and this text ends at step ${opened.at}.`);
    const last = place(opened).round?.drafted.length ?? 0;
    opened.position = number("The position of the link", fields.get("position") ?? opened.position, 0, last, true);
    for (const box of boxes) box.value = opened.settings[box.name];
    change(opened);
  }

  // ---- Decoding

  function place({ at, rounds }) {
    const index = Math.floor((at - 1) / PHASES);
    return { index, phase: at ? (at - 1) % PHASES : -1, round: rounds[index] };
  }

  // Plays a round; then the target alone runs until it has used as much time, and after the last round to its end.
  function playRound(run) {
    const began = performance.now();
    const round = run.play.next().value;
    const { total } = run;
    total.clock += performance.now() - began;
    race(run, total.clock);
    const { emitted, drafted, accepted, finish } = round;
    round.before = run.prompt.length + total.emitted;
    total.emitted += emitted.length;
    total.drafted += drafted.length;
    total.accepted += accepted;
    total.tested += Math.min(accepted + 1, drafted.length);
    total.alone = run.alone.length;
    run.rounds.push({ ...round, total: { ...total } });
    if (finish) race(run, Infinity);
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
    const { phase, round } = place(run);
    run.position = phase >= 2 ? round.accepted : 0;
  }

  function step(by) {
    follow();
    const { at, rounds, drafts, settings } = game;
    if (by > 0 && settings.drafter === "you" && at === rounds.length * PHASES) {
      drafts[rounds.length] = checked(typed, typed.value);
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
    if (!running) return;
    step(PHASES - (game.at % PHASES));
    if (ended(game) || game.settings.drafter === "you") {
      halt();
      address();
    } else requestAnimationFrame(() => attempt(runOn));
  }

  // ---- The text and the round

  // A token, or the end of its run of tokens, in the colour and with the sign of what became of it.
  function chip(state, text, properties) {
    const { style, title, dataset } = signs[state];
    const sign = make("i", { className: "play-sign", title }, dataset.glyph);
    const made = make("b", { style: style.cssText, ...properties }, ...(dataset.glyph ? [sign] : []), text);
    made.dataset.state = state;
    return made;
  }

  function stateOf({ accepted }, i) {
    if (i < accepted) return "accepted";
    return i === accepted || game.settings.verifier === "block" ? "rejected" : "untested";
  }

  function tokens({ index, phase, round }) {
    const done = phase === PHASES - 1 ? index + 1 : Math.max(index, 0);
    const list = game.prompt.map((id) => ({ id, state: "prompt" }));
    game.rounds.slice(0, done).forEach(({ emitted, accepted, kind }, r) => {
      list.push(...emitted.map((id, i) => ({ id, state: i < accepted ? "accepted" : kind, r, i })));
    });
    list.at(-1).pending = !game.rounds[done - 1]?.finish;
    if (done > index) return list;
    const { drafted, accepted, token } = round;
    const shown = drafted.map((id, i) => ({ id, state: phase < 2 ? "drafted" : stateOf(round, i), r: index, i }));
    const next = { id: token, state: accepted < drafted.length ? "correction" : "bonus", r: index, i: accepted };
    if (phase === 2) shown.splice(accepted + 1, 0, next);
    return [...list, ...shown];
  }

  function showText(list) {
    const shown = list.map(({ id, state, pending, r, i }, at) => {
      const made = state === "prompt" ? make("span", {}, piece(id)) : chip(state, piece(id));
      if (state === list[at - 1]?.state && r === list[at - 1].r) made.querySelector("i")?.remove();
      if (pending) made.append(chip("pending", ""));
      if (r !== undefined) Object.assign(made.dataset, { round: r, position: i });
      return made;
    });
    find("text").replaceChildren(...shown);
    find("text").scrollTop = find("text").scrollHeight;
  }

  function showRound({ index, phase, round }) {
    const { drafted, accepted, token } = round ?? {};
    const shown = [...(drafted ?? []), ...(round ? [null] : [])].map((id, i) => {
      const state = phase < 2 ? "drafted" : stateOf(round, i);
      const follows = phase >= 2 && i === accepted;
      const made = make("button", { type: "button" }, id === null ? "" : chip(state, piece(id)));
      if (follows) made.append(chip(id === null ? "bonus" : "correction", piece(token)));
      else if (id === null) made.append("one more");
      const what = id === null ? "after the draft" : `${word(id)}, ${signs[state].title}`;
      made.ariaLabel = `Position ${i + 1}: ${what}${follows ? `, then ${word(token)}` : ""}`;
      Object.assign(made.dataset, { round: index, position: i });
      return made;
    });
    find("round").replaceChildren(...shown);
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
    for (const one of find("round").children) one.ariaPressed = one.dataset.position === String(i);
    const { index, phase } = place(game);
    const round = game.rounds[r];
    const known = r < index ? PHASES : phase;
    const dists = {};
    if (known >= 1) dists.p = round.p[i];
    if (round?.q[i]) dists.q = round.q[i];
    const follows = known >= 2 && i === round.accepted;
    if (follows && dists.q && game.settings.verifier !== "greedy") dists.residual = residual(round, i);
    const names = Object.keys(dists).join(", ");
    tell("at", names ? `Position ${i + 1} of round ${r + 1}: ${names}` : "No distribution is known here yet.");
    find("bars").replaceChildren(...bars(dists, { [round?.drafted[i]]: " drafted", ...(follows && { [round.token]: " taken" }) }));
    const draw = known >= 2 ? round.draws[i] : undefined;
    tell("why", known >= 2 ? reason(round, i, draw) : "");
    find("draw").hidden = typeof draw?.number !== "number";
    if (find("draw").hidden) return;
    const [zone, needle] = find("draw").children;
    zone.style.width = `${100 * draw.threshold}%`;
    needle.style.left = `${100 * draw.number}%`;
  }

  function bars(dists, marks) {
    const rows = Object.entries(dists);
    const highest = (id) => Math.max(...rows.map(([, row]) => row[id]));
    const ids = Array.from(rows[0]?.[1] ?? [], (_, id) => id).filter((id) => marks[id] || highest(id) >= LEAST);
    ids.sort((a, b) => highest(b) - highest(a));
    return ids.filter((id, rank) => marks[id] || rank < TOP).map((id) => {
      const lines = rows.map(([name, row]) => {
        const bar = make("i", { style: `width:${100 * row[id]}%;background:${fills[name].style.background}` });
        const track = make("span", { className: "play-track" }, bar);
        return make("span", {}, make("span", {}, name), track, make("span", {}, share(row[id])));
      });
      return make("tr", {}, make("th", { scope: "row" }, word(id), marks[id] ?? ""), make("td", {}, ...lines));
    });
  }

  function reason(round, i, draw) {
    const { verifier } = game.settings;
    const { drafted, accepted, token, p, q, number: drawn } = round;
    const kept = i < accepted ? "accepted" : "rejected";
    const lines = [];
    if (i < drafted.length && !draw) lines.push("A token before it was rejected: it is not tested.");
    if (draw && verifier === "greedy") lines.push(`The target's most probable token is ${i < accepted ? "the same" : "another"}: ${kept}.`);
    if (draw && verifier !== "greedy") {
      const [over, under] = [p, q].map((rows) => share(rows[i][drafted[i]]));
      const lead = verifier === "block" ? "All up to here is kept with probability" : `p = ${over} and q = ${under}, so min(1, p/q) =`;
      const u = draw.number === null ? "No number is drawn" : `The number drawn, ${share(draw.number)}, is ${draw.accepted ? "below" : "not below"} it`;
      lines.push(`${lead} ${share(draw.threshold)}. ${u}: ${draw.accepted ? "accepted" : "rejected"}.`);
    }
    const source = q[i] ? "the residual" : "p";
    const by = drawn === null ? "" : `, by the number ${share(drawn)}`;
    if (i === accepted) lines.push(verifier === "greedy" ? `The target's ${word(token)} follows.` : `${word(token)} is drawn from ${source}${by}.`);
    return lines.join(" ");
  }

  function sentence({ index, phase, round }) {
    if (!round) return `The models have read the prompt but its last token, which is pending: ${game.prompt.length - 1} tokens.`;
    const { drafted, accepted, token, emitted, finish, before, targetLength } = round;
    const k = drafted.length;
    const replaced = accepted < k ? `Instead of ${word(drafted[accepted])} the correction` : "The bonus";
    const proposer = PROPOSERS[game.settings.drafter];
    const said = [
      k ? `${proposer} ${drafted.map(word).join(" ")}.` : "Nothing is drafted.",
      `One target forward reads the pending token and the draft: ${k + 1} in, ${k + 1} distributions out.`,
      `${accepted} of ${k} are accepted. ${replaced} ${word(token)} follows.`,
      `One target call, new in the text: ${emitted.length}. The target's cache forgets ${before + k - targetLength}. ${ENDS[finish] ?? `${word(emitted.at(-1))} is pending now.`}`,
    ];
    return `Round ${index + 1}. ${said[phase]}`;
  }

  // ---- Caches and race

  function lane(name, value, scale, parts) {
    const pieces = parts.map(([state, n]) => {
      const { style, dataset } = signs[state];
      return make("i", { style: `${style.cssText};background:${dataset.colour};width:${(100 * n) / scale}%` });
    });
    const track = make("span", { className: "play-track" }, ...pieces);
    return make("div", { className: "play-lane" }, make("span", {}, name), track, make("span", {}, `${value}`));
  }

  // How many tokens the caches hold after a phase.
  function held({ phase, round }) {
    if (!round) return { "target's cache": game.prompt.length - 1, "draft's cache": game.prompt.length - 1 };
    const { before, drafted, targetLength, draftLength } = round;
    const read = before - 1 + drafted.length;
    if (phase === 3) return { "target's cache": targetLength, "draft's cache": draftLength };
    return { "target's cache": phase ? read + 1 : before - 1, "draft's cache": read };
  }

  function showCaches(now) {
    const { phase, round } = now;
    const committed = round?.before ?? game.prompt.length;
    const scale = 16 * Math.ceil((committed + game.settings.k + 8) / 16);
    const earlier = held({ round, phase: 2 });
    const caches = Object.entries(held(now)).slice(0, game.settings.drafter === "model" && game.settings.k ? 2 : 1);
    const lanes = caches.map(([name, n]) => {
      const sure = phase === 3 ? n : Math.min(n, committed);
      const cut = phase === 3 ? Math.max(0, earlier[name] - n) : 0;
      return lane(name, n, scale, [["committed", sure], ["drafted", n - sure], ["rolled back", cut]]);
    });
    find("caches").replaceChildren(...lanes);
    const said = caches.map(([name, n]) => `${n} in the ${name}`);
    tell("held", `Tokens: ${committed + (phase === 3 ? round.emitted.length : 0)} in the text, ${said.join(", ")}.`);
  }

  function showRace({ index, phase }) {
    const calls = phase === 3 ? index + 1 : Math.max(index, 0);
    const { total, finish } = game.rounds[calls - 1] ?? { total: { emitted: 0, alone: 0 } };
    const { emitted, drafted, accepted, tested, clock, alone } = total;
    const scale = Math.max(game.alone.length, emitted, 1);
    const lanes = [lane("with the draft", emitted, scale, [["accepted", emitted]]), lane("target alone", alone, scale, [["committed", alone]])];
    find("race").replaceChildren(...lanes);
    const done = finish ? ` It is done after ${game.aloneClock.toFixed(1)} ms.` : "";
    const said = `With the draft: ${emitted} tokens in ${calls} target calls and ${clock?.toFixed(1)} ms; ${(emitted / calls).toFixed(2)} tokens a call; accepted ${accepted} of ${tested} tested, ${drafted} drafted. The target alone in as much time: ${alone} tokens.${done}`;
    tell("raced", calls ? said : "A race: the target alone gets as much time as the rounds take.");
    tell("alone", game.alone.slice(0, finish ? undefined : alone).map(piece).join(""));
  }

  function show() {
    const now = place(game);
    [...find("phases").children].forEach((one, i) => (one.ariaCurrent = i === now.phase + 1 ? "step" : null));
    tell("say", sentence(now));
    find("yours").hidden = game.settings.drafter !== "you";
    showText(tokens(now));
    showRound(now);
    detail(now.index, game.position);
    showCaches(now);
    showRace(now);
  }

  // ---- Speed

  const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

  // Milliseconds a token, and tokens a call, of a whole text.
  function timeText(k, seed) {
    const most = Math.min(TIMED.tokens, engine.target.maxLength - game.prompt.length);
    const asked = request(game, k, most, true, seed);
    const began = performance.now();
    const calls = [...(k ? engine.rounds(asked) : engine.alone(asked))].length;
    return [(performance.now() - began) / most, most / calls];
  }

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
    if (engine.target.maxLength - game.prompt.length < TIMED.space) throw Error("The prompt leaves no space to time in: shorten it.");
    const found = [0, ...KS].map(() => []);
    for (let i = 0; i < TIMED.warmUp + TIMED.texts; i++) {
      tell("timed", `Text ${i + 1} of ${TIMED.warmUp + TIMED.texts}…`);
      await new Promise(requestAnimationFrame);
      [0, ...KS].forEach((k, which) => {
        const alone = timeText(0, i);
        const [milliseconds, tokens] = timeText(k, i);
        if (i >= TIMED.warmUp) found[which].push({ gain: alone[0] / milliseconds, alone: alone[0], tokens, milliseconds });
      });
    }
    tellTimes(found.slice(1));
  }

  function tellTimes(found) {
    const forwards = (n) => median(Array.from({ length: 5 }, () => forwardTime(engine.target, n)));
    const one = forwards(1);
    const small = game.settings.drafter === "model" ? forwardTime(engine.draft, 1) / one : 0;
    const middle = (texts, name) => median(texts.map((text) => text[name]));
    const lines = found.map((texts, which) => {
      const k = KS[which];
      const tokens = middle(texts, "tokens");
      const limit = tokens / (forwards(k + 1) / one + k * small);
      return { k, tokens, speed: 1000 / middle(texts, "milliseconds"), gain: middle(texts, "gain"), limit };
    });
    const rows = lines.map((line) => Object.values(line).map((value, i) => make("td", {}, value.toFixed([0, 2, 0, 2, 2][i]))));
    find("times").replaceChildren(...rows.map((cells) => make("tr", {}, ...cells)));
    find("times").parentElement.hidden = false;
    const { k, gain, limit } = lines.reduce((best, line) => (line.gain > best.gain ? line : best));
    const speed = 1000 / middle(found.flat(), "alone");
    const five = forwards(5) / one;
    tell("timed", `Best at K = ${k}: ${gain.toFixed(2)} times as fast as the target alone, which writes ${speed.toFixed(0)} tokens a second. With nothing but forwards it would be ${limit.toFixed(2)} times. A forward over five positions takes ${five.toFixed(1)} times as long as one over one, a step of the drafter ${small.toFixed(2)} times.`);
  }

  // ---- Begin

  // What goes wrong is told in one line, and the state stays.
  function wrong({ message }) {
    halt();
    tell("line", message.slice(0, 300));
  }

  function attempt(action, event) {
    tell("line", "");
    try {
      action(event);
    } catch (error) {
      wrong(error);
    }
  }

  function select({ target }) {
    const { round, position } = target.closest("[data-position]")?.dataset ?? {};
    if (position === undefined) return;
    if (Number(round) === place(game).index) game.position = Number(position);
    detail(Number(round), Number(position));
  }

  const ACTIONS = {
    step: () => step(1),
    back: () => step(-1),
    restart: () => change(begin(settingsNow())),
    run() {
      running = !running;
      tell("run", running ? "Stop" : "Run");
      runOn();
    },
    time() {
      follow();
      find("time").disabled = true;
      time().catch(wrong).finally(() => (find("time").disabled = false));
    },
  };

  function openLink() {
    if (location.hash.includes("=")) open(location.hash.slice(1));
  }

  function load() {
    try {
      engine = new Minispec.Engine(MINISPEC_DATA);
    } catch (error) {
      find("recorded").hidden = false;
      tell("line", `The models do not run here: ${error.message}. Below is a recorded run.`);
      return;
    }
    const page = document.getElementById("play");
    page.hidden = false;
    for (const [name, action] of Object.entries(ACTIONS))
      find(name).addEventListener("click", () => attempt(() => {
        if (name !== "run" && name !== "time") halt();
        action();
        address();
      }));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", ({ target }) => target !== typed && attempt(follow));
    for (const kind of ["pointerover", "focusin", "click"]) page.addEventListener(kind, select);
    addEventListener("hashchange", () => attempt(openLink));
    attempt(follow);
    if (game) attempt(openLink);
  }

  load();
}
