// Signal, class bands and surprise over one common time axis.

import uPlot from "../vendor/uPlot.esm.js";
import { clock, colourOf, css, onScheme } from "./dom.js";

const NARROW = 560;
// The last label of the time axis is centred on its tick, and so may reach over the edge by half its width.
const BAND = 34,
  AXIS = 26,
  HALF_LABEL = 24;
const SYNC = uPlot.sync("timeline");

export class Timeline {
  // `lanes`: [{name, pick: event => class name or null}], drawn from top to bottom.
  constructor(root, lanes, { onPoint = () => {} } = {}) {
    Object.assign(this, { root, lanes, onPoint, plots: [] });
    this.view = { from: 0, to: 60, events: [], classes: [], windowS: 1, strideS: 1, signal: null, marks: [] };
    new ResizeObserver(() => this.#fit()).observe(root);
    onScheme(() => this.#build());
  }

  setLanes(lanes) {
    this.lanes = lanes;
    this.#build();
  }

  // Draw anew. `view`: from, to (s); events; classes; windowS, strideS; signal {names, times, values} or null.
  show(view) {
    const shape = (v) => JSON.stringify([v.classes, v.signal?.names ?? null]);
    const other = shape(view) !== shape(this.view);
    this.view = view;
    view.marks = transitions(view.events).map((event) => this.#span(event)[0]);
    if (other || !this.plots.length) this.#build();
    else this.plots.forEach((plot) => plot.setData(plot.sight.data()));
  }

  // The event whose band lies under a moment, or undefined.
  eventAt(timeS) {
    return this.view.events.findLast((event) => {
      const [start, end] = this.#span(event);
      return start <= timeS && timeS < end;
    });
  }

  // A window's answer is known at its end, so it is drawn over the last part of it.
  #span({ time_s }) {
    const { windowS, strideS } = this.view;
    return [time_s + windowS - strideS, time_s + windowS];
  }

  #build() {
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
    if (!this.root.clientWidth) return;
    if (this.view.signal) this.#add("signal", 132, this.#signal());
    this.#add("bands", BAND * this.lanes.length + 12, this.#bands());
    this.#add("surprise", 92 + AXIS, this.#surprise());
  }

  #add(kind, height, { data, ...options }) {
    const common = {
      class: kind,
      width: this.root.clientWidth,
      height,
      legend: { show: false },
      cursor: {
        sync: { key: SYNC.key, setSeries: false },
        drag: { x: false, y: false },
        y: false,
        points: { show: false },
      },
      padding: [6, HALF_LABEL, kind === "surprise" ? 0 : 6, 0],
    };
    const plot = new uPlot({ ...common, ...options }, data(), this.root);
    plot.sight = { data };
    this.plots.push(plot);
  }

  #fit() {
    const width = this.root.clientWidth;
    if (!this.plots.length) this.#build();
    else if (width && width !== this.plots[0].width) this.plots.forEach((p) => p.setSize({ width, height: p.height }));
  }

  #x = () => ({ time: false, range: () => [this.view.from, this.view.to] });

  #axes(y, last = false) {
    const stroke = css("--soft"),
      grid = { stroke: css("--hair"), width: 1 },
      font = `11px ${css("--sans")}`;
    const space = this.root.clientWidth < NARROW ? 74 : 96;
    const x = { show: last, stroke, font, grid, ticks: grid, size: AXIS, space, values: (_, at) => at.map(clock) };
    x.incrs = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    const size = this.root.clientWidth < NARROW ? 54 : 74;
    return [x, { stroke, font, grid, ticks: { show: false }, gap: 6, size, ...y }];
  }

  #signal() {
    const { signal } = this.view;
    const tones = [css("--ink"), css("--accent"), css("--soft")];
    return {
      data: () => [this.view.signal.times, ...this.view.signal.values],
      scales: { x: this.#x(), y: { range: (_, low, high) => padded(low, high) } },
      axes: this.#axes({ space: 34 }),
      series: [
        {},
        ...signal.names.map((_, c) => ({
          stroke: tones[c % 3],
          width: 1,
          dash: c > 2 ? [4, 3] : undefined,
          points: { show: false },
        })),
      ],
    };
  }

  #bands() {
    const count = this.lanes.length,
      names = this.lanes.map((lane) => lane.name);
    return {
      data: () => [this.#times(), this.#times().map(() => null)],
      scales: { x: this.#x(), y: { range: () => [0, count] } },
      axes: this.#axes({
        splits: () => names.map((_, i) => count - i - 0.5),
        values: () => names,
        grid: { show: false },
      }),
      series: [{}, { points: { show: false } }],
      hooks: { draw: [(plot) => this.#paint(plot)], setCursor: [(plot) => this.#point(plot)] },
    };
  }

  #surprise() {
    const paint = (plot) => this.#paintMarks(plot);
    return {
      data: () => [this.#times(), this.view.events.map((event) => event.surprise)],
      scales: { x: this.#x(), y: { range: (_, low, high) => [0, Math.max(1, high ?? 1)] } },
      axes: this.#axes({ splits: () => [0, 0.5, 1], values: () => ["0", "surprise", "1"] }, true),
      series: [
        {},
        { stroke: css("--ink"), width: 1.4, fill: css("--wash"), points: { show: false }, gaps: this.#gaps() },
      ],
      hooks: { drawAxes: [paint] },
    };
  }

  #times() {
    return this.view.events.map((event) => this.#span(event)[1]);
  }

  // No line over a gap of the sensor.
  #gaps() {
    return (plot, _, from, to, nulls) => {
      const { events } = this.view,
        found = [...nulls];
      for (let i = Math.max(1, from); i <= to; i += 1) {
        if (!(events[i].gap_s > 0)) continue;
        const ends = [plot.data[0][i - 1], plot.data[0][i]];
        found.push(ends.map((at) => Math.round(plot.valToPos(at, "x", true))));
      }
      return found.sort((a, b) => a[0] - b[0]);
    };
  }

  #paint(plot) {
    const { ctx } = plot,
      { left, top, width, height } = plot.bbox,
      dots = devicePixelRatio;
    const colours = new Map(this.view.classes.map((name, k) => [name, colourOf(k)]));
    const tall = height / this.lanes.length,
      inset = 3 * dots;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    this.lanes.forEach((lane, row) => {
      ctx.fillStyle = css("--hair");
      ctx.fillRect(left, top + row * tall + inset, width, tall - 2 * inset);
      for (const [start, end, name] of this.#runs(lane)) {
        const x = Math.round(plot.valToPos(start, "x", true)),
          stop = Math.round(plot.valToPos(end, "x", true));
        ctx.fillStyle = colours.get(name) ?? css("--hatch");
        ctx.fillRect(x, top + row * tall + inset, Math.max(1, stop - x), tall - 2 * inset);
      }
    });
    ctx.restore();
  }

  // Neighbouring windows with one answer become one rectangle.
  #runs(lane) {
    const runs = [];
    for (const event of this.view.events) {
      const [start, end] = this.#span(event),
        name = lane.pick(event),
        last = runs.at(-1);
      if (name === null || end < this.view.from) continue;
      if (last && last[2] === name && start - last[1] < 1e-3) last[1] = end;
      else runs.push([start, end, name]);
    }
    return runs;
  }

  #paintMarks(plot) {
    const { ctx } = plot,
      { top, height } = plot.bbox;
    ctx.save();
    ctx.strokeStyle = css("--accent");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const at of this.view.marks) {
      if (at < this.view.from || at > this.view.to) continue;
      const x = Math.round(plot.valToPos(at, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #point(plot) {
    const { left } = plot.cursor;
    this.onPoint(left >= 0 ? this.eventAt(plot.posToVal(left, "x")) : undefined);
  }
}

// The windows at which the refined answer changes.
export const transitions = (events) => events.filter((event, i) => i > 0 && event.label !== events[i - 1].label);

function padded(low, high) {
  if (low === null || high === null) return [-1, 1];
  const room = Math.max(0.05 * (high - low), 1e-3);
  return [low - room, high + room];
}
