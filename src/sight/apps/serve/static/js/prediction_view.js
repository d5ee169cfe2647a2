// The part that both pages share: latest prediction, timeline, legends, table of the last windows, and descriptions for
// screen readers. A model here is an object with classes, channels, units, window_s and stride_s.

import { byId, classEntry, colourClasses, formatDuration, formatPercent, formatTime, make, throttle } from "./dom.js";
import { Timeline, transitions } from "./timeline.js";

const LANES = [
  { name: "model alone", pick: (event) => event.raw },
  { name: "adapted", pick: (event) => event.label },
];
const TRUTH = { name: "truth", pick: (event) => event.truth };
const TABLE_ROWS = 12;
const ANNOUNCE_MS = 10_000;

export class PredictionView {
  constructor() {
    this.model = null;
    this.latest = null;
    const showReadout = (event) => (byId("readout").textContent = describe(event));
    this.timeline = new Timeline(byId("timeline"), LANES, showReadout);
    this.announce = throttle(() => (byId("announcement").textContent = describe(this.latest)), ANNOUNCE_MS);
  }

  setModel(model, { truth = false, unit = model.units[0] } = {}) {
    this.model = model;
    this.channels = model.units.flatMap((own, c) => (own === unit ? [c] : [])); // channels of one unit share an axis
    this.setTruth(truth);
    this.colours = colourClasses(model.classes);
    byId("legend").replaceChildren(...model.classes.map((name, k) => make("li", "", classEntry(name, this.colours[k]))));
    const lines = this.channels.map((c, i) => {
      const line = make("i", `line s${i % 3} ${i > 2 ? "dashed" : ""}`);
      return make("li", "", line, `${model.channels[c]} (${unit})`);
    });
    byId("signal-legend").replaceChildren(...lines);
  }

  // Show or hide the lane of true activities.
  setTruth(truth) {
    const lanes = truth ? [TRUTH, ...LANES] : LANES;
    if (this.timeline.lanes.length !== lanes.length) this.timeline.setLanes(lanes);
  }

  // Draw the events and signal of a history between two times, none later than `last`; return the events shown.
  draw(history, from, to, last = Infinity) {
    const { classes, channels, window_s: windowS, stride_s: strideS } = this.model;
    const events = history.events.filter(
      ({ time_s: start }) => start >= from - windowS && start + windowS <= last + 1e-6,
    );
    const signal = { names: this.channels.map((c) => channels[c]), ...history.signal(this.channels, from, last) };
    this.timeline.show({ from, to, events, classes, windowS, strideS, signal });
    byId("timeline").setAttribute("aria-label", summarise(events));
    this.showLatest(events.at(-1) ?? history.events.at(-1));
    if (byId("table").open) showTable(byId("rows"), events);
    return events;
  }

  // The latest refined prediction, large, and the raw one beside it.
  showLatest(event) {
    this.latest = event;
    if (!event) return byId("latest").replaceChildren(make("p", "soft", "No predictions yet."));
    const entry = (name) => classEntry(name, this.colours[this.model.classes.indexOf(name)]);
    const refined = make("p", "refined", entry(event.label), make("span", "soft", confidence(event.q)));
    const raw = make("p", "raw", "model alone: ", entry(event.raw), make("span", "soft", confidence(event.p)));
    byId("latest").replaceChildren(refined, raw);
  }
}

const confidence = (probabilities) => formatPercent(Math.max(...probabilities));
const formatSurprise = ({ surprise }) => (surprise === null ? "–" : surprise.toFixed(2));

// One sentence about a prediction.
function describe(event) {
  if (!event) return "";
  const raw = event.raw === event.label ? "as the model alone" : `model alone ${event.raw} (${confidence(event.p)})`;
  const surprise = event.surprise === null ? "" : `; surprise ${formatSurprise(event)}`;
  const gap = event.gap_s > 0 ? `; after a gap of ${event.gap_s.toFixed(0)} s` : "";
  return `${formatTime(event.time_s)}: ${event.label} (${confidence(event.q)}), ${raw}${surprise}${gap}`;
}

// One sentence about the events in view.
function summarise(events) {
  if (!events.length) return "No windows yet.";
  const counts = new Map();
  for (const { label } of events) counts.set(label, (counts.get(label) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const shares = sorted.map(([name, count]) => `${name} ${formatPercent(count / events.length)}`);
  const facts = `${events.length} windows, ${transitions(events).length} transitions`;
  return `From ${formatTime(events[0].time_s)}: ${facts}; refined: ${shares.join(", ")}.`;
}

function showTable(body, events) {
  const rows = events.slice(-TABLE_ROWS).map((event) => {
    const refined = `${event.label} ${confidence(event.q)}`;
    const raw = `${event.raw} ${confidence(event.p)}`;
    const cells = [formatTime(event.time_s), refined, raw].map((text) => make("td", "", text));
    return make("tr", "", ...cells, make("td", "number", formatSurprise(event)));
  });
  body.replaceChildren(...rows.reverse());
}

// Shares of correct predictions of the model alone and after adaptation, as two bars; hidden if no true class is known.
export function showScore(events, strideS) {
  const known = events.filter((event) => event.truth);
  byId("score").hidden = !known.length;
  if (!known.length) return;
  const share = (name) => known.filter((event) => event[name] === event.truth).length / known.length;
  byId("score-span").textContent = formatDuration(known.length * strideS);
  for (const [id, name] of [
    ["score-raw", "raw"],
    ["score-refined", "label"],
  ]) {
    byId(id).textContent = formatPercent(share(name));
    byId(`${id}-bar`).style.setProperty("--share", share(name));
  }
}
