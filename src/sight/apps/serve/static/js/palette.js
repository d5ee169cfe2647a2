// Colours of classes by name, as src/sight/results/report/palette.py assigns them.
import { KINDS, SPARE, WHOLE_WORDS, WORDS } from "./palette_words.js";

const matches = (word, start) => (WHOLE_WORDS.includes(start) ? word === start : word.startsWith(start));

function slotOfKind(name) {
  const words = name.toLowerCase().match(/[a-z]+/g) ?? [];
  const start = Object.keys(WORDS).find((key) => words.some((word) => matches(word, key)));
  return start === undefined ? null : KINDS.indexOf(WORDS[start]);
}

const hash = (text) => new TextEncoder().encode(text).reduce((value, byte) => (Math.imul(31, value) + byte) >>> 0, 0);

// Returns the number n of the CSS class `k{n}` of each class of a model.
export function slots(classes) {
  const taken = new Set();
  const found = [];
  const order = [...classes.keys()].sort((a, b) =>
    classes[a].length - classes[b].length || (classes[a] < classes[b] ? -1 : Number(classes[a] > classes[b])));
  for (const k of order) {
    let slot = slotOfKind(classes[k]);
    if (slot === null || taken.has(slot)) {
      const first = hash(classes[k].toLowerCase());
      const wanted = Array.from({ length: SPARE }, (_, i) => KINDS.length + ((first + i) % SPARE));
      slot = wanted.find((spare) => !taken.has(spare)) ?? wanted[0];
    }
    taken.add(slot);
    found[k] = slot;
  }
  return found;
}
