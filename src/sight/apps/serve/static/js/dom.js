// Helpers for elements, colours, formats, downloads and timing.

import { slots } from "./palette.js";

export const byId = (id) => document.getElementById(id);

export function make(name, className, ...content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The CSS class with the colour of each class of a model, by its name.
export const colourClasses = (classes) => slots(classes).map((slot) => `k${slot}`);

// The name of a class behind a swatch of its colour.
export function classEntry(name, colourClass) {
  const swatch = make("i", `swatch ${colourClass}`);
  swatch.setAttribute("aria-hidden", "true");
  return make("span", "entry", swatch, make("span", "", name));
}

export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
export const onColourScheme = (act) => dark.addEventListener("change", act);

const twoDigits = (value) => String(Math.floor(value)).padStart(2, "0");
// Times in seconds since 1970 are shown as wall-clock time, smaller ones as time since the start of the stream.
const EPOCH_S = 1e9;
export function formatTime(seconds) {
  if (seconds >= EPOCH_S) {
    const date = new Date(seconds * 1000);
    return [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(":");
  }
  if (seconds < 0) return "";
  const whole = Math.floor(seconds + 1e-6);
  return `${Math.floor(whole / 3600)}:${twoDigits((whole / 60) % 60)}:${twoDigits(whole % 60)}`;
}

export function formatDuration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

// Close a dialog with its buttons marked `data-close`.
export function closable(dialog) {
  for (const button of dialog.querySelectorAll("[data-close]")) button.addEventListener("click", () => dialog.close());
  return dialog;
}

export function download(name, content, type) {
  const link = make("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const formatPercent = (share) => `${Math.round(100 * share)} %`;
export const formatBytes = (count) => (count < 1024 ? `${count} B` : `${(count / 1024).toFixed(1)} KB`);

// The share-th quantile of values in milliseconds, as text.
export function formatQuantile(values, share) {
  if (!values.length) return "–";
  const sorted = [...values].sort((a, b) => a - b);
  return `${sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(1)} ms`;
}

// Return a function that calls `act` soon, at most once per `wait` milliseconds.
export function throttle(act, wait) {
  let timer = null;
  let last = -Infinity;
  return () => {
    timer ??= setTimeout(
      () => {
        timer = null;
        last = performance.now();
        act();
      },
      Math.max(0, last + wait - performance.now()),
    );
  };
}
