// The page that adapts on the device: a fused graph on the phone's sensor or on a recording.

import { byId, bytes, calm, duration, percent, quantile, throttled } from "./dom.js";
import { fetched, loadEngine } from "./fused.js";
import { forgetAll, forgetOne, recall, remember } from "./keep.js";
import { asksFirst, available, listen, plan } from "./motion.js";
import { OnDevice } from "./ondevice.js";
import { loadRecording } from "./recording.js";
import { Timeline, transitions } from "./timeline.js";
import * as words from "./words.js";

const OWN = "own model",
  BUNDLED = "bundled with the page";
const TICK_MS = 40,
  SILENT_MS = 3000;
const lanes = [
  { name: "raw", pick: (event) => event.raw },
  { name: "refined", pick: (event) => event.label },
];
const truth = { name: "truth", pick: (event) => event.truth };

const page = { wearer: null, recording: null, bundled: null, run: null };
const timeline = new Timeline(byId("timeline"), [truth, ...lanes], { onPoint: (event) => point(event) });

async function load() {
  const [, recording, bundled] = await Promise.all([
    loadEngine("/static/vendor/ort-wasm-simd-threaded.wasm"),
    loadRecording("/static/recording"),
    fetched("/static/model.onnx").then((answer) => answer.arrayBuffer()),
  ]);
  Object.assign(page, { recording, bundled: new Uint8Array(bundled) });
  const own = new URLSearchParams(location.search).get("model") === "own" ? await recall(OWN) : null;
  await use(own?.data ?? page.bundled, own?.name ?? BUNDLED);
  shutTheDoor();
  document.documentElement.dataset.ready = "yes";
}

// From here on the browser refuses every request of this page: what the sensor says cannot leave.
function shutTheDoor() {
  const rule = document.createElement("meta");
  rule.httpEquiv = "Content-Security-Policy";
  rule.content =
    "connect-src 'none'; img-src 'none'; media-src 'none'; font-src 'none'; frame-src 'none'; form-action 'none'";
  document.head.append(rule);
  byId("door").textContent = "Loaded, and the page has shut its door to the network: nothing leaves this device.";
}

async function use(data, name) {
  page.wearer = await OnDevice.open(data);
  const { model, savedMs } = page.wearer;
  byId("model-name").textContent = `${name}, ${model.facts.method}`;
  byId("habit-note").textContent = words.habitNote(model.facts.method);
  byId("held").textContent = duration(model.card.window_s);
  words.legend(byId("legend"), model.classes);
  words.signalLegend(
    byId("signal-legend"),
    drawn().map((c) => `${model.card.channels[c]} (${model.card.units[c]})`),
  );
  const since = () => duration((Date.now() - savedMs) / 1000);
  say(
    savedMs
      ? `Welcome back: ${model.count} windows remembered from ${since()} ago; Start goes on.`
      : "A new wearer: the model knows nothing of you yet.",
  );
  choices();
  draw();
}

function choices() {
  const { card } = page.wearer.model,
    fits = page.recording.fits(card),
    problem = sensorProblem(card);
  byId("from-recording").disabled = !fits;
  byId("from-sensor").disabled = Boolean(problem);
  byId(fits ? "from-recording" : "from-sensor").checked = true;
  byId("sensor-note").textContent =
    problem ?? (asksFirst() ? "Your browser may ask you once whether the page may feel motion." : "");
  byId("start").disabled = !fits && Boolean(problem);
  fields();
  byId("reset").disabled = byId("forget").disabled = false;
}

function fields() {
  byId("speed-field").hidden = byId("from-sensor").checked;
  byId("worn-field").hidden = byId("from-recording").checked;
}

function sensorProblem(card) {
  if (!available()) return "Motion sensors answer pages opened over HTTPS on a phone; here a recording stands in.";
  try {
    plan(card);
    return null;
  } catch (error) {
    return error.message;
  }
}

// Run

async function start() {
  const source = byId("from-sensor").checked ? "sensor" : "recording";
  timeline.setLanes(source === "recording" ? [truth, ...lanes] : lanes);
  const run = { stopped: false };
  page.run = run;
  run.over = source === "sensor" ? hear(run) : play(run);
  buttons();
  await run.over.catch((error) => say(error.message));
  page.run = null;
  await page.wearer.keep();
  draw();
}

async function stop() {
  if (!page.run) return;
  page.run.stopped = true;
  await page.run.over.catch(() => {});
}

const moment = (ms) => new Promise((resume) => setTimeout(resume, ms));

async function play(run) {
  const { recording, wearer } = page,
    { rateHz, length } = recording;
  wearer.listenTo("recording");
  if (wearer.position >= length) wearer.rewind();
  say("Playing the recording.");
  let due = wearer.position,
    before = performance.now();
  while (!run.stopped && wearer.position < length) {
    const speed = Number(byId("speed").value),
      at = performance.now();
    due = speed ? due + ((at - before) / 1000) * speed * rateHz : wearer.position + 20 * rateHz;
    before = at;
    while (wearer.position < Math.min(due, length) && !run.stopped) {
      const row = wearer.position;
      wearer.position += 1;
      if (await wearer.sample(recording.rows[row], recording.times[row], (timeS) => recording.truthAt(timeS)))
        drawSoon();
    }
    await moment(speed ? TICK_MS : 0);
  }
  if (wearer.position >= length) say(`The recording is over: ${score()}.`);
}

async function hear(run) {
  const queue = [],
    { wearer } = page;
  const silence = await listen(wearer.model.card, byId("worn").value, (values, timeS) => queue.push([values, timeS]));
  say("Listening to the motion sensor.");
  wearer.listenTo("sensor");
  try {
    for (let waited = 0; !run.stopped; waited = queue.length ? -Infinity : waited + TICK_MS) {
      if (waited > SILENT_MS) throw new Error("No motion came from this device; choose the recording instead.");
      while (queue.length) if (await wearer.sample(...queue.shift())) drawSoon();
      await moment(TICK_MS);
    }
  } finally {
    silence();
  }
}

async function reset() {
  await stop();
  page.wearer.reset();
  await forgetOne(page.wearer.model.key).catch(() => {}); // a browser without storage has stored nothing
  say("Reset: a new wearer, the recording from its start.");
  draw();
}

async function forget() {
  await reset();
  await forgetAll();
  byId("file").value = "";
  history.replaceState(null, "", location.pathname);
  await use(page.bundled, BUNDLED);
  say("Forgotten: nothing of you is stored on this device any more.");
}

async function choose(file) {
  if (!file) return;
  await stop();
  try {
    const data = new Uint8Array(await file.arrayBuffer());
    await use(data, file.name);
    await remember(OWN, { name: file.name, data });
    history.replaceState(null, "", "?model=own");
  } catch (error) {
    say(error.message);
  }
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([page.wearer.csv()], { type: "text/csv" }));
  link.download = "answers.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Show

const say = (text) => (byId("status").textContent = text);
const tell = throttled(() => (byId("spoken").textContent = words.sentence(page.wearer.past.events.at(-1))), 8000);
const drawSoon = throttled(() => draw(), calm.matches ? 1000 : 100);
const point = (event) => (byId("readout").textContent = event ? words.sentence(event) : "");

function buttons() {
  byId("start").textContent = page.run ? "Stop" : "Start";
  byId("save").disabled = !page.wearer.past.events.length;
}

// Channels of one unit share an axis; the first unit is drawn.
function drawn() {
  const { units } = page.wearer.model.card;
  return units.flatMap((unit, c) => (unit === units[0] ? [c] : []));
}

function draw() {
  const { model, past } = page.wearer,
    { window_s: windowS, stride_s: strideS } = model.card;
  const span = Number(byId("span").value),
    first = past.events[0]?.time_s ?? 0;
  const from = Math.max((past.events.at(-1)?.time_s ?? 0) + windowS - span, first);
  const events = past.events.filter((event) => event.time_s >= from - windowS);
  const signal = { names: drawn(), ...past.signal(drawn(), from) };
  timeline.show({ from, to: from + span, events, classes: model.classes, windowS, strideS, signal });
  byId("timeline").setAttribute("aria-label", words.summary(events, transitions(events).length));
  words.now(byId("now"), past.events.at(-1), model.classes);
  words.bars(byId("habit"), model.classes, model.habit, percent);
  facts();
  if (byId("table").open) words.rows(byId("rows"), events);
  if (page.run) tell();
  buttons();
}

function facts() {
  const { model, steps } = page.wearer,
    typical = quantile(steps, 0.5);
  byId("count").textContent = model.count;
  byId("state-size").textContent = bytes(model.stateBytes);
  byId("step-time").textContent = typical === null ? "–" : `${typical.toFixed(1)} ms`;
  byId("score").textContent = score();
}

const score = () => words.right(page.wearer.past.events);

byId("start").addEventListener("click", () => (page.run ? stop() : start()));
byId("reset").addEventListener("click", reset);
byId("forget").addEventListener("click", forget);
byId("save").addEventListener("click", save);
byId("from-recording").addEventListener("change", fields);
byId("from-sensor").addEventListener("change", fields);
byId("span").addEventListener("change", draw);
byId("table").addEventListener("toggle", draw);
byId("file").addEventListener("change", (event) => choose(event.target.files[0]));
document.addEventListener("visibilitychange", () => document.hidden && page.wearer?.keep());
load().catch((error) => say(error.message));
