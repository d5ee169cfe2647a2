// Recent events and signal of one wearer.

const MAX_EVENTS = 8000;
const MAX_SAMPLES = 46_000;

// The true class at a time, from the start of each activity: [[seconds, class], ...].
export const truthAt = (starts, timeS) => starts.findLast(([start]) => start <= timeS)?.[1] ?? null;

export class History {
  events = [];
  times = [];
  values = [];

  // Add the next event. Any other number than the next one means that the stream was restarted.
  add(event) {
    if (event.window !== (this.events.at(-1)?.window ?? -1) + 1) this.events = [];
    this.events.push(event);
    if (this.events.length > 1.1 * MAX_EVENTS) this.events = this.events.slice(-MAX_EVENTS);
  }

  // The windows of the last `span` seconds that are missing before the first event: [after, limit], or null.
  missing(span, strideS) {
    const { events } = this;
    const from = (events.at(-1)?.time_s ?? 0) - span;
    if (!events.length || events[0].window === 0 || events[0].time_s < from) return null;
    const last = events[0].window - 1;
    const after = Math.max(-1, last - Math.ceil((events[0].time_s - from) / strideS));
    return [after, last - after];
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
