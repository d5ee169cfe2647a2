// The live page: one wearer at a time, everything about it moving.

import { byId, calm, make, quantile, throttled } from "./dom.js";
import { Feed, REFUSALS, Unauthorised, ask, token } from "./feed.js";
import { Past, truthAt } from "./past.js";
import { showPicture } from "./picture.js";
import { Timeline, transitions } from "./timeline.js";
import { Wearers } from "./wearers.js";
import * as words from "./words.js";

const LIST_MS = 3000,
  LATENCIES = 120;
const lanes = [
  { name: "raw", pick: (event) => event.raw },
  { name: "refined", pick: (event) => event.label },
];

const truth = { name: "truth", pick: (event) => event.truth };

const page = {
  wearer: null,
  facts: null,
  past: new Past(),
  paused: null,
  span: 300,
  latencies: [],
  filling: false,
  heardMs: null,
};
const timeline = new Timeline(byId("timeline"), lanes, { onPoint: (event) => point(event) });
const wearers = new Wearers(byId("wearers"), byId("search"), watch);
const feed = new Feed(hear, connection);

// Who is there

async function refresh() {
  try {
    const answer = await ask("/v1/wearers"),
      all = answer.wearers ?? answer;
    byId("gate").hidden = true;
    wearers.show(all.map((row) => (row.wearer === page.wearer ? { ...row, ...own() } : row)));
    await empty(!all.length);
    const asked = decodeURIComponent(location.hash.slice(1));
    const first = all.find(({ wearer }) => wearer === asked) ?? all[0];
    if (first && page.wearer === null) watch(first.wearer);
  } catch (error) {
    if (error instanceof Unauthorised) locked(error.message);
  }
}

async function refreshForEver() {
  await refresh();
  setTimeout(refreshForEver, LIST_MS);
}

// Of the one we watch we know more than the last list.
function own() {
  const last = page.past.events.at(-1);
  return last && page.heardMs
    ? { label: last.label, count: last.window + 1, idle_s: (Date.now() - page.heardMs) / 1000 }
    : {};
}

async function empty(yes) {
  byId("empty").hidden = !yes;
  byId("view").hidden = yes;
  if (!yes || byId("curl").textContent) return;
  const known = await ask("/v1/models"),
    model = known.models.find(({ id }) => id === known.default);
  byId("curl").textContent = advice(model).join("\n");
}

// Commands that a new wearer's model takes as they stand.
function advice({ channels, units, rate_hz: rate }) {
  const me = `${location.origin}/v1/wearers/me`,
    key = token.get() ? ["  -H 'authorization: Bearer TOKEN'"] : [],
    row = `[${channels.map(() => "0.0").join(", ")}]`,
    json = "  -H 'content-type: application/json'";
  const command = (...lines) => lines.join(" \\\n");
  return [
    command(`curl -X PUT ${me}`, ...key),
    command(`curl ${me}/samples`, ...key, json, `  -d '{"values": [${row}, ${row}]}'`),
    `# one row a sample, ${rate} a second: ${channels.map((name, c) => `${name} (${units[c]})`).join(", ")}`,
  ];
}

function locked(reason) {
  byId("gate").hidden = false;
  byId("view").hidden = true;
  byId("empty").hidden = true;
  byId("gate-note").textContent = token.get() ? reason : "";
}

// One of them

function watch(wearer) {
  Object.assign(page, { wearer, facts: null, past: new Past(), latencies: [], heardMs: null });
  if (page.paused) pause();
  location.replace(`#${encodeURIComponent(wearer)}`);
  wearers.show(wearers.all, wearer);
  byId("name").textContent = wearer;
  document.title = `${wearer} · sight`;
  byId("about").textContent = "";
  showPicture(null, []);
  feed.watch(wearer);
}

const heard = {
  hello(message) {
    page.facts = message;
    page.past.add(message.history.map(withTruth));
    lanesFor(message);
    words.legend(byId("legend"), message.classes);
    byId("about").textContent = about(message);
    byId("habit-note").textContent = words.habitNote(message.method);
    byId("likeness-note").textContent = words.likenessNote(message.method);
    groups();
    signalLegend();
    picture(message.wearer);
    fill();
  },
  event(message) {
    page.heardMs = Date.now();
    page.past.add([withTruth(message)]);
    if (message.latency_ms !== null) page.latencies.push(message.latency_ms);
    if (page.latencies.length > LATENCIES) page.latencies.shift();
  },
  signal: ({ time_s: times, values }) => page.past.hear(times, values),
  picture: (message) => showPicture(message, page.facts.classes),
  error: (message) => notice(message.error),
};

// Of the demo's wearers the service knows what they really do, round after round.
function withTruth(event) {
  const { truth: known, window_s: windowS } = page.facts;
  return known ? { ...event, truth: truthAt(known.starts, (event.time_s + windowS / 2) % known.round_s) } : event;
}

function lanesFor({ truth: known }) {
  const wanted = known ? [truth, ...lanes] : lanes;
  if (timeline.lanes.length !== wanted.length) timeline.setLanes(wanted);
  for (const node of document.querySelectorAll(".with-truth")) node.hidden = !known;
}

const about = ({ method, channels, rate_hz: rate, window_s: windowS, stride_s: strideS }) =>
  `${method} · ${channels.length} channels at ${rate} Hz · windows of ${windowS} s every ${strideS} s`;

function hear(message) {
  if (message.type !== "error" && message.wearer !== undefined && message.wearer !== page.wearer) return;
  if (message.type !== "hello" && message.type !== "error" && !page.facts) return;
  heard[message.type]?.(message);
  if (message.type !== "error") notice("");
  drawSoon();
}

// A wearer who is quiet now sends no picture; ask for the last one.
async function picture(wearer) {
  try {
    const facts = await ask(`/v1/wearers/${encodeURIComponent(wearer)}`);
    if (wearer !== page.wearer || !page.facts) return;
    byId("model").textContent = facts.model;
    showPicture(facts.picture?.count ? facts.picture : null, page.facts.classes);
  } catch (error) {
    notice(error.message);
  }
}

// Ask for the answers that the span shows and we do not have, newest first.
async function fill() {
  if (page.filling) return;
  page.filling = true;
  try {
    for (let wanted, { wearer } = page, before = null; wearer === page.wearer; before = String(wanted)) {
      wanted = page.past.missing(page.span);
      if (!wanted || String(wanted) === before) break;
      const [after, limit] = wanted,
        path = `/v1/wearers/${encodeURIComponent(wearer)}/events`;
      const from = Math.max(after, after + limit - 1000);
      const { events } = await ask(`${path}?after=${from}&limit=${after + limit - from}`);
      if (wearer === page.wearer) page.past.fill(events.map(withTruth));
    }
  } catch (error) {
    notice(error.message);
  } finally {
    page.filling = false;
    drawSoon();
  }
}

function connection(state, seconds, reason) {
  const said = {
    connected: "connected",
    connecting: "connecting …",
    refused: "the token was refused",
    waiting: `no connection; next try in ${Math.max(1, Math.round(seconds))} s`,
  }[state];
  if (byId("connection").textContent !== said) byId("connection").textContent = said;
  byId("connection").dataset.state = state;
  if (state === "refused") locked(REFUSALS[401]);
  if (reason) notice(reason);
}

// Show

const notice = (text) => {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
};
const tell = throttled(() => (byId("spoken").textContent = words.sentence(page.past.events.at(-1))), 10_000);
const drawSoon = throttled(() => draw(), calm.matches ? 1000 : 100);

function draw() {
  const { facts, past, span } = page;
  if (!facts) return words.now(byId("now"), null, []);
  const [from, to] = range();
  const { window_s: windowS, stride_s: strideS, classes } = facts;
  const last = page.paused ?? to;
  const shown = past.events.filter(({ time_s: at }) => at >= from - windowS && at + windowS <= last + 1e-6);
  timeline.show({ from, to, events: shown, classes, windowS, strideS, signal: signal(from, last) });
  byId("timeline").setAttribute("aria-label", words.summary(shown, transitions(shown).length));
  words.now(byId("now"), shown.at(-1) ?? past.events.at(-1), classes);
  if (byId("table").open) words.rows(byId("rows"), shown);
  const [typical, slow] = [0.5, 0.95].map((share) => quantile(page.latencies, share));
  byId("latency").textContent = typical === null ? "–" : `${typical.toFixed(1)} ms`;
  byId("latency-slow").textContent = slow === null ? "–" : `${slow.toFixed(1)} ms`;
  byId("score").textContent = words.right(shown);
  byId("quiet").hidden = past.events.length > 0;
  tell();
}

// A stream younger than the span fills it from the left.
function range() {
  const to = page.paused ?? end(),
    first = page.past.events[0];
  const from = first && first.window === 0 ? Math.max(to - page.span, first.time_s) : to - page.span;
  return [from, from + page.span];
}

// The newest moment that anything is known of.
function end() {
  const last = page.past.events.at(-1),
    window = page.facts.window_s;
  return Math.max(last ? last.time_s + window : window, page.past.times.at(-1) ?? 0);
}

// Channels of one unit share an axis.
function groups() {
  const units = [...new Set(page.facts.units)],
    chooser = byId("unit");
  if (String(units) === chooser.dataset.units) return;
  chooser.dataset.units = units;
  chooser.replaceChildren(...units.map((unit) => make("option", "", unit)));
  byId("unit-field").hidden = units.length < 2;
}

function drawn() {
  const { units } = page.facts,
    unit = byId("unit").value || units[0];
  return units.flatMap((one, c) => (one === unit ? [c] : []));
}

function signalLegend() {
  const { channels, units } = page.facts;
  words.signalLegend(
    byId("signal-legend"),
    drawn().map((c) => `${channels[c]} (${units[c]})`),
  );
}

function signal(from, to) {
  const chosen = drawn();
  return { names: chosen.map((c) => page.facts.channels[c]), ...page.past.signal(chosen, from, to) };
}

function point(event) {
  byId("readout").textContent = event ? words.sentence(event) : "";
}

function pause() {
  page.paused = page.paused === null && page.facts ? end() : null;
  byId("pause").textContent = page.paused === null ? "Pause" : "Resume";
  byId("pause").setAttribute("aria-pressed", String(page.paused !== null));
  draw();
}

byId("pause").addEventListener("click", pause);
byId("unit").addEventListener("change", () => (signalLegend(), draw()));
byId("table").addEventListener("toggle", draw);
byId("spans").addEventListener("click", ({ target }) => {
  if (!target.dataset.span) return;
  for (const button of byId("spans").children) button.setAttribute("aria-pressed", String(button === target));
  page.span = Number(target.dataset.span);
  draw();
  fill();
});
byId("gate-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  await refresh();
  feed.now();
});
refreshForEver();
