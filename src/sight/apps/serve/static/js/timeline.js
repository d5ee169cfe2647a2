// Signal, class bands and surprise on one time axis.

import uPlot from "../vendor/uPlot.esm.js";
import { colourClasses, css, formatTime, onColourScheme } from "./dom.js";

const NARROW = 560;
const BAND = 34;
const AXIS = 26;
// The last label of the time axis is centred on its tick and may extend beyond the plot by half its width.
const HALF_LABEL = 24;
const SYNC = uPlot.sync("timeline");

export class Timeline {
  // `lanes`: [{name, pick: event => class name or null}], from top to bottom. `onPoint` gets the event under the cursor.
  constructor(root, lanes, onPoint) {
    Object.assign(this, { root, lanes, onPoint, plots: [] });
    this.view = { from: 0, to: 60, events: [], classes: [], windowS: 1, strideS: 1, signal: null, marks: [] };
    new ResizeObserver(() => this.#fit()).observe(root);
    onColourScheme(() => this.#build());
  }

  setLanes(lanes) {
    this.lanes = lanes;
    this.#build();
  }

  // Draw a view: from, to (s); events; classes; windowS, strideS; signal {names, times, values}.
  show(view) {
    const shape = ({ classes, signal }) => JSON.stringify([classes, signal?.names]);
    const changed = shape(view) !== shape(this.view);
    this.view = view;
    view.marks = transitions(view.events).map((event) => this.#span(event)[0]);
    if (changed || !this.plots.length) this.#build();
    else this.plots.forEach((plot) => plot.setData(plot.sight.data()));
  }

  // A prediction is known at the end of its window, so it is drawn over the last stride of the window.
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
    const narrow = this.root.clientWidth < NARROW;
    const style = { stroke: css("--soft"), font: `11px ${css("--sans")}`, grid: { stroke: css("--hair"), width: 1 } };
    const incrs = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    const values = (_, times) => times.map(formatTime);
    const x = { ...style, show: last, ticks: style.grid, size: AXIS, space: narrow ? 74 : 96, incrs, values };
    return [x, { ...style, ticks: { show: false }, gap: 6, size: narrow ? 78 : 84, ...y }];
  }

  #signal() {
    const colours = [css("--line-0"), css("--line-1"), css("--line-2")];
    const points = { show: false };
    return {
      data: () => [this.view.signal.times, ...this.view.signal.values],
      scales: { x: this.#x(), y: { range: (_, low, high) => padded(low, high) } },
      axes: this.#axes({ space: 34 }),
      series: [
        {},
        ...this.view.signal.names.map((_, c) => {
          return { stroke: colours[c % 3], width: 1.25, dash: c > 2 ? [4, 3] : undefined, points };
        }),
      ],
    };
  }

  #bands() {
    const names = this.lanes.map((lane) => lane.name);
    const splits = () => names.map((_, i) => names.length - i - 0.5);
    return {
      data: () => [this.#times(), this.#times().map(() => null)],
      scales: { x: this.#x(), y: { range: () => [0, names.length] } },
      axes: this.#axes({ splits, values: () => names, grid: { show: false } }),
      series: [{}, { points: { show: false } }],
      hooks: { draw: [(plot) => this.#paint(plot)], setCursor: [(plot) => this.#point(plot)] },
    };
  }

  #surprise() {
    const line = { stroke: css("--ink"), width: 1.4, fill: css("--wash"), points: { show: false }, gaps: this.#gaps() };
    return {
      data: () => [this.#times(), this.view.events.map((event) => event.surprise)],
      scales: { x: this.#x(), y: { range: (_, low, high) => [0, Math.max(1, high ?? 1)] } },
      axes: this.#axes({ splits: () => [0, 0.5, 1], values: () => ["0", "surprise", "1"] }, true),
      series: [{}, line],
      hooks: { drawAxes: [(plot) => this.#paintMarks(plot)] },
    };
  }

  #times() {
    return this.view.events.map((event) => this.#span(event)[1]);
  }

  // Interrupt the line at gaps in the signal.
  #gaps() {
    return (plot, _, from, to, nulls) => {
      const gaps = [...nulls];
      for (let i = Math.max(1, from); i <= to; i += 1) {
        if (!(this.view.events[i].gap_s > 0)) continue;
        const ends = [plot.data[0][i - 1], plot.data[0][i]];
        gaps.push(ends.map((timeS) => Math.round(plot.valToPos(timeS, "x", true))));
      }
      return gaps.sort((a, b) => a[0] - b[0]);
    };
  }

  #paint(plot) {
    const { ctx, bbox } = plot;
    const colourOf = colourClasses(this.view.classes);
    const colours = new Map(this.view.classes.map((name, k) => [name, css(`--${colourOf[k]}`)]));
    const laneHeight = bbox.height / this.lanes.length;
    const inset = 3 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.lanes.forEach((lane, row) => {
      const top = bbox.top + row * laneHeight + inset;
      const fill = (colour, x, width) => {
        ctx.fillStyle = colour;
        ctx.fillRect(x, top, width, laneHeight - 2 * inset);
      };
      fill(css("--hair"), bbox.left, bbox.width);
      for (const [start, end, name] of this.#runs(lane)) {
        const [x, stop] = [start, end].map((timeS) => Math.round(plot.valToPos(timeS, "x", true)));
        fill(colours.get(name) ?? css("--hatch"), x, Math.max(1, stop - x));
      }
    });
    ctx.restore();
  }

  // Consecutive windows of one class as [start, end, class].
  #runs(lane) {
    const runs = [];
    for (const event of this.view.events) {
      const [start, end] = this.#span(event);
      const name = lane.pick(event);
      const last = runs.at(-1);
      if (name === null || end < this.view.from) continue;
      if (last && last[2] === name && start - last[1] < 1e-3) last[1] = end;
      else runs.push([start, end, name]);
    }
    return runs;
  }

  #paintMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = css("--accent");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const timeS of this.view.marks) {
      if (timeS < this.view.from || timeS > this.view.to) continue;
      const x = Math.round(plot.valToPos(timeS, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #point(plot) {
    const timeS = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : NaN;
    const covers = ([start, end]) => start <= timeS && timeS < end;
    this.onPoint(this.view.events.findLast((event) => covers(this.#span(event))));
  }
}

// The windows at which the refined class changes.
export const transitions = (events) => events.filter((event, i) => i > 0 && event.label !== events[i - 1].label);

function padded(low, high) {
  if (low === null || high === null) return [-1, 1];
  const margin = Math.max(0.05 * (high - low), 1e-3);
  return [low - margin, high + margin];
}
