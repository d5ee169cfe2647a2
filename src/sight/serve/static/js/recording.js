// The bundled recording: samples in 16 bits, steps that are powers of two, stretches between gaps.

import { fetched } from "./fused.js";
import { truthAt } from "./past.js";

export async function loadRecording(base) {
  const [facts, data] = await Promise.all([
    fetched(`${base}.json`).then((answer) => answer.json()),
    fetched(`${base}.bin`).then((answer) => answer.arrayBuffer()),
  ]);
  return new Recording(facts, new DataView(data));
}

class Recording {
  constructor(facts, view) {
    Object.assign(this, { channels: facts.channels, units: facts.units, rateHz: facts.rate_hz, truth: facts.truth });
    const width = facts.step.length;
    this.times = facts.stretches.flatMap(([start, n]) =>
      Array.from({ length: n }, (_, i) => start + i / facts.rate_hz),
    );
    this.rows = this.times.map((_, row) => facts.step.map((s, c) => s * view.getInt16(2 * (row * width + c), true)));
  }

  get length() {
    return this.times.length;
  }

  // Whether a model takes these samples.
  fits(card) {
    return JSON.stringify([card.channels, card.units]) === JSON.stringify([this.channels, this.units]);
  }

  // What the wearer did at a moment.
  truthAt(timeS) {
    return truthAt(this.truth, timeS);
  }
}
