// One wearer, one model, all on this device: samples in, answers kept, state remembered.

import { Fused } from "./fused.js";
import { recall, remember } from "./keep.js";
import { Past } from "./past.js";
import { Windower } from "./windower.js";

const KEEP_MS = 1000,
  STEPS = 120,
  DRAWN_HZ = 25;

export class OnDevice {
  static async open(data) {
    const wearer = new OnDevice(await Fused.open(data));
    try {
      const kept = await recall(wearer.model.key);
      if (kept) wearer.#restore(kept);
    } catch {
      wearer.reset(); // no storage in this browser, or a state that another version wrote
    }
    return wearer;
  }

  constructor(model) {
    Object.assign(this, { model, source: null, position: 0, savedMs: null, keptMs: 0, busy: false, steps: [] });
    this.#begin();
  }

  #restore({ state, windower, source, position, savedMs }) {
    this.model.restore(state);
    this.windower.restore(windower);
    Object.assign(this, { source, position, savedMs });
  }

  #begin() {
    const { card, channels, length, stride } = this.model;
    this.past = new Past();
    this.windower = new Windower({ rateHz: card.rate_hz, length, stride, channels });
    this.drawnS = -Infinity;
  }

  // Samples of this source come next. Another source is another clock, and so is a sensor on another visit; what was
  // learned stays.
  listenTo(source) {
    if (source !== this.source || (source === "sensor" && this.savedMs !== null)) {
      if (this.savedMs !== null) this.model.gap((Date.now() - this.savedMs) / 1000);
      this.#begin();
    }
    Object.assign(this, { source, savedMs: null });
  }

  // The recording from its start.
  rewind() {
    this.position = 0;
    this.#begin();
  }

  // Take one sample; `truth` names what the wearer did at a moment, where that is known.
  async sample(values, timeS, truth = () => null) {
    this.busy = true;
    if (Math.abs(timeS - this.drawnS) > 0.99 / DRAWN_HZ) {
      this.past.hear([timeS], [values]);
      this.drawnS = timeS;
    }
    const windows = this.windower.push(values, timeS);
    try {
      for (const window of windows) await this.#answer(window, truth);
    } finally {
      this.busy = false;
    }
    if (windows.length && performance.now() - this.keptMs > KEEP_MS) await this.keep();
    return windows.length;
  }

  async #answer({ x, timeS, gapS }, truth) {
    const { classes, card } = this.model;
    this.model.gap(gapS);
    const { q, p, surprise, ms } = await this.model.step(x);
    const [label, raw] = [q, p].map((shares) => classes[shares.indexOf(Math.max(...shares))]);
    const known = truth(timeS + card.window_s / 2),
      window = this.model.count - 1;
    this.past.add([{ window, time_s: timeS, gap_s: gapS, q, p, surprise, label, raw, truth: known }]);
    this.steps.push(ms);
    if (this.steps.length > STEPS) this.steps.shift();
  }

  // Store the state as it is between two samples; in the middle of one the next call will do.
  async keep() {
    if (this.busy || !this.model.count) return;
    const { source, position } = this;
    this.keptMs = performance.now();
    const facts = { source, position, savedMs: Date.now() };
    await remember(this.model.key, { state: this.model.state(), windower: this.windower.state(), ...facts });
  }

  reset() {
    this.model.reset();
    Object.assign(this, { source: null, position: 0, savedMs: null, steps: [] });
    this.#begin();
  }

  csv() {
    const { classes } = this.model,
      shares = ["p", "q"].flatMap((kind) => classes.map((name) => `${kind}_${name}`));
    const head = ["window", "time_s", "gap_s", "raw", "refined", "surprise", ...shares];
    const lines = this.past.events.map((e) => [
      e.window,
      e.time_s,
      e.gap_s,
      e.raw,
      e.label,
      e.surprise,
      ...e.p,
      ...e.q,
    ]);
    return [head, ...lines].map((line) => line.join(",")).join("\n") + "\n";
  }
}
