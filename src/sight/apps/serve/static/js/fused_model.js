// A fused ONNX graph for one wearer: encoder and adaptation in one file, state in and state out (docs/onnx.md).

import * as ort from "../vendor/ort.wasm.bundle.min.mjs";
import { readMetadata } from "./onnx_metadata.js";

const FORMAT = 2;

// Load the WebAssembly of the runtime ourselves, so that the runtime makes no request of its own.
export async function loadRuntime(url) {
  ort.env.wasm.wasmBinary = await (await load(url)).arrayBuffer();
  ort.env.wasm.numThreads = 1;
}

export async function load(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`Expected ${url} from the server, got status ${response.status}; reload the page.`);
  return response;
}

export class FusedModel {
  static async open(data) {
    const metadata = readMetadata(data);
    if (!metadata["sight.fused"] || !metadata["sight.card"]) {
      throw new Error("This .onnx file contains no adaptation or no model card; write one with sight export --fused.");
    }
    const facts = JSON.parse(metadata["sight.fused"]);
    if ((facts.format ?? FORMAT) !== FORMAT) {
      throw new Error(`Expected a fused graph of format ${FORMAT}, got ${facts.format}; export the model again.`);
    }
    // Warnings of the runtime are about its own optimiser.
    const session = await ort.InferenceSession.create(data, { executionProviders: ["wasm"], logSeverityLevel: 3 });
    return new FusedModel(session, JSON.parse(metadata["sight.card"]), facts, fingerprint(data));
  }

  constructor(session, card, facts, key) {
    Object.assign(this, { session, card, facts, key, classes: card.classes });
    this.inputs = new Map(session.inputMetadata.map((input) => [input.name, input]));
    [, this.channels, this.length] = this.inputs.get("x").shape;
    this.names = [...this.inputs.keys()].filter((name) => name !== "x");
    this.stride = Math.max(1, Math.round(card.stride_s * card.rate_hz));
    this.reset();
  }

  // A state of zeros is a new wearer: the graph initialises itself if `count` is 0.
  reset() {
    this.tensors = this.#tensors((name) => {
      const { shape, type } = this.inputs.get(name);
      const size = shape.reduce((a, b) => a * b, 1);
      return type === "int32" ? new Int32Array(size) : new Float32Array(size);
    });
  }

  #tensors(valuesOf) {
    const tensor = (name) => new ort.Tensor(valuesOf(name), this.inputs.get(name).shape);
    return Object.fromEntries(this.names.map((name) => [name, tensor(name)]));
  }

  // Predict one window and adapt.
  async step(x) {
    const started = performance.now();
    const window = new ort.Tensor(x, [1, this.channels, this.length]);
    const out = await this.session.run({ x: window, ...this.tensors });
    this.tensors = Object.fromEntries(this.names.map((name) => [name, out[`next_${name}`]]));
    return { q: [...out.q.data], p: [...out.p.data], surprise: out.surprise.data[0], ms: performance.now() - started };
  }

  // Relax the belief after a gap in the signal; what was learned stays.
  gap(seconds) {
    if (!this.count || !(seconds > 0)) return;
    const halfLife = this.facts.params.gap_half_life_s;
    const belief = this.tensors.belief.data;
    const uniform = 1 / belief.length;
    const kept = halfLife === null ? 1 : 2 ** (-seconds / halfLife);
    for (let k = 0; k < belief.length; k += 1) belief[k] = uniform + (belief[k] - uniform) * kept;
    for (const name of this.facts.gap_clears ?? []) this.tensors[name].data.fill(0);
  }

  get count() {
    return this.tensors.count.data[0];
  }

  // Share of each class as the method estimates it; uniform before the first window, null if it makes no estimate.
  get classFrequencies() {
    const weights = [...(this.tensors[this.facts.class_frequencies]?.data ?? [])];
    const total = weights.reduce((a, b) => a + b, 0);
    return weights.length ? weights.map((weight) => (total ? weight / total : 1 / weights.length)) : null;
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
      if (!fits) throw new Error(`The stored ${name} does not fit this model; press Delete data to start again.`);
    }
    this.tensors = this.#tensors((name) => state[name].slice());
  }
}

// Identifies a model; FNV-1a, because crypto.subtle is not available over plain HTTP.
function fingerprint(data) {
  let hash = 0x811c9dc5;
  for (const byte of data) hash = Math.imul(hash ^ byte, 0x01000193);
  return `${data.length}-${(hash >>> 0).toString(16)}`;
}
