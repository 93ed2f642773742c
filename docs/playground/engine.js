// Speculative decoding in a page, one row: written as minispec/core/basic.py, with ends and records.
//
// A text is a list of token ids; p and q are distributions, a Float32Array each. A cache holds all of the text but its
// last token, which is pending. Models and decisions are C++ (native.js). The page checks settings (play.js).
"use strict";
{
  const { Native, Model, Tokenizer } = globalThis.Minispec;
  const VERIFIERS = ["greedy", "rejection", "block"]; // as `ms_rule` counts them
  const FLOAT = 0; // `ms_type` of distributions
  const CERTAIN = 1 - 1e-12; // counts as 1, as in core/rng.py: no number is drawn
  const LONGEST = 3; // n-gram that is looked up

  // Makes the cache hold all of the text but its last token: reads or cuts what it must.
  function catchUp(model, cache, text) {
    const lacking = text.slice(cache.length, -1);
    if (lacking.length) model.native.lend(() => model.hidden(cache, lacking));
    cache.length = text.length - 1;
  }

  // Drafts what followed the last tokens where they stood before, as drafters/ngram.py does.
  function lookUp(text, k) {
    for (let n = LONGEST; n > 0; --n) {
      const last = text.slice(-n);
      for (let end = text.length - 1; end >= n; --end)
        if (last.every((id, i) => id === text[end - n + i])) {
          const repeated = text.slice(end);
          return { ids: Array.from({ length: k }, (_, i) => repeated[i % repeated.length]) };
        }
    }
    return { ids: [] };
  }

  // What a decision is made of, to be shown: how probably each token is kept, and the residual at a position.
  function shown(isBlock, ids, q, p) {
    const ratio = (x, i) => p[i][x] / q[i][x];
    const w = [1]; // of the whole beginning, in block verification
    ids.forEach((x, i) => w.push(isBlock ? Math.min(1, w[i] * ratio(x, i)) : 1));
    const excess = (i) => p[i].map((prob, id) => Math.max(0, w[i] * prob - (i < q.length ? q[i][id] : 0)));
    const sum = (row) => row.reduce((total, one) => total + one);
    const thresholds = ids.map((x, i) => {
      if (!isBlock) return Math.min(1, ratio(x, i));
      const mass = sum(excess(i + 1));
      return mass / (mass + (1 - w[i + 1]));
    });
    const residual = (i) => {
      const rest = excess(i);
      const mass = sum(rest);
      return mass ? rest.map((one) => one / mass) : p[i];
    };
    return { thresholds, residual };
  }

  class Engine {
    constructor(data) {
      this.native = new Native(data);
      this.target = new Model(this.native, "target");
      this.draft = new Model(this.native, "draft");
      this.tokenizer = new Tokenizer(this.native.json("tokenizer"));
    }

    // Numbers in [0, 1) from a seed: each by its place, and the place of the next one.
    numbers(seed) {
      return { at: (place) => this.native.library.page_number(BigInt(seed), BigInt(place)), next: 0 };
    }

    // Reads tokens after what a cache holds; returns the distribution after each, by an `ms_warp`.
    distributions(model, cache, ids, warp) {
      const { native } = this;
      return native.lend(() => {
        const rows = model.read(cache, ids);
        const sizes = [ids.length, model.vocabSize];
        native.call("ms_distributions", FLOAT, native.record("ms_warp", warp), rows, ...sizes, rows);
        return native.rows(rows, ...sizes);
      });
    }

    // Has the library decide by up to `count` numbers: decision(source, result), where the result is whole numbers.
    // Returns these, and the numbers that were used.
    decided(count, numbers, decision) {
      const { native } = this;
      return native.lend(() => {
        const lent = Float64Array.from({ length: count }, (_, i) => numbers.at(numbers.next + i));
        const source = native.record("ms_source", { numbers: lent, count });
        const result = native.put([0, 0]);
        decision(source, result);
        const used = native.whole(source + native.about.records.ms_source.used[1]);
        numbers.next += used;
        return { result: [native.whole(result), native.whole(result + 8)], used: [...lent.slice(0, used)] };
      });
    }

    // Draws an id from a distribution.
    choose(probs, numbers) {
      const decision = (...addresses) => this.native.call("ms_choose", FLOAT, probs, 1, probs.length, 0, ...addresses);
      return this.decided(1, numbers, decision).result[0];
    }

    // Says how much of a draft stays, which token follows, by which number it was drawn, and from which residual.
    // `draws` has for each token that was tested its threshold and its number. undefined: no number was needed.
    decide(verifier, ids, q, p, numbers) {
      const k = ids.length;
      const vocab = p[0].length;
      const rule = VERIFIERS.indexOf(verifier);
      const isBlock = verifier === "block";
      const decision = (source, result) => {
        const draft = this.native.record("ms_decision", {
          rows: 1,
          k,
          vocab,
          p: joined(p, vocab),
          q: joined(q, vocab),
          tokens: ids,
          lengths: [k],
          budgets: [k + 1],
          accepted: result,
          token: result + 8,
        });
        this.native.call("ms_decide", FLOAT, rule, draft, source);
      };
      const { result, used } = this.decided(rule ? k + 1 : 0, numbers, decision);
      const [accepted, token] = result;
      const { thresholds, residual } = shown(isBlock, ids, q, p);
      const draws = thresholds.slice(0, isBlock ? k : accepted + 1).map((threshold) => {
        const isOpen = threshold > 0 && threshold < CERTAIN;
        return { threshold, number: isOpen ? used.shift() : undefined };
      });
      const isDrawn = rule && accepted < k; // from the residual, which is worked out when it is looked at
      return { accepted, token, draws, number: used[0], residual: () => (isDrawn ? residual(accepted) : null) };
    }

    // Drafts by the draft model, with a cache of its own: tokens one by one, and the distribution of each.
    modelDrafter(warp, numbers) {
      const cache = this.draft.newCache();
      const propose = (text, k) => {
        catchUp(this.draft, cache, text);
        const ids = [];
        const q = [];
        while (ids.length < k) {
          const [dist] = this.distributions(this.draft, cache, [ids.at(-1) ?? text.at(-1)], warp);
          q.push(dist);
          ids.push(this.choose(dist, numbers));
        }
        return { ids, q };
      };
      return { cache, propose };
    }

    // The same distribution in fewer target calls: draft, verify, commit, roll back. A record a round. The draft model
    // drafts, if nothing else proposes; K = 0 is the target alone.
    *rounds({ prompt, k, verifier, warp, numbers, propose, maxNewTokens, stop = this.tokenizer.end }) {
      const { target } = this;
      const end = Math.min(prompt.length + maxNewTokens, target.maxLength);
      const text = [...prompt];
      const cache = target.newCache();
      const drafter = propose || !k ? { propose } : this.modelDrafter(warp, numbers);
      const caches = [cache, drafter.cache].filter(Boolean);
      let finish = null;
      try {
        catchUp(target, cache, text); // prefill
        while (!finish) {
          const { ids: drafted, q } = this.propose(drafter, text, Math.min(k, end - text.length - 1));

          const tokens = [text.at(-1), ...drafted]; // verify: K + 1 distributions in one forward
          const p = this.distributions(target, cache, tokens, warp);
          const verdict = this.decide(verifier, drafted, q, p, numbers);

          const kept = [...drafted.slice(0, verdict.accepted), verdict.token]; // commit
          const stops = kept.indexOf(stop) + 1;
          const emitted = kept.slice(0, stops || kept.length);
          text.push(...emitted);
          if (stops) finish = "eos";
          else if (text.length === end) finish = end < target.maxLength ? "cap" : "context";

          for (const one of caches) one.length = Math.min(one.length, text.length - 1); // roll back

          yield { drafted, q, p, ...verdict, emitted, finish, lengths: caches.map((one) => one.length) };
        }
      } finally {
        for (const one of caches) this.native.library.free(one.address);
      }
    }

    // Returns a draft of up to `most` tokens; what is certain gets distributions that say so.
    propose(drafter, text, most) {
      const certain = (x) => new Float32Array(this.target.vocabSize).fill(1, x, x + 1);
      const { ids, q = ids.map(certain) } = most ? drafter.propose(text, most) : { ids: [] };
      return { ids, q };
    }
  }

  // Returns rows of a length as one.
  function joined(rows, length) {
    const all = new Float32Array(rows.length * length);
    rows.forEach((row, i) => all.set(row, i * length));
    return all;
  }

  Object.assign(globalThis.Minispec, { Engine, lookUp });
}
