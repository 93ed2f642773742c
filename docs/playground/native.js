// The native backend in a page: its data, its memory, its models. What it computes is minispec/native/cpp.
"use strict";
{
  const REFUSALS = [
    "", // of each `ms_status`
    "the browser refuses the memory",
    "a token id is outside the vocabulary",
    "the model's logits are not finite: its weights are damaged",
    "a number to draw by must be at least 0 and below 1",
    "a draft has a token or a length that cannot be",
    "a distribution must have no negative number, and the sum 1",
  ];

  // Throws an Error with a message, if something is so.
  function refuse(isSo, message) {
    if (isSo) throw new Error(message);
  }

  const SIZE = 128; // bytes; no record has more
  const SPACE = 1 << 23; // bytes that can be borrowed at once: the largest part of the data fits
  // The least module with SIMD: a function that makes a vector, and drops it.
  const SIMD = { base64: "AGFzbQEAAAABBAFgAAADAgEACgkBBwBBAP0PGgs=" };

  const padded = (count) => Math.ceil(count / 16) * 16; // to a multiple of 16, where vectors begin
  const damage = (name) => `the playground's data is damaged, at "${name}": build the book again`;

  // Returns the bytes of a part of the data; an Error if it is missing, or not written as it should be.
  function bytes(data, name) {
    try {
      const text = atob(data[name].base64);
      const found = new Uint8Array(text.length);
      for (let i = 0; i < text.length; ++i) found[i] = text.charCodeAt(i);
      return found;
    } catch {
      throw new Error(damage(name));
    }
  }

  // The library and its memory. Addresses are numbers; a view of memory is made anew each time, because it may grow.
  class Native {
    constructor(data) {
      refuse(typeof WebAssembly !== "object", "this browser has no WebAssembly, which the engine needs");
      this.data = data;
      const code = bytes(data, "wasm");
      refuse(WebAssembly.validate(bytes({ SIMD }, "SIMD")) && !WebAssembly.validate(code), damage("wasm"));
      const wasi = { fd_close: () => 0, fd_seek: () => 0, fd_write: () => 0 }; // nothing is written
      try {
        const module = new WebAssembly.Module(code);
        this.library = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi }).exports;
      } catch (error) {
        throw new Error(`this browser cannot run the engine, which is WebAssembly with SIMD: ${error.message}`);
      }
      this.library._initialize();
      this.free = this.take(SPACE); // where the memory begins that the next one borrows
      this.end = this.free + SPACE;
      this.part("wasm");
      this.about = this.json("about");
    }

    // Returns the bytes of a part of the data; an Error if they are not those that were written, by their SHA-256.
    part(name) {
      const found = bytes(this.data, name);
      this.lend(() => {
        const hash = this.borrow(32);
        this.library.page_hash(this.put(found), found.length, hash);
        const written = btoa(String.fromCharCode(...this.view(Uint8Array, hash, 32)));
        refuse(written !== this.data[name].sha256, damage(name));
      });
      return found;
    }

    json(name) {
      return JSON.parse(new TextDecoder().decode(this.part(name)));
    }

    view(Kind, address, count) {
      return new Kind(this.library.memory.buffer, address, count);
    }

    // Takes memory for so many bytes, all 0.
    take(count) {
      const address = this.library.malloc(count);
      refuse(!address, REFUSALS[1]);
      this.view(Uint8Array, address, count).fill(0);
      return address;
    }

    // Takes memory until `lend` ends.
    borrow(count) {
      const address = this.free;
      this.free += padded(count);
      refuse(this.free > this.end, REFUSALS[1]);
      return address;
    }

    // Returns work(), and takes back what it has borrowed.
    lend(work) {
      const before = this.free;
      try {
        return work();
      } finally {
        this.free = before;
      }
    }

    // Borrows memory for numbers, and writes them there; those of a plain array are whole.
    put(numbers) {
      const array = Array.isArray(numbers) ? BigInt64Array.from(numbers, BigInt) : numbers;
      const address = this.borrow(array.byteLength);
      this.view(array.constructor, address, array.length).set(array);
      return address;
    }

    // Returns what C gets for a value of a type: of an array its address.
    given(type, value) {
      if (typeof value === "object") return this.put(value);
      return type === "BigInt64" ? BigInt(value) : value;
    }

    // Borrows a record of minispec.h; fields that are not given are 0.
    record(name, values) {
      const address = this.put(new Uint8Array(SIZE));
      const view = this.view(DataView, address, SIZE);
      for (const [field, value] of Object.entries(values)) {
        const [type, place] = this.about.records[name][field];
        view[`set${type}`](place, this.given(type, value), true);
      }
      return address;
    }

    // Returns the whole number at an address.
    whole(address) {
      return Number(this.view(BigInt64Array, address, 1)[0]);
    }

    // Returns a copy of numbers at an address, in rows of a length.
    rows(address, count, length) {
      return Array.from({ length: count }, (_, i) => this.view(Float32Array, address + 4 * i * length, length).slice());
    }

    // Calls a function of minispec.h; an Error says what it refuses.
    call(name, ...values) {
      const types = this.about.functions[name];
      const status = this.library[name](...values.map((value, i) => this.given(types[i], value)));
      refuse(status, REFUSALS[status]);
    }

    // Returns the address of what a function packs: a model, or a matrix.
    packed(name, ...values) {
      const made = this.put([0]);
      this.call(name, this.about.type, ...values, made);
      return this.whole(made);
    }
  }

  // A model. A cache has an address, and a length: how many tokens it holds.
  class Model {
    constructor(native, name) {
      const { sizes, normEps, places } = native.about.models[name];
      [this.vocabSize, this.layers, this.width] = sizes;
      this.maxLength = sizes.at(-1);
      this.native = native;
      this.slots = padded(this.maxLength);
      this.cacheSize = 4 * this.layers * this.slots * sizes[4] * (sizes[5] + padded(sizes[5])); // bytes
      native.lend(() => {
        const from = native.put(native.part(name));
        const addresses = Uint32Array.from(places, (place) => (place === null ? 0 : from + place));
        this.head = native.packed("ms_matrix_new", this.width, this.vocabSize, 1, addresses[0]);
        addresses[addresses.length - 3] = this.head; // after it: the last norm, rotations
        this.address = native.packed("ms_model_new", sizes, normEps, 1, addresses.subarray(1));
      });
    }

    // Returns an empty cache; `free` of the library takes its memory back.
    newCache() {
      return { address: this.native.take(this.cacheSize), length: 0 };
    }

    // Reads tokens after what the cache holds, and extends it; returns the address of their states. Within `lend`.
    hidden(cache, ids) {
      const { native, slots, layers } = this;
      refuse(cache.length + ids.length > this.maxLength, `the context holds ${this.maxLength} tokens`);
      const states = native.borrow(4 * ids.length * this.width);
      const block = native.record("ms_block", {
        rows: 1,
        n: ids.length,
        tokens: ids,
        starts: [cache.length],
        cache: cache.address,
        slots,
        end: layers,
        hidden: states,
      });
      native.call("ms_read", native.about.type, this.address, 1, block, 1);
      cache.length += ids.length;
      return states;
    }

    // Reads tokens after what the cache holds, and extends it; returns the address of their logits. Within `lend`.
    read(cache, ids) {
      const { native, vocabSize } = this;
      const states = this.hidden(cache, ids);
      const logits = native.borrow(4 * ids.length * vocabSize);
      native.call("ms_multiply", native.about.type, this.head, 1, states, ids.length, logits);
      return logits;
    }
  }

  globalThis.Minispec = { Native, Model, refuse };
}
