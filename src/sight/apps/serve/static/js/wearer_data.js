// Downloads of a wearer's data, and its reset and deletion after a confirmation.

import { deleteWearer, readArchive, readEvents, resetWearer } from "./api.js";
import { predictionsCsv } from "./csv.js";
import { byId, closable, download } from "./dom.js";

const QUESTIONS = {
  reset: {
    title: (wearer) => `Reset ${wearer}?`,
    text: "This deletes what was learned about the wearer, all stored predictions and samples. The wearer stays, and adaptation starts again. It cannot be undone.",
    button: "Reset",
    act: resetWearer,
  },
  delete: {
    title: (wearer) => `Delete ${wearer}?`,
    text: "This deletes the wearer with everything that was learned, all stored predictions and samples. It cannot be undone.",
    button: "Delete",
    act: deleteWearer,
  },
};

export class WearerData {
  // `current` returns the description of the wearer in view; `onReset` and `onDeleted` get its name.
  constructor(current, { onReset, onDeleted }) {
    Object.assign(this, { current, done: { reset: onReset, delete: onDeleted } });
    this.dialog = closable(byId("confirm-dialog"));
    byId("save-csv").addEventListener("click", () => this.#saveCsv());
    byId("save-zip").addEventListener("click", () => this.#saveZip(byId("data-note")));
    byId("confirm-copy").addEventListener("click", () => this.#saveZip(byId("confirm-note")));
    byId("confirm-yes").addEventListener("click", () => this.#act());
    for (const name of ["reset", "delete"]) byId(name).addEventListener("click", () => this.#ask(name));
  }

  async #saveCsv() {
    const { wearer, classes } = this.current();
    await report(byId("data-note"), "Loading predictions …", async (show) => {
      const events = await readEvents(wearer, (count) => show(`Loading predictions … ${count}`));
      download(`${wearer}.csv`, predictionsCsv(classes, events), "text/csv");
      return `${events.length} predictions saved.`;
    });
  }

  async #saveZip(note) {
    const { wearer } = this.current();
    await report(note, "Loading …", async () => {
      download(`${wearer}.zip`, await readArchive(wearer));
      return "Saved.";
    });
  }

  #ask(name) {
    const { title, text, button } = QUESTIONS[name];
    Object.assign(this, { question: name, wearer: this.current().wearer });
    byId("confirm-title").textContent = title(this.wearer);
    byId("confirm-text").textContent = text;
    byId("confirm-yes").textContent = button;
    byId("confirm-note").textContent = "";
    this.dialog.showModal();
  }

  async #act() {
    const { question, wearer } = this;
    await report(byId("confirm-note"), "…", async () => {
      await QUESTIONS[question].act(wearer);
      this.dialog.close();
      this.done[question](wearer);
      return "";
    });
  }
}

// Show the text that `act` returns, or its error.
async function report(note, text, act) {
  const show = (line) => (note.textContent = line);
  show(text);
  try {
    show(await act(show));
  } catch (error) {
    show(error.message);
  }
}
