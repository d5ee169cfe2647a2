// The page that adapts on the device: a fused graph on the phone's motion sensor or on a bundled recording.

import { showBars } from "./adaptation_view.js";
import { DeviceSession } from "./device_session.js";
import { predictionsCsv } from "./csv.js";
import {
  byId,
  closable,
  download,
  formatBytes,
  formatDuration,
  formatPercent,
  formatQuantile,
  reducedMotion,
  throttle,
} from "./dom.js";
import { load, loadRuntime } from "./fused_model.js";
import { isAvailable, listen, needsPermission, plan } from "./motion_sensor.js";
import { PredictionView, showScore } from "./prediction_view.js";
import { loadRecording } from "./recording.js";
import { read, remove, removeAll, write } from "./storage.js";

const OWN_MODEL = "own model";
const BUNDLED = "bundled with the page";
const TICK_MS = 40;
const SENSOR_TIMEOUT_MS = 3000;

// `run` is the run in progress: {stopped, done}, or null; `beforeReset` what Undo goes back to; `startWhenReady` whether
// Start was pressed while the page was loading.
const page = { session: null, recording: null, bundled: null, run: null, beforeReset: null, startWhenReady: false };
const view = new PredictionView();
const showStatus = (text) => (byId("status").textContent = text);
const drawSoon = throttle(draw, reducedMotion.matches ? 1000 : 100);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function loadPage() {
  const [, recording, bundled] = await Promise.all([
    loadRuntime("/static/vendor/ort-wasm-simd-threaded.wasm"),
    loadRecording("/static/recording"),
    load("/static/model.onnx").then((response) => response.arrayBuffer()),
  ]);
  Object.assign(page, { recording, bundled: new Uint8Array(bundled) });
  const own = new URLSearchParams(location.search).get("model") === "own" ? await read(OWN_MODEL) : null;
  await useModel(own?.data ?? page.bundled, own?.name ?? BUNDLED);
  blockNetwork();
  document.documentElement.dataset.ready = "yes";
  if (page.startWhenReady && !byId("start").disabled) start();
}

// From here on the browser refuses every request of this page, so that no motion data can leave it.
function blockNetwork() {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content =
    "connect-src 'none'; img-src 'none'; media-src 'none'; font-src 'none'; frame-src 'none'; form-action 'none'";
  document.head.append(policy);
  byId("network").textContent = "Loaded. Network access of this page is now blocked: no data leave this device.";
}

async function useModel(data, name) {
  page.session = await DeviceSession.open(data);
  const { model, restoredMs } = page.session;
  byId("model-name").textContent = `${name}, ${model.facts.method}`;
  byId("held").textContent = formatDuration(model.card.window_s);
  byId("frequencies-card").hidden = !model.classFrequencies;
  view.setModel(model.card, { truth: true });
  showStatus(
    restoredMs
      ? `State restored: ${model.count} windows, saved ${formatDuration((Date.now() - restoredMs) / 1000)} ago.`
      : "New wearer: no adaptation yet.",
  );
  showSources();
  draw();
}

function showSources() {
  const { card } = page.session.model;
  const fits = page.recording.fits(card);
  const problem = sensorProblem(card);
  byId("from-recording").disabled = !fits;
  byId("from-sensor").disabled = Boolean(problem);
  byId(fits ? "from-recording" : "from-sensor").checked = true;
  byId("sensor-note").textContent = problem ?? (needsPermission() ? "The browser may ask for permission once." : "");
  byId("start").disabled = !fits && Boolean(problem);
  byId("reset").disabled = byId("delete").disabled = false;
  showFields();
}

function showFields() {
  byId("speed-field").hidden = byId("from-sensor").checked;
  byId("worn-field").hidden = byId("from-recording").checked;
}

function sensorProblem(card) {
  if (!isAvailable()) return "The motion sensor is available on phones, if the page is opened over HTTPS.";
  try {
    plan(card);
    return null;
  } catch (error) {
    return error.message;
  }
}

// Running

async function start() {
  if (!page.session) {
    page.startWhenReady = true;
    return showStatus("Loading; it starts as soon as everything is here.");
  }
  setUndo(null);
  const source = byId("from-sensor").checked ? "sensor" : "recording";
  view.setTruth(source === "recording");
  const run = { stopped: false };
  page.run = run;
  run.done = source === "sensor" ? runSensor(run) : runRecording(run);
  draw();
  await run.done.catch((error) => showStatus(error.message));
  page.run = null;
  await page.session.save();
  draw();
}

async function stop() {
  if (!page.run) return;
  page.run.stopped = true;
  await page.run.done.catch(() => {});
}

async function runRecording(run) {
  const { recording, session } = page;
  session.setSource("recording");
  if (session.position >= recording.length) session.rewind();
  showStatus("Playing the recording.");
  let due = session.position;
  let previous = performance.now();
  while (!run.stopped && session.position < recording.length) {
    const speed = Number(byId("speed").value); // 0 is as fast as possible
    const now = performance.now();
    due = speed ? due + ((now - previous) / 1000) * speed * recording.rateHz : session.position + 20 * recording.rateHz;
    previous = now;
    while (session.position < Math.min(due, recording.length) && !run.stopped) {
      const row = session.position;
      session.position += 1;
      const truthAt = (timeS) => recording.truthAt(timeS);
      if (await session.push(recording.rows[row], recording.times[row], truthAt)) drawSoon();
    }
    await sleep(speed ? TICK_MS : 0);
  }
  if (session.position >= recording.length) showStatus("End of the recording.");
}

async function runSensor(run) {
  const { session } = page;
  const queue = [];
  const stopListening = await listen(session.model.card, byId("worn").value, (...sample) => queue.push(sample));
  showStatus("Reading the motion sensor.");
  session.setSource("sensor");
  try {
    for (let waited = 0; !run.stopped; waited = queue.length ? -Infinity : waited + TICK_MS) {
      if (waited > SENSOR_TIMEOUT_MS) throw new Error("The motion sensor sends no data; use the recording instead.");
      while (queue.length) if (await session.push(...queue.shift())) drawSoon();
      await sleep(TICK_MS);
    }
  } finally {
    stopListening();
  }
}

async function reset() {
  await stop();
  setUndo(page.session.model.count ? page.session.copy() : null);
  page.session.reset();
  await remove(page.session.model.key).catch(() => {}); // a browser without storage has stored nothing
  showStatus("Reset: new wearer, recording from its start.");
  draw();
}

function setUndo(copy) {
  page.beforeReset = copy;
  byId("undo").hidden = !copy;
}

async function undoReset() {
  page.session.undo(page.beforeReset);
  setUndo(null);
  await page.session.save();
  showStatus(`Restored: ${page.session.model.count} windows.`);
  draw();
}

async function deleteData() {
  byId("confirm-dialog").close();
  await reset();
  setUndo(null);
  await removeAll();
  byId("file").value = "";
  history.replaceState(null, "", location.pathname);
  await useModel(page.bundled, BUNDLED);
  showStatus("Deleted: this page stores no data on this device.");
}

async function chooseModel(file) {
  if (!file) return;
  await stop();
  setUndo(null);
  try {
    const data = new Uint8Array(await file.arrayBuffer());
    await useModel(data, file.name);
    await write(OWN_MODEL, { name: file.name, data });
    history.replaceState(null, "", "?model=own");
  } catch (error) {
    showStatus(error.message);
  }
}

function savePredictions() {
  const { model, history: past } = page.session;
  download("predictions.csv", predictionsCsv(model.classes, past.events), "text/csv");
}

// Drawing

function draw() {
  const { model, history: past, timings } = page.session;
  const span = Number(byId("span").value);
  const end = (past.events.at(-1)?.time_s ?? 0) + model.card.window_s;
  const from = Math.max(end - span, past.events[0]?.time_s ?? 0);
  view.draw(past, from, from + span);
  if (model.classFrequencies) showBars(byId("frequencies"), model.classes, model.classFrequencies, formatPercent);
  byId("count").textContent = model.count;
  byId("state-size").textContent = formatBytes(model.stateBytes);
  byId("step-time").textContent = formatQuantile(timings, 0.5);
  showScore(past.events, model.card.stride_s);
  byId("start").textContent = page.run ? "Stop" : "Start";
  byId("save").disabled = !past.events.length;
  if (page.run) view.announce();
}

byId("start").addEventListener("click", () => (page.run ? stop() : start()));
byId("reset").addEventListener("click", reset);
byId("undo").addEventListener("click", undoReset);
byId("delete").addEventListener("click", () => byId("confirm-dialog").showModal());
closable(byId("confirm-dialog"));
byId("confirm-yes").addEventListener("click", deleteData);
byId("save").addEventListener("click", savePredictions);
byId("from-recording").addEventListener("change", showFields);
byId("from-sensor").addEventListener("change", showFields);
byId("span").addEventListener("change", draw);
byId("table").addEventListener("toggle", draw);
byId("file").addEventListener("change", (event) => chooseModel(event.target.files[0]));
document.addEventListener("visibilitychange", () => document.hidden && page.session?.save());
loadPage().catch((error) => showStatus(error.message));
