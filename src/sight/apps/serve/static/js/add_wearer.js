// The dialogs that add a wearer and show how to send samples for it.

import { createWearer, get, token } from "./api.js";
import { byId, closable, make } from "./dom.js";

export class WearerForm {
  // `onAdded` gets the name of the new wearer.
  constructor(onAdded) {
    this.onAdded = onAdded;
    this.dialog = closable(byId("add-dialog"));
    this.how = closable(byId("how-dialog"));
    byId("add-form").addEventListener("submit", (event) => this.#submit(event));
  }

  async open() {
    byId("add-form").reset();
    byId("add-note").textContent = "";
    this.dialog.showModal();
    try {
      const { models, default: id } = await get("/v1/models");
      const names = [...new Set(models.map(({ name }) => name))];
      byId("add-model").replaceChildren(...names.map((name) => make("option", "", name)));
      byId("add-model").value = models.find((model) => model.id === id).name;
      byId("add-model-field").hidden = names.length < 2;
    } catch (error) {
      byId("add-note").textContent = error.message;
    }
  }

  async #submit(event) {
    event.preventDefault();
    try {
      const info = await createWearer(byId("add-name").value, { model: byId("add-model").value || null });
      this.dialog.close();
      this.onAdded(info.wearer);
      this.showHow(info);
    } catch (error) {
      byId("add-note").textContent = error.message;
    }
  }

  // Show the commands that send a recording or samples; `info` is the description of a wearer.
  showHow(info) {
    byId("how-title").textContent = `Send samples of ${info.wearer}`;
    byId("send-command").textContent =
      `sight send recording.csv \\\n  --to ${location.origin} \\\n  --wearer ${info.wearer}`;
    byId("curl").textContent = sampleCommand(info);
    byId("how-token").hidden = !token.get();
    byId("token-command").textContent = `sight serve token add --scopes ingest --wearers ${info.wearer}`;
    this.how.showModal();
  }
}

// A command that sends two samples.
function sampleCommand({ wearer, channels, units, rate_hz: rate }) {
  const row = `[${channels.map(() => "0.0").join(", ")}]`;
  const columns = channels.map((name, c) => `${name} (${units[c]})`).join(", ");
  const lines = [
    `curl ${location.origin}/v1/wearers/${wearer}/samples`,
    ...(token.get() ? ["  -H 'authorization: Bearer TOKEN'"] : []),
    "  -H 'content-type: application/json'",
    `  -d '{"values": [${row}, ${row}]}'`,
  ];
  return `${lines.join(" \\\n")}\n# one row per sample, ${rate} per second: ${columns}`;
}
