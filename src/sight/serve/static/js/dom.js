// Small things that every module of the pages needs.

export const byId = (id) => document.getElementById(id);

export function make(name, kind, ...content) {
  const node = document.createElement(name);
  if (kind) node.className = kind;
  node.append(...content);
  return node;
}

// Classes past the palette share its colours again.
const COLOURED = 64;
export const kindOf = (index) => `k${index % COLOURED}`;

export function entry(name, index) {
  const swatch = make("i", `swatch ${kindOf(index)}`);
  swatch.setAttribute("aria-hidden", "true");
  return make("span", "entry", swatch, make("span", "", name));
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const colourOf = (index) => css(`--${kindOf(index)}`);

export const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
export const onScheme = (act) => dark.addEventListener("change", act);

const two = (value) => String(Math.floor(value)).padStart(2, "0");
// Streams that count from 1970 are shown by the clock on the wall, others by the time since their start.
const WALL = 1e9;
export function clock(seconds) {
  if (seconds >= WALL) {
    const at = new Date(seconds * 1000);
    return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  }
  if (seconds < 0) return "";
  const whole = Math.floor(seconds + 1e-6);
  return `${Math.floor(whole / 3600)}:${two((whole / 60) % 60)}:${two(whole % 60)}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const bytes = (count) => (count < 1024 ? `${count} B` : `${(count / 1024).toFixed(1)} KB`);

export function quantile(values, share) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

// Run `act` soon after the first call, at most once in `wait` milliseconds.
export function throttled(act, wait) {
  let timer = null,
    last = -Infinity;
  return () => {
    if (timer !== null) return;
    timer = setTimeout(
      () => {
        timer = null;
        last = performance.now();
        act();
      },
      Math.max(0, last + wait - performance.now()),
    );
  };
}
