// Predictions as a CSV file.

const EPOCH_S = 1e9;
const FORMULA = /^[=+\-@\t\r]/;

// A text that no spreadsheet takes for a formula, in quotes where it needs them.
function cell(value) {
  if (typeof value !== "string") return value ?? "";
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// One row for each event; `time` is empty if the times of the wearer are not seconds since 1970.
export function predictionsCsv(classes, events) {
  const columns = ["p", "q"].flatMap((kind) => classes.map((name) => `${kind}_${name}`));
  const header = ["window", "time_s", "time", "gap_s", "raw", "refined", "surprise", ...columns];
  const time = (seconds) => (seconds >= EPOCH_S ? new Date(seconds * 1000).toISOString() : "");
  const row = (e) => [e.window, e.time_s, time(e.time_s), e.gap_s, e.raw, e.label, e.surprise, ...e.p, ...e.q];
  return [header, ...events.map(row)].map((line) => line.map(cell).join(",")).join("\n") + "\n";
}
