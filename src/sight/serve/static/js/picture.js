// What adaptation has learned about a wearer: habits, likeness of the classes, time use.

import { byId, bytes, duration, entry, make, percent } from "./dom.js";
import { bars } from "./words.js";

export function showPicture(picture, classes) {
  for (const id of ["habit", "similarity", "time-use"]) byId(id).hidden = !picture;
  for (const note of document.querySelectorAll(".no-picture")) note.hidden = Boolean(picture);
  if (!picture) return;
  bars(byId("habit"), classes, picture.habit, percent);
  bars(byId("time-use"), classes, picture.time_use_s, duration);
  similarity(byId("similarity"), classes, picture.similarity);
  byId("count").textContent = picture.count;
  byId("state-size").textContent = bytes(picture.state_bytes);
}

// Cosines from -1 to 1 as a table that is also a heat map.
function similarity(table, classes, cosines) {
  const head = make("tr", "", make("td"), ...classes.map((name, k) => column(name, k)));
  const rows = cosines.map((row, i) => {
    const name = make("th", "", entry(classes[i], i));
    name.scope = "row";
    return make("tr", "", name, ...row.map((value, j) => cell(value, i === j)));
  });
  table.replaceChildren(
    make("caption", "unseen", "Cosine between the prototypes of two classes"),
    make("thead", "", head),
    make("tbody", "", ...rows),
  );
}

function column(name, k) {
  const node = make("th", "", entry("", k), make("span", "unseen", name));
  node.scope = "col";
  node.title = name;
  return node;
}

function cell(value, self) {
  const node = make("td", self ? "same" : value > 0.55 ? "hot" : "", self ? "1" : value.toFixed(2).replace("0.", "."));
  node.style.setProperty("--v", self ? 0 : Math.max(0, value));
  return node;
}
