// The list of wearers: who is there, what they do, when they were last heard.

import { duration, make } from "./dom.js";

const QUIET_S = 10;

export class Wearers {
  constructor(list, search, choose) {
    Object.assign(this, { list, search, choose, all: [], chosen: null });
    search.addEventListener("input", () => this.#draw());
    search.addEventListener("keydown", (event) => this.#seek(event));
    list.addEventListener("click", (event) => this.#pick(event.target.closest("[role=option]")));
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  show(wearers, chosen = this.chosen) {
    this.all = wearers;
    this.chosen = chosen;
    this.#draw();
  }

  #draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const shown = this.all.filter(({ wearer }) => wearer.toLowerCase().includes(wanted));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.wearer : null;
    const reachable = shown.some(({ wearer }) => wearer === this.chosen) ? this.chosen : shown[0]?.wearer;
    this.list.replaceChildren(...shown.map((facts) => this.#option(facts, facts.wearer === reachable)));
    if (focused) [...this.list.children].find((node) => node.dataset.wearer === focused)?.focus();
  }

  #option({ wearer, method, label, idle_s: idle = null, count, refused }, reachable) {
    const live = idle !== null && idle < QUIET_S;
    const quiet = idle === null ? null : `quiet for ${duration(idle)}`;
    const last = live ? (label ?? "live") : [label, quiet].filter(Boolean).join(", ") || method;
    const said = refused ? "damaged" : count === 0 ? "nothing yet" : last;
    const dot = make("i", `dot ${live ? "live" : ""}`);
    const node = make("li", "", dot, make("span", "who", wearer), make("span", "soft", said));
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(wearer === this.chosen));
    node.setAttribute("aria-label", `${wearer}: ${live ? "live, " : ""}${said}`);
    node.tabIndex = reachable ? 0 : -1;
    node.dataset.wearer = wearer;
    return node;
  }

  // Enter takes the first that was found, the arrow also goes there.
  #seek(event) {
    if (event.key === "Enter") this.#pick(this.list.children[0]);
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    this.#focus(0);
  }

  #key(event) {
    const options = [...this.list.children],
      at = options.indexOf(document.activeElement);
    const to = {
      ArrowDown: at + 1,
      ArrowRight: at + 1,
      ArrowUp: at - 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: options.length - 1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      if (to < 0) this.search.focus();
      else this.#focus(to);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#pick(options[at]);
    }
  }

  #focus(index) {
    const option = this.list.children[Math.min(index, this.list.children.length - 1)];
    option?.focus();
    this.#pick(option);
  }

  #pick(option) {
    if (!option || option.dataset.wearer === this.chosen) return;
    this.chosen = option.dataset.wearer;
    this.#draw();
    this.choose(this.chosen);
  }
}
