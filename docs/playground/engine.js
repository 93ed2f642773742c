// Speculative decoding in a page, one row: written as minispec/core/basic.py, with ends and records.
//
// A text is a list of token ids; p and q are distributions, a Float32Array each. A cache holds all of the text but its
// last token, which is pending. Models and decisions are C++ (native.js).
"use strict";
{
  const { Native, Model, Tokenizer, refuse } = globalThis.Minispec;
  const VERIFIERS = ["greedy", "rejection", "block"]; // as `ms_rule` counts them
  const FLOAT = 0; // `ms_type` of distributions
  const CERTAIN = 1 - 1e-12; // counts as 1, as in core/rng.py: no number is drawn
  const LONGEST = 3; // n-gram that is looked up

  // Numbers in [0, 1). Some are lent before it is known how many of them decide something.
  class Numbers {
    constructor(draw) {
      this.draw = draw;
      this.waiting = [];
    }

    lend(count) {
      while (this.waiting.length < count) this.waiting.push(this.draw());
      return Float64Array.from(this.waiting.slice(0, count));
    }

    use(count) {
      return this.waiting.splice(0, count);
    }

    next() {
      this.lend(1);
      return this.use(1)[0];
    }
  }

  // Refuses settings that are none, as core/warp.py does.
  function check({ temperature, topK, topP }) {
    refuse(!(Number.isFinite(temperature) && temperature >= 0), `temperature must be at least 0, not ${temperature}`);
    refuse(topK != null && !isCount(topK - 1), `top-k must be a whole number above 0, not ${topK}`);
    refuse(topP != null && !(topP > 0 && topP <= 1), `top-p must be above 0 and at most 1, not ${topP}`);
  }

  function isCount(number) {
    return Number.isSafeInteger(number) && number >= 0;
  }

  // Makes the cache hold all of the text but its last token: reads or cuts what it must.
  function catchUp(model, cache, text) {
    const lacking = text.slice(cache.length, -1);
    if (lacking.length) model.native.lend(() => model.hidden(cache, lacking));
    model.truncate(cache, text.length - 1);
  }

  // Drafts by a model, with a cache of its own.
  class ModelDrafter {
    constructor(engine, text) {
      this.engine = engine;
      this.cache = engine.draft.newCache();
      catchUp(engine.draft, this.cache, text);
    }

    // Draws k tokens one by one; returns them and the distribution that each was drawn from.
    propose(text, k, warp, numbers) {
      const { engine, cache } = this;
      catchUp(engine.draft, cache, text);
      const tokens = [text.at(-1)];
      const q = [];
      while (q.length < k) {
        q.push(...engine.distributions(engine.draft.read(cache, tokens.slice(-1)), warp));
        tokens.push(engine.choose(q.at(-1), numbers));
      }
      return { ids: tokens.slice(1), q };
    }

    rollback(length) {
      this.engine.draft.truncate(this.cache, length);
    }

    end() {
      this.engine.draft.release(this.cache);
    }
  }

  // Drafts what followed the last tokens where they stood before, as drafters/ngram.py does: q is certain.
  const NGRAM = {
    propose(text, k) {
      for (let n = LONGEST; n > 0; --n) {
        const last = text.slice(-n);
        for (let end = text.length - 1; end >= n; --end)
          if (last.every((id, i) => id === text[end - n + i])) {
            const repeated = text.slice(end);
            return { ids: Array.from({ length: k }, (_, i) => repeated[i % repeated.length]), q: null };
          }
      }
      return { ids: [], q: null };
    },
    rollback() {},
  };

  // The probabilities with which drafted tokens are kept: what their numbers are held against.
  function thresholds(verifier, ids, q, p) {
    let w = 1; // of the whole beginning
    return ids.map((x, i) => {
      const ratio = p[i][x] / q[i][x];
      if (verifier !== "block") return Math.min(1, ratio);
      w = Math.min(1, w * ratio);
      const excess = (sum, prob, id) => sum + Math.max(w * prob - (i + 1 < q.length ? q[i + 1][id] : 0), 0);
      const mass = p[i + 1].reduce(excess, 0);
      return mass / (mass + (1 - w));
    });
  }

  class Engine {
    constructor(data) {
      this.native = new Native(data);
      this.target = new Model(this.native, "target");
      this.draft = new Model(this.native, "draft");
      this.tokenizer = new Tokenizer(this.native.json("tokenizer"), this.native.about.end, this.target.maxLength);
    }

    // Numbers from a seed.
    numbers(seed) {
      refuse(!Number.isSafeInteger(seed), `the seed must be a whole number, not ${seed}`);
      let place = 0n;
      return new Numbers(() => this.native.library.page_number(BigInt(seed), place++));
    }

    // Numbers that are given.
    scripted(numbers) {
      const rest = [...numbers];
      return new Numbers(() => rest.shift());
    }

    // Makes rows of logits distributions: temperature, then top-k, then top-p.
    distributions(logits, warp) {
      check(warp);
      const { native } = this;
      return native.lend(() => {
        const probs = native.put(joined(logits));
        const settings = { temperature: warp.temperature, top_k: warp.topK ?? 0, top_p: warp.topP ?? 1 };
        const sizes = [logits.length, logits[0].length];
        native.call("ms_distributions", FLOAT, native.record("ms_warp", settings), probs, ...sizes, probs);
        return native.rows(probs, ...sizes);
      });
    }

    // Has the library decide by up to `count` numbers: decision(source). Returns the numbers that it has used.
    decided(count, numbers, decision) {
      const { native } = this;
      const source = native.record("ms_source", { numbers: numbers.lend(count), count });
      decision(source);
      return numbers.use(native.whole(source + native.about.records.ms_source.used[1]));
    }

    // Draws an id from a distribution.
    choose(probs, numbers) {
      const { native } = this;
      return native.lend(() => {
        const token = native.put([0]);
        const decision = (source) => native.call("ms_choose", FLOAT, probs, 1, probs.length, 0, source, token);
        this.decided(1, numbers, decision);
        return native.whole(token);
      });
    }

    // Says how much of a draft stays, which token follows, and by which number it was drawn. `draws` has for each
    // token that was tested its threshold and its number. null: no number was needed.
    decide(verifier, ids, q, p, numbers) {
      const { native } = this;
      const k = ids.length;
      const rule = VERIFIERS.indexOf(verifier);
      refuse(rule < 0, `the verifier must be one of ${VERIFIERS}, not ${verifier}`);
      const [accepted, token, used] = native.lend(() => {
        const results = { accepted: native.put([0]), token: native.put([0]) };
        const draft = { rows: 1, k, vocab: p[0].length, tokens: ids, lengths: [k], budgets: [k + 1] };
        const decision = native.record("ms_decision", { ...draft, p: joined(p), q: joined(q), ...results });
        const decide = (source) => native.call("ms_decide", FLOAT, rule, decision, source);
        const used = this.decided(rule ? k + 1 : 0, numbers, decide);
        return [native.whole(results.accepted), native.whole(results.token), used];
      });
      const tested = thresholds(verifier, ids, q, p).slice(0, verifier === "block" ? k : accepted + 1);
      const draws = tested.map((threshold) => {
        const number = threshold > 0 && threshold < CERTAIN ? used.shift() : null;
        return { number, threshold, accepted: (number ?? 0) < threshold };
      });
      return { accepted, token, draws, number: used[0] ?? null };
    }

    // Refuses a text that cannot be continued, and returns how long it may become.
    limit(prompt, maxNewTokens) {
      const { maxLength } = this.target;
      refuse(!isCount(maxNewTokens), `new tokens must be a whole number, not ${maxNewTokens}`);
      refuse(!prompt.length, "the prompt is empty; it needs at least one token");
      refuse(prompt.length > maxLength, `the prompt has ${prompt.length} tokens; the context holds ${maxLength}`);
      return Math.min(prompt.length + maxNewTokens, maxLength);
    }

    // Says why a text ends; null: it goes on.
    finish(text, end, ignoreEnd) {
      if (!ignoreEnd && text.at(-1) === this.tokenizer.end) return "eos";
      if (text.length < end) return null;
      return text.length < this.target.maxLength ? "cap" : "context";
    }

    // The target alone: one forward a token, which are the rounds of K = 0.
    *alone(settings) {
      for (const { token, finish, milliseconds } of this.rounds({ ...settings, k: 0, verifier: "rejection" }))
        yield { id: token, finish, milliseconds: milliseconds.verify };
    }

    // The same distribution in fewer target calls: draft, verify, commit, roll back. A record a round.
    *rounds({ prompt, k, verifier, warp, numbers, drafter = "model", maxNewTokens, ignoreEnd }) {
      const end = this.limit(prompt, maxNewTokens);
      refuse(!isCount(k), `K must be a whole number of at least 0, not ${k}`);
      refuse(verifier === "greedy" && warp.temperature, "the greedy verifier needs temperature 0");
      const text = [...prompt];
      const cache = this.target.newCache();
      const named = { model: () => new ModelDrafter(this, text), ngram: () => NGRAM };
      const drafts = k ? (named[drafter]?.() ?? drafter) : NGRAM;
      try {
        refuse(!drafts.propose, `the drafter must be one of ${Object.keys(named)}, not ${drafter}`);
        catchUp(this.target, cache, text); // prefill
        for (let index = 0, finish = this.finish(text, end, true); !finish; ++index) {
          const times = [performance.now()];
          const pending = text.at(-1);

          const { ids: drafted, q } = this.propose(drafts, text, Math.min(k, end - text.length - 1), warp, numbers);
          times.push(performance.now());

          const logits = this.target.read(cache, [pending, ...drafted]); // verify: K + 1 distributions in one forward
          const p = this.distributions(logits, warp);
          const verdict = this.decide(verifier, drafted, q, p, numbers);
          times.push(performance.now());

          const { accepted, token } = verdict; // commit
          const emitted = [];
          for (const id of [...drafted.slice(0, accepted), token]) {
            if (finish) break;
            emitted.push(id);
            text.push(id);
            finish = this.finish(text, end, ignoreEnd);
          }
          const next = accepted < drafted.length ? "correction" : "bonus";
          const kind = emitted.length > accepted ? next : "draft";

          this.target.truncate(cache, text.length - 1); // roll back
          drafts.rollback(text.length - 1);

          const lengths = { targetLength: cache.length, draftLength: drafts.cache?.length ?? null };
          const milliseconds = { draft: times[1] - times[0], verify: times[2] - times[1] };
          yield { index, pending, drafted, q, p, ...verdict, kind, emitted, finish, ...lengths, milliseconds };
        }
      } finally {
        this.target.release(cache);
        drafts.end?.();
      }
    }

    // Returns a draft of up to `most` tokens; what is certain gets distributions that say so.
    propose(drafter, text, most, warp, numbers) {
      const { ids, q } = most ? drafter.propose(text, most, warp, numbers) : { ids: [], q: [] };
      refuse(ids.length > most, `the draft has ${ids.length} tokens; it may have ${most}`);
      const certain = (x) => new Float32Array(this.target.vocabSize).fill(1, x, x + 1);
      return { ids, q: q ?? ids.map(certain) };
    }
  }

  // Returns rows of numbers as one.
  function joined(rows) {
    const all = new Float32Array(rows.length && rows.length * rows[0].length);
    rows.forEach((row, i) => all.set(row, i * row.length));
    return all;
  }

  Object.assign(globalThis.Minispec, { Engine });
}
