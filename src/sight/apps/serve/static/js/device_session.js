// One wearer with one model on this device: samples in, events out, state stored in the browser.

import { FusedModel } from "./fused_model.js";
import { History } from "./history.js";
import { read, write } from "./storage.js";
import { Windower } from "./windower.js";

const SAVE_MS = 1000;
const MAX_TIMINGS = 120;
const DRAWN_HZ = 25;

export class DeviceSession {
  static async open(data) {
    const session = new DeviceSession(await FusedModel.open(data));
    try {
      const saved = await read(session.model.key);
      if (saved) session.#restore(saved);
    } catch {
      session.reset(); // no storage in this browser, or a state of another version
    }
    return session;
  }

  constructor(model) {
    Object.assign(this, { model, source: null, position: 0, restoredMs: null, savedAt: 0, busy: false, timings: [] });
    this.#restartStream();
  }

  #restore({ state, windower, source, position, savedMs }) {
    this.model.restore(state);
    this.windower.restore(windower);
    Object.assign(this, { source, position, restoredMs: savedMs });
  }

  #restartStream() {
    const { card, channels, length, stride } = this.model;
    this.history = new History();
    this.windower = new Windower({ rateHz: card.rate_hz, length, stride, channels });
    this.drawnS = -Infinity;
  }

  // Set where the next samples come from. Another source, or a sensor on another visit, has another clock: the stream
  // starts again, and what was learned stays.
  setSource(source) {
    if (source !== this.source || (source === "sensor" && this.restoredMs !== null)) {
      if (this.restoredMs !== null) this.model.gap((Date.now() - this.restoredMs) / 1000);
      this.#restartStream();
    }
    Object.assign(this, { source, restoredMs: null });
  }

  // Start the recording again.
  rewind() {
    this.position = 0;
    this.#restartStream();
  }

  // Process one sample; `truthAt` returns the true class at a time. Returns the number of windows completed.
  async push(values, timeS, truthAt = () => null) {
    this.busy = true;
    if (Math.abs(timeS - this.drawnS) > 0.99 / DRAWN_HZ) {
      this.history.addSamples([timeS], [values]);
      this.drawnS = timeS;
    }
    const windows = this.windower.push(values, timeS);
    try {
      for (const window of windows) await this.#predict(window, truthAt);
    } finally {
      this.busy = false;
    }
    if (windows.length && performance.now() - this.savedAt > SAVE_MS) await this.save();
    return windows.length;
  }

  async #predict({ x, timeS, gapS }, truthAt) {
    const { model } = this;
    model.gap(gapS);
    const { q, p, surprise, ms } = await model.step(x);
    const [label, raw] = [q, p].map((shares) => model.classes[shares.indexOf(Math.max(...shares))]);
    const truth = truthAt(timeS + model.card.window_s / 2);
    this.history.add({ window: model.count - 1, time_s: timeS, gap_s: gapS, q, p, surprise, label, raw, truth });
    this.timings = [...this.timings, ms].slice(-MAX_TIMINGS);
  }

  // Store the state between two samples; during one, the next call does.
  async save() {
    if (this.busy || !this.model.count) return;
    this.savedAt = performance.now();
    await write(this.model.key, this.#stored());
  }

  #stored() {
    const { source, position, model, windower } = this;
    return { state: model.state(), windower: windower.state(), source, position, savedMs: Date.now() };
  }

  // Everything that `reset` removes, for `undo`.
  copy() {
    return { stored: this.#stored(), history: this.history, timings: this.timings };
  }

  // Go back to a copy.
  undo({ stored, history, timings }) {
    this.#restore(stored);
    Object.assign(this, { history, timings, restoredMs: null });
  }

  reset() {
    this.model.reset();
    Object.assign(this, { source: null, position: 0, restoredMs: null, timings: [] });
    this.#restartStream();
  }

}
