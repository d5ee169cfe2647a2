// What the drawings show, as text and plain elements; both pages use it.

import { clock, entry, kindOf, make, percent } from "./dom.js";

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

// One labelled bar for each class; `text` turns a share into words.
export function bars(node, classes, shares, text) {
  const most = Math.max(...shares, 1e-9);
  node.replaceChildren(
    ...classes.map((name, k) => {
      const bar = make("span", `bar ${kindOf(k)}`);
      bar.style.setProperty("--share", shares[k] / most);
      return make(
        "li",
        "",
        make("span", "name", name),
        make("span", "track", bar),
        make("span", "number", text(shares[k])),
      );
    }),
  );
}

export function summary(events, changes) {
  if (!events.length) return "No windows yet.";
  const counts = new Map();
  for (const { label } of events) counts.set(label, (counts.get(label) ?? 0) + 1);
  const shares = [...counts].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${percent(n / events.length)}`);
  const first = clock(events[0].time_s);
  return `From ${first}: ${events.length} windows, ${changes} transitions; refined: ${shares.join(", ")}.`;
}
