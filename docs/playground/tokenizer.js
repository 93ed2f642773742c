// Byte-level byte-pair encoding, as tokenizer.json says: GPT-2's cuts, then merges, the earliest learned first.
"use strict";
{
  const SPACE = "\\p{White_Space}"; // JavaScript's \s is another set
  const WORDS = new RegExp(
    `'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`,
    "gu",
  );

  // Returns the character that stands for each byte: itself where it can be printed, else one above 255.
  function characters() {
    let next = 256;
    const printed = (byte) => /[!-~¡-¬®-ÿ]/.test(String.fromCharCode(byte));
    return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printed(byte) ? byte : next++));
  }

  class Tokenizer {
    // Takes what tokenizer.json holds; its one added token ends a text.
    constructor({ model, added_tokens: [end] }) {
      this.end = end.id;
      this.ids = model.vocab;
      this.pieces = Object.keys(model.vocab).sort((one, other) => model.vocab[one] - model.vocab[other]);
      this.ranks = new Map(model.merges.map((merge, rank) => [merge.join(" "), rank]));
      this.characters = characters();
    }

    // Returns the ids of a text. What looks like the end's name is text.
    encode(text) {
      const encoder = new TextEncoder();
      const characters = (word) => Array.from(encoder.encode(word), (byte) => this.characters[byte]);
      return Array.from(text.matchAll(WORDS), ([word]) => this.merged(characters(word))).flat();
    }

    // Joins neighbours as long as a merge was learned, first the pair that was learned first; returns ids.
    merged(pieces) {
      for (;;) {
        const ranks = pieces.slice(1).map((piece, i) => this.ranks.get(`${pieces[i]} ${piece}`) ?? Infinity);
        const best = Math.min(...ranks);
        if (best === Infinity) return pieces.map((piece) => this.ids[piece]);
        const at = ranks.indexOf(best);
        pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
      }
    }

    // Returns the text of some ids; the end is left out, incomplete characters become U+FFFD.
    decode(ids) {
      const spelled = ids.filter((id) => id !== this.end).map((id) => this.pieces[id]);
      const bytes = Array.from(spelled.join(""), (character) => this.characters.indexOf(character));
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    }
  }

  Object.assign(globalThis.Minispec, { Tokenizer });
}
