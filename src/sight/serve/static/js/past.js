// What is known of one wearer's recent past: answers by window number, and the signal since somebody looks.

const EVENTS = 8000,
  SAMPLES = 46_000;

// What the wearer did at a moment, from the starts of each activity: [[seconds, class], ...].
export const truthAt = (starts, timeS) => starts.findLast(([start]) => start <= timeS)?.[1] ?? null;

// Shares of right answers, raw and refined, where the truth is known; or null.
export function score(events) {
  const known = events.filter((event) => event.truth);
  if (!known.length) return null;
  return ["raw", "label"].map((name) => known.filter((event) => event[name] === event.truth).length / known.length);
}

export class Past {
  constructor() {
    this.events = [];
    this.times = [];
    this.values = [];
  }

  // Add answers as they come. A window may be told twice; an older one that reads otherwise means a stream that starts
  // over.
  add(events) {
    const newest = events.at(-1),
      last = this.events.at(-1)?.window ?? -1;
    if (!newest) return;
    const known =
      newest.window > last || this.events.some((event) => event.window === newest.window && same(event, newest));
    if (!known) this.events = [];
    if (events[0].window > last) this.events.push(...events);
    else this.fill(events);
    if (this.events.length > 1.1 * EVENTS) this.events = this.events.slice(-EVENTS);
  }

  // Put older answers into their places.
  fill(events) {
    const byWindow = new Map([...events, ...this.events].map((event) => [event.window, event]));
    this.events = [...byWindow.values()].sort((a, b) => a.window - b.window);
  }

  // The first stretch of windows inside the last `span` seconds that is missing here: [after, limit], or null.
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
    const strides = Math.ceil((first.time_s - from) / this.stride());
    const after = Math.max(-1, first.window - 1 - strides);
    return [after, first.window - 1 - after];
  }

  stride() {
    const [a, b] = this.events.slice(-2);
    return b ? Math.max(0.05, (b.time_s - a.time_s) / (b.window - a.window) - b.gap_s) : 1;
  }

  // Add samples; a clock that jumps leaves a hole in the line.
  hear(times, values) {
    const last = this.times.at(-1);
    if (last !== undefined && times[0] < last) this.times.length = this.values.length = 0;
    else if (last !== undefined && times[0] - last > 1) {
      this.times.push((last + times[0]) / 2);
      this.values.push(null);
    }
    this.times.push(...times);
    this.values.push(...values);
    if (this.times.length > 1.1 * SAMPLES) {
      this.times = this.times.slice(-SAMPLES);
      this.values = this.values.slice(-SAMPLES);
    }
  }

  // Times and one column of values for each chosen channel, between two moments.
  signal(channels, from, to = Infinity) {
    const [first, stop] = [from, to].map((at) => firstAfter(this.times, at));
    const rows = this.values.slice(first, stop);
    return { times: this.times.slice(first, stop), values: channels.map((c) => rows.map((row) => row?.[c] ?? null)) };
  }
}

// Where a moment would stand among increasing times.
function firstAfter(times, at) {
  const index = times.findIndex((time) => time > at);
  return index < 0 ? times.length : index;
}

const same = (a, b) => a.time_s === b.time_s && a.q.every((share, k) => share === b.q[k]);
