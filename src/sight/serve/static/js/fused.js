// One wearer through a fused graph: encoder and adaptation in one file, state in and state out (docs/onnx.md).

import * as ort from "../vendor/ort.wasm.bundle.min.mjs";
import { metadata } from "./onnxfile.js";

// Version of the metadata `sight.fused`.
const FORMAT = 2;

// The engine gets its own code from us, and so never asks the network by itself.
export async function loadEngine(url) {
  ort.env.wasm.wasmBinary = await (await fetched(url)).arrayBuffer();
  ort.env.wasm.numThreads = 1;
}

export async function fetched(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`Expected ${url} from the server, got ${answer.status}; reload the page.`);
  return answer;
}

export class Fused {
  static async open(data) {
    const found = metadata(data);
    if (!found["sight.fused"] || !found["sight.card"]) {
      throw new Error("This .onnx file holds no adaptation or no card; write one with sight export --fused.");
    }
    const facts = JSON.parse(found["sight.fused"]);
    if (facts.format !== FORMAT) {
      throw new Error(`Expected a fused graph of format ${FORMAT}, got ${facts.format}; export it again.`);
    }
    // Its warnings tell of its own optimiser, nothing a reader could act upon.
    const quiet = { executionProviders: ["wasm"], logSeverityLevel: 3 };
    const session = await ort.InferenceSession.create(data, quiet);
    return new Fused(session, JSON.parse(found["sight.card"]), facts, fingerprint(data));
  }

  constructor(session, card, facts, key) {
    Object.assign(this, { session, card, facts, key, classes: card.classes });
    this.inputs = new Map(session.inputMetadata.map((input) => [input.name, input]));
    [, this.channels, this.length] = this.inputs.get("x").shape;
    this.names = [...this.inputs.keys()].filter((name) => name !== "x");
    this.stride = Math.max(1, Math.round(card.stride_s * card.rate_hz));
    this.reset();
  }

  // Zeros are a fresh wearer: the graph starts anew where it has seen no window.
  reset() {
    this.tensors = this.#tensors((name) => {
      const { shape, type } = this.inputs.get(name),
        size = shape.reduce((a, b) => a * b, 1);
      return type === "int32" ? new Int32Array(size) : new Float32Array(size);
    });
  }

  #tensors(values) {
    return Object.fromEntries(
      this.names.map((name) => [name, new ort.Tensor(values(name), this.inputs.get(name).shape)]),
    );
  }

  async step(x) {
    const before = performance.now();
    const window = new ort.Tensor(x, [1, this.channels, this.length]);
    const out = await this.session.run({ x: window, ...this.tensors });
    this.tensors = Object.fromEntries(this.names.map((name) => [name, out[`next_${name}`]]));
    return { q: [...out.q.data], p: [...out.p.data], surprise: out.surprise.data[0], ms: performance.now() - before };
  }

  // The wearer was away: the belief relaxes, knowledge stays.
  gap(seconds) {
    if (!this.count || !(seconds > 0)) return;
    const halfLife = this.facts.params.gap_half_life_s,
      belief = this.tensors.belief.data;
    const even = 1 / belief.length,
      kept = halfLife === null ? 1 : 2 ** (-seconds / halfLife);
    for (let k = 0; k < belief.length; k += 1) belief[k] = even + (belief[k] - even) * kept;
    for (const name of this.facts.gap_clears ?? []) this.tensors[name].data.fill(0);
  }

  get count() {
    return this.tensors.count.data[0];
  }

  // Frequency of each class for this wearer; uniform before the first window.
  get habit() {
    const shares = [...this.tensors[this.facts.class_frequencies].data],
      total = shares.reduce((a, b) => a + b, 0);
    return shares.map((share) => (total ? share / total : 1 / shares.length));
  }

  get stateBytes() {
    return this.names.reduce((sum, name) => sum + this.tensors[name].data.byteLength, 0);
  }

  state() {
    return Object.fromEntries(this.names.map((name) => [name, this.tensors[name].data.slice()]));
  }

  restore(state) {
    for (const name of this.names) {
      const fits = state[name]?.length === this.tensors[name].data.length && state[name].every(Number.isFinite);
      if (!fits) throw new Error(`The stored ${name} does not fit this model; press Forget to start anew.`);
    }
    this.tensors = this.#tensors((name) => state[name].slice());
  }
}

// Tells models apart; FNV-1a, because crypto.subtle is missing on plain HTTP.
function fingerprint(data) {
  let hash = 0x811c9dc5;
  for (const byte of data) hash = Math.imul(hash ^ byte, 0x01000193);
  return `${data.length}-${(hash >>> 0).toString(16)}`;
}
