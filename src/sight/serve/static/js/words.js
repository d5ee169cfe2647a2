// What the drawings show, as text and plain elements; both pages use it.

import { clock, entry, kindOf, make, percent } from "./dom.js";
import { score } from "./past.js";

export function legend(node, classes) {
  node.replaceChildren(...classes.map((name, k) => make("li", "", entry(name, k))));
}

// Which line is which channel, as the timeline draws them.
export function signalLegend(node, names) {
  node.replaceChildren(
    ...names.map((name, c) => make("li", "", make("i", `line s${c % 3} ${c > 2 ? "dashed" : ""}`), name)),
  );
}

export const certainty = (shares) => percent(Math.max(...shares));

// The newest answer, large, and the raw one beside it.
export function now(node, event, classes) {
  if (!event) return node.replaceChildren(make("p", "soft", "No window has been answered yet."));
  const refined = make("p", "answer", entry(event.label, classes.indexOf(event.label)), certain(event.q));
  const raw = make("p", "raw", "raw ", entry(event.raw, classes.indexOf(event.raw)), certain(event.p));
  node.replaceChildren(refined, raw);
}

const certain = (shares) => make("span", "soft", certainty(shares));

export function sentence(event) {
  if (!event) return "";
  const agreed = event.raw === event.label ? "raw agrees" : `raw says ${event.raw} (${certainty(event.p)})`;
  const surprise = event.surprise === null ? "" : `; surprise ${event.surprise.toFixed(2)}`;
  const gap = event.gap_s > 0 ? `; after a gap of ${event.gap_s.toFixed(0)} s` : "";
  return `${clock(event.time_s)}: ${event.label} (${certainty(event.q)}), ${agreed}${surprise}${gap}`;
}

// Rows of the newest windows, for readers who do not see the drawings.
export function rows(body, events, count = 12) {
  body.replaceChildren(
    ...events
      .slice(-count)
      .reverse()
      .map((event) => {
        const cells = [
          clock(event.time_s),
          `${event.label} ${certainty(event.q)}`,
          `${event.raw} ${certainty(event.p)}`,
          event.surprise === null ? "–" : event.surprise.toFixed(2),
        ];
        return make("tr", "", ...cells.map((text, i) => make("td", i === 3 ? "number" : "", text)));
      }),
  );
}

// What a picture of habits tells depends on what the method keeps.
const HABITS = {
  sight: "How often each class came lately: SIGHT’s short memory.",
  keel: "How much of this life each class has had, from the first window on, as Keel counts it.",
};
export const habitNote = (method) =>
  HABITS[method] ?? "This method keeps no habits; these are the refined answers of the day.";

export function likenessNote(method) {
  const whose = method === "sight" ? "as this wearer has shaped them" : "the model’s own, the same for every wearer";
  return `Cosine between the prototypes of two classes, ${whose}: the stronger the colour, the easier they are confused.`;
}

// One labelled bar for each class, as long as its part of the whole; `text` turns an amount into words.
export function bars(node, classes, amounts, text) {
  const whole = Math.max(
    amounts.reduce((a, b) => a + b, 0),
    1e-9,
  );
  node.replaceChildren(
    ...classes.map((name, k) => {
      const bar = make("span", `bar ${kindOf(k)}`);
      bar.style.setProperty("--share", amounts[k] / whole);
      return make(
        "li",
        "",
        make("span", "name", name),
        make("span", "track", bar),
        make("span", "number", text(amounts[k])),
      );
    }),
  );
}

export function right(events) {
  const shares = score(events);
  return shares ? `${percent(shares[0])} raw, ${percent(shares[1])} refined` : "–";
}

export function summary(events, changes) {
  if (!events.length) return "No windows yet.";
  const counts = new Map();
  for (const { label } of events) counts.set(label, (counts.get(label) ?? 0) + 1);
  const shares = [...counts].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${percent(n / events.length)}`);
  const first = clock(events[0].time_s);
  return `From ${first}: ${events.length} windows, ${changes} transitions; refined: ${shares.join(", ")}.`;
}
