// Recent events and signal of one wearer.

const MAX_EVENTS = 8000;
const MAX_SAMPLES = 46_000;

// The true class at a time, from the start of each activity: [[seconds, class], ...].
export const truthAt = (starts, timeS) => starts.findLast(([start]) => start <= timeS)?.[1] ?? null;

export class History {
  events = [];
  times = [];
  values = [];

  // Add events as they arrive. Known windows are ignored; an older window with other values means a restarted stream.
  add(events) {
    const newest = events.at(-1);
    const last = this.events.at(-1)?.window ?? -1;
    if (!newest) return;
    const known = this.events.find((event) => event.window === newest.window);
    if (newest.window <= last && !(known && equal(known, newest))) this.events = [];
    if (events[0].window > last) this.events.push(...events);
    else this.insert(events);
    if (this.events.length > 1.1 * MAX_EVENTS) this.events = this.events.slice(-MAX_EVENTS);
  }

  // Insert older events in order.
  insert(events) {
    const byWindow = new Map([...events, ...this.events].map((event) => [event.window, event]));
    this.events = [...byWindow.values()].sort((a, b) => a.window - b.window);
  }

  // The latest range of windows in the last `span` seconds that is missing: [after, limit], or null.
  missing(span) {
    const { events } = this;
    if (!events.length) return null;
    const from = events.at(-1).time_s - span;
    let next = events.at(-1).window;
    for (let i = events.length - 1; i >= 0 && events[i].time_s >= from; i -= 1) {
      if (events[i].window < next - 1) return [events[i].window, next - events[i].window - 1];
      next = events[i].window;
    }
    const first = events[0];
    if (next !== first.window || first.window === 0 || first.time_s < from) return null;
    const strides = Math.ceil((first.time_s - from) / this.#stride());
    const after = Math.max(-1, first.window - 1 - strides);
    return [after, first.window - 1 - after];
  }

  #stride() {
    const [a, b] = this.events.slice(-2);
    return b ? Math.max(0.05, (b.time_s - a.time_s) / (b.window - a.window) - b.gap_s) : 1;
  }

  // Add samples. A gap in time interrupts the line; a step back in time starts the signal again.
  addSamples(times, values) {
    const last = this.times.at(-1);
    if (last !== undefined && times[0] < last) this.times.length = this.values.length = 0;
    else if (last !== undefined && times[0] - last > 1) {
      this.times.push((last + times[0]) / 2);
      this.values.push(null);
    }
    this.times.push(...times);
    this.values.push(...values);
    if (this.times.length > 1.1 * MAX_SAMPLES) {
      this.times = this.times.slice(-MAX_SAMPLES);
      this.values = this.values.slice(-MAX_SAMPLES);
    }
  }

  // Times, and one column of values for each given channel, between two times.
  signal(channels, from, to) {
    const [first, stop] = [from, to].map((at) => indexAfter(this.times, at));
    const rows = this.values.slice(first, stop);
    return { times: this.times.slice(first, stop), values: channels.map((c) => rows.map((row) => row?.[c] ?? null)) };
  }
}

function indexAfter(times, at) {
  const index = times.findIndex((time) => time > at);
  return index < 0 ? times.length : index;
}

const equal = (a, b) => a.time_s === b.time_s && a.q.every((share, k) => share === b.q[k]);
