// The list of wearers with their latest prediction, a search field, and keyboard navigation.

import { formatDuration, make } from "./dom.js";

const IDLE_S = 10;

export class WearerList {
  constructor(list, search, onSelect) {
    Object.assign(this, { list, search, onSelect, wearers: [], selected: null });
    search.addEventListener("input", () => this.#draw());
    search.addEventListener("keydown", (event) => this.#onSearchKey(event));
    list.addEventListener("click", (event) => this.#select(event.target.closest("[role=option]")));
    list.addEventListener("keydown", (event) => this.#onListKey(event));
  }

  show(wearers, selected = this.selected) {
    Object.assign(this, { wearers, selected });
    this.#draw();
  }

  #draw() {
    const text = this.search.value.trim().toLowerCase();
    const shown = this.wearers.filter(({ wearer }) => wearer.toLowerCase().includes(text));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.wearer : null;
    const focusable = shown.some(({ wearer }) => wearer === this.selected) ? this.selected : shown[0]?.wearer;
    this.list.replaceChildren(...shown.map((row) => this.#option(row, row.wearer === focusable)));
    if (focused) [...this.list.children].find((node) => node.dataset.wearer === focused)?.focus();
  }

  #option({ wearer, method, label, idle_s: idle, count, error }, focusable) {
    const live = idle !== null && idle < IDLE_S;
    const idleText = idle === null ? null : `idle for ${formatDuration(idle)}`;
    const latest = live ? (label ?? "live") : [label, idleText].filter(Boolean).join(", ") || method;
    const status = error ? "damaged data" : count === 0 ? "no predictions yet" : latest;
    const dot = make("i", `dot ${live ? "live" : ""}`);
    const node = make("li", "", dot, make("span", "", wearer), make("span", "soft", status));
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(wearer === this.selected));
    node.setAttribute("aria-label", `${wearer}: ${live ? "live, " : ""}${status}`);
    node.tabIndex = focusable ? 0 : -1;
    node.dataset.wearer = wearer;
    return node;
  }

  // Enter selects the first match; the down arrow selects it and moves the focus there.
  #onSearchKey(event) {
    if (event.key === "Enter") this.#select(this.list.children[0]);
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    this.#focus(0);
  }

  #onListKey(event) {
    const options = [...this.list.children];
    const index = options.indexOf(document.activeElement);
    const [previous, next] = [index - 1, index + 1];
    const keys = { ArrowDown: next, ArrowRight: next, ArrowUp: previous, ArrowLeft: previous };
    const target = { ...keys, Home: 0, End: options.length - 1 }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      if (target < 0) this.search.focus();
      else this.#focus(target);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#select(options[index]);
    }
  }

  #focus(index) {
    const option = this.list.children[Math.min(index, this.list.children.length - 1)];
    option?.focus();
    this.#select(option);
  }

  #select(option) {
    if (!option || option.dataset.wearer === this.selected) return;
    this.selected = option.dataset.wearer;
    this.#draw();
    this.onSelect(this.selected);
  }
}
