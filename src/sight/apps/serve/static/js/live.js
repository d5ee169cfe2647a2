// The live page: the predictions of one wearer at a time, as the service makes them.

import { showAdaptation } from "./adaptation_view.js";
import { WearerForm } from "./add_wearer.js";
import { LiveSocket, REFUSED, Unauthorised, get, token, wearerPath } from "./api.js";
import { byId, formatQuantile, make, reducedMotion, throttle } from "./dom.js";
import { History, truthAt } from "./history.js";
import { PredictionView, showScore } from "./prediction_view.js";
import { WearerData } from "./wearer_data.js";
import { WearerList } from "./wearer_list.js";

const LIST_MS = 3000;
const MAX_LATENCIES = 120;
const MAX_REQUEST = 1000;

// `info` is the first message about the wearer; `pausedAt` the time at which the view is paused, or null.
const page = { wearer: null, info: null, history: new History(), pausedAt: null, span: 300, latencies: [] };
const view = new PredictionView();
const wearerList = new WearerList(byId("wearers"), byId("search"), watch);
const socket = new LiveSocket(onMessage, onConnection);
const drawSoon = throttle(draw, reducedMotion.matches ? 1000 : 100);
const form = new WearerForm((wearer) => (refresh(), watch(wearer)));
new WearerData(() => page.info, {
  onReset: watch,
  onDeleted() {
    page.wearer = page.info = null;
    refresh();
  },
});
let loadingHistory = false;

// The list of wearers

async function refresh() {
  try {
    const { wearers } = await get("/v1/wearers");
    byId("gate").hidden = true;
    wearerList.show(wearers.map((row) => (row.wearer === page.wearer ? { ...row, ...latestOfWatched() } : row)));
    byId("empty").hidden = wearers.length > 0;
    byId("view").hidden = !wearers.length;
    const requested = decodeURIComponent(location.hash.slice(1));
    const first = wearers.find(({ wearer }) => wearer === requested) ?? wearers[0];
    if (first && page.wearer === null) watch(first.wearer);
  } catch (error) {
    if (error instanceof Unauthorised) showGate(error.message);
  }
}

async function refreshRepeatedly() {
  await refresh();
  setTimeout(refreshRepeatedly, LIST_MS);
}

// The watched wearer's latest event may be newer than the list.
function latestOfWatched() {
  const last = page.history.events.at(-1);
  if (!last || !page.receivedMs) return {};
  return { label: last.label, count: last.window + 1, idle_s: (Date.now() - page.receivedMs) / 1000 };
}

function showGate(reason) {
  byId("gate").hidden = false;
  byId("view").hidden = byId("empty").hidden = true;
  byId("gate-note").textContent = token.get() ? reason : "";
}

// The watched wearer

function watch(wearer) {
  Object.assign(page, { wearer, info: null, history: new History(), latencies: [], receivedMs: null });
  if (page.pausedAt !== null) togglePause();
  location.replace(`#${encodeURIComponent(wearer)}`);
  wearerList.show(wearerList.wearers, wearer);
  byId("name").textContent = wearer;
  document.title = `${wearer} · sight`;
  byId("about").textContent = "";
  byId("data-note").textContent = "";
  byId("score").hidden = true;
  showAdaptation(null, []);
  socket.watch(wearer);
}

const handlers = {
  hello(message) {
    page.info = message;
    page.history.events = message.history.map(withTruth);
    const { method, channels, rate_hz: rate, window_s: windowS, stride_s: strideS, truth } = message;
    byId("about").textContent =
      `${method} · ${channels.length} channels at ${rate} Hz · windows of ${windowS} s every ${strideS} s`;
    for (const node of document.querySelectorAll(".with-truth")) node.hidden = !truth;
    showUnits(message.units);
    setModel();
    byId("model").textContent = message.model;
    handlers.adaptation(message.adaptation);
    loadHistory();
  },
  event(message) {
    page.receivedMs = Date.now();
    page.history.add(withTruth(message));
    page.latencies = [...page.latencies, message.latency_ms].slice(-MAX_LATENCIES);
  },
  signal: ({ time_s: times, values }) => page.history.addSamples(times, values),
  adaptation: (message) => showAdaptation(message.count ? message : null, page.info.classes),
};

function onMessage(message) {
  if (message.type === "error") showNotice(message.error);
  else if (message.wearer === page.wearer && (page.info || message.type === "hello")) {
    handlers[message.type]?.(message);
    showNotice("");
  }
  drawSoon();
}

// The true activities of the demo's wearers, which repeat every `round_s` seconds.
function withTruth(event) {
  const { truth, window_s: windowS } = page.info;
  return truth ? { ...event, truth: truthAt(truth.starts, (event.time_s + windowS / 2) % truth.round_s) } : event;
}

const setModel = () =>
  view.setModel(page.info, { truth: Boolean(page.info.truth), unit: byId("unit").value || undefined });

function showUnits(units) {
  const distinct = [...new Set(units)];
  if (String(distinct) === byId("unit").dataset.units) return;
  byId("unit").dataset.units = distinct;
  byId("unit").replaceChildren(...distinct.map((unit) => make("option", "", unit)));
  byId("unit-field").hidden = distinct.length < 2;
}

const missingRange = () => page.info && page.history.missing(page.span, page.info.stride_s);

// Request the events of the time span that are older than those of the first message, latest first.
async function loadHistory() {
  if (loadingHistory) return;
  loadingHistory = true;
  try {
    for (let range, previous; (range = missingRange()) && String(range) !== previous; ) {
      previous = String(range);
      const { wearer, history } = page;
      const [after, limit] = range;
      const from = Math.max(after, after + limit - MAX_REQUEST);
      const { events } = await get(`${wearerPath(wearer)}/events?after=${from}&limit=${after + limit - from}`);
      const stillMissing = history === page.history && history.events[0]?.window === after + limit + 1;
      if (stillMissing) history.events.unshift(...events.map(withTruth));
    }
  } catch (error) {
    showNotice(error.message);
  } finally {
    loadingHistory = false;
    drawSoon();
  }
}

function onConnection(state, seconds, reason) {
  const text = {
    connected: "connected",
    connecting: "connecting …",
    refused: "token refused",
    waiting: `no connection; next attempt in ${Math.max(1, Math.round(seconds))} s`,
  }[state];
  if (byId("connection").textContent !== text) byId("connection").textContent = text;
  byId("connection").dataset.state = state;
  if (state === "refused") showGate(REFUSED);
  if (reason) showNotice(reason);
}

function showNotice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

// Drawing

function draw() {
  if (!page.info) return view.showLatest(null);
  const [from, to] = timeRange();
  view.draw(page.history, from, to, page.pausedAt ?? to);
  byId("latency").textContent = formatQuantile(page.latencies, 0.5);
  byId("latency-slow").textContent = formatQuantile(page.latencies, 0.95);
  showScore(page.history.events, page.info.stride_s);
  byId("quiet").hidden = page.history.events.length > 0;
  view.announce();
}

// The time span up to now; a stream that is shorter than the span starts at the left.
function timeRange() {
  const to = page.pausedAt ?? latestTime();
  const first = page.history.events[0];
  const from = first?.window === 0 ? Math.max(to - page.span, first.time_s) : to - page.span;
  return [from, from + page.span];
}

function latestTime() {
  const last = page.history.events.at(-1);
  return Math.max((last?.time_s ?? 0) + page.info.window_s, page.history.times.at(-1) ?? 0);
}

function togglePause() {
  page.pausedAt = page.pausedAt === null && page.info ? latestTime() : null;
  byId("pause").textContent = page.pausedAt === null ? "Pause" : "Resume";
  byId("pause").setAttribute("aria-pressed", String(page.pausedAt !== null));
  draw();
}

byId("add").addEventListener("click", () => form.open());
byId("add-first").addEventListener("click", () => form.open());
byId("how").addEventListener("click", () => page.info && form.showHow(page.info));
byId("pause").addEventListener("click", togglePause);
byId("unit").addEventListener("change", () => (setModel(), draw()));
byId("table").addEventListener("toggle", draw);
byId("spans").addEventListener("click", ({ target }) => {
  if (!target.dataset.span) return;
  for (const button of byId("spans").children) button.setAttribute("aria-pressed", String(button === target));
  page.span = Number(target.dataset.span);
  draw();
  loadHistory();
});
byId("gate-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  await refresh();
  socket.connect();
});
refreshRepeatedly();
