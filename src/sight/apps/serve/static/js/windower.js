// Cuts the samples of one sensor into windows on the model's regular clock, like sight.recordings.signal.live_windows for a sensor
// at the model's rate. Uneven samples are interpolated linearly, without a filter, because the motion sensor of a phone
// (50 to 60 Hz) causes little aliasing.

// Share of a sampling period by which rounding may shift a timestamp.
const ROUNDING = 1e-3;

export class Windower {
  constructor({ rateHz, length, stride, channels, maxGapS = 0.5 }) {
    Object.assign(this, { rateHz, length, stride, channels });
    this.limitS = Math.max(maxGapS, 1.5 / rateHz);
    this.slackS = ROUNDING / rateHz;
    this.lastS = -Infinity;
    this.endS = null;
    this.rows = new Float32Array(length * channels);
  }

  // Push one sample and its time; return the windows that are now complete.
  push(values, timeS) {
    if (!Number.isFinite(timeS) || timeS <= this.lastS || !values.every(Number.isFinite)) return [];
    if (timeS - this.lastS > this.limitS) this.#begin(timeS);
    const windows = [];
    for (let tick; (tick = this.originS + this.ticks / this.rateHz) <= timeS + this.slackS; this.ticks += 1) {
      const window = this.#keep(this.#at(tick, values, timeS), tick);
      if (window) windows.push(window);
    }
    this.lastS = timeS;
    this.last = values;
    return windows;
  }

  // The complete state, including the incomplete window.
  state() {
    return { ...this, rows: this.rows.slice() };
  }

  restore(state) {
    if (state.rows?.length !== this.rows.length) throw new Error("The stored window does not fit; press Delete data.");
    Object.assign(this, state, { rows: state.rows.slice() });
  }

  #begin(timeS) {
    Object.assign(this, { originS: timeS, ticks: 0, held: 0, skip: 0, fresh: true });
  }

  #at(tick, values, timeS) {
    if (tick >= timeS - this.slackS) return values;
    if (tick <= this.lastS + this.slackS) return this.last;
    const share = (tick - this.lastS) / (timeS - this.lastS);
    return values.map((value, c) => this.last[c] * (1 - share) + value * share);
  }

  #keep(row, tick) {
    if (this.skip > 0) {
      this.skip -= 1;
      return null;
    }
    this.rows.set(row, this.held * this.channels);
    this.held += 1;
    if (this.held < this.length) return null;
    const window = this.#window(tick - (this.length - 1) / this.rateHz);
    const used = Math.min(this.stride, this.length);
    this.rows.copyWithin(0, used * this.channels);
    this.held -= used;
    this.skip = this.stride - used;
    return window;
  }

  #window(startS) {
    const x = new Float32Array(this.rows.length);
    for (let t = 0; t < this.length; t += 1) {
      for (let c = 0; c < this.channels; c += 1) x[c * this.length + t] = this.rows[t * this.channels + c];
    }
    const gapS = this.fresh && this.endS !== null ? Math.max(0, startS - this.endS) : 0;
    this.fresh = false;
    this.endS = startS + this.length / this.rateHz;
    return { x, timeS: startS, gapS };
  }
}
