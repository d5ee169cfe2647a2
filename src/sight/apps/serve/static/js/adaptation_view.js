// What the method has learned about a wearer: class frequencies, similarity of classes, time use of the day.

import { byId, classEntry, colourClasses, formatBytes, formatDuration, formatPercent, make } from "./dom.js";

const FREQUENCY_NOTES = {
  method: "Share of each activity that the method has learned for this wearer. It prefers frequent activities when a window is unclear.",
  day: "Share of each activity today. The method of this wearer learns no shares.",
};
const PROTOTYPE_NOTES = { wearer: "for this wearer", model: "the same for all wearers" };

export function showAdaptation(summary, classes) {
  for (const id of ["frequencies", "similarity", "time-use"]) byId(id).hidden = !summary;
  for (const note of document.querySelectorAll(".no-adaptation")) note.hidden = Boolean(summary);
  if (!summary) return;
  showBars(byId("frequencies"), classes, summary.class_frequencies, formatPercent);
  showBars(byId("time-use"), classes, summary.time_use_s, formatDuration);
  showSimilarity(byId("similarity"), classes, summary.similarity);
  byId("frequencies-note").textContent = FREQUENCY_NOTES[summary.frequencies_from];
  byId("similarity-note").textContent =
    "The stronger the colour, the more alike two activities are to the model, " +
    `${PROTOTYPE_NOTES[summary.prototypes_from]} (cosine similarity of their prototypes, at most 1).`;
  byId("count").textContent = summary.count;
  byId("state-size").textContent = formatBytes(summary.state_bytes);
}

// One bar for each class, as long as its share of the total; `format` turns an amount into text.
export function showBars(list, classes, amounts, format) {
  const total = Math.max(
    amounts.reduce((a, b) => a + b, 0),
    1e-9,
  );
  const colours = colourClasses(classes);
  const rows = classes.map((name, k) => {
    const bar = make("span", `bar ${colours[k]}`);
    bar.style.setProperty("--share", amounts[k] / total);
    const parts = [make("span", "name", name), make("span", "track", bar), make("span", "number", format(amounts[k]))];
    return make("li", "", ...parts);
  });
  list.replaceChildren(...rows);
}

// Cosines from -1 to 1 as a table with coloured cells.
function showSimilarity(table, classes, cosines) {
  const header = (name, scope, ...content) => {
    const node = make("th", "", ...content);
    return Object.assign(node, { scope, title: name });
  };
  const colours = colourClasses(classes);
  const columns = classes.map((name, k) => header(name, "col", classEntry("", colours[k]), make("span", "unseen", name)));
  const rows = cosines.map((row, i) =>
    make("tr", "", header(classes[i], "row", classEntry(classes[i], colours[i])), ...row.map((value, j) => cell(value, i === j))),
  );
  table.replaceChildren(
    make("caption", "unseen", "Cosine similarity of the prototypes of two classes"),
    make("thead", "", make("tr", "", make("td"), ...columns)),
    make("tbody", "", ...rows),
  );
}

function cell(value, self) {
  const node = make("td", self ? "same" : value > 0.55 ? "hot" : "", self ? "1" : value.toFixed(2).replace("0.", "."));
  node.style.setProperty("--v", self ? 0 : Math.max(0, value));
  return node;
}
