// The bundled recording: samples as 16-bit integers with a step size per channel, in stretches between gaps.

import { load } from "./fused_model.js";
import { truthAt } from "./history.js";

export async function loadRecording(base) {
  const [facts, data] = await Promise.all([
    load(`${base}.json`).then((response) => response.json()),
    load(`${base}.bin`).then((response) => response.arrayBuffer()),
  ]);
  return new Recording(facts, new DataView(data));
}

class Recording {
  constructor({ channels, units, rate_hz: rateHz, step, stretches, truth }, view) {
    const times = stretches.flatMap(([start, n]) => Array.from({ length: n }, (_, i) => start + i / rateHz));
    const sample = (row) => step.map((size, c) => size * view.getInt16(2 * (row * step.length + c), true));
    Object.assign(this, { channels, units, rateHz, truth, times, rows: times.map((_, row) => sample(row)) });
  }

  get length() {
    return this.times.length;
  }

  // Whether a model has the same channels and units.
  fits(card) {
    return JSON.stringify([card.channels, card.units]) === JSON.stringify([this.channels, this.units]);
  }

  truthAt(timeS) {
    return truthAt(this.truth, timeS);
  }
}
