// Access to the service: the token, HTTP requests, and a WebSocket that reconnects.

const TOKEN_KEY = "sight-token";
const CLOSED_BY_TOKEN = 1008;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN_KEY, text) : sessionStorage.removeItem(TOKEN_KEY)),
};

export class Unauthorised extends Error {}

export const REFUSED = "The service does not accept this token: it is incomplete, mistyped or removed. Enter it again.";

export const wearerPath = (wearer) => `/v1/wearers/${encodeURIComponent(wearer)}`;

// Send a request; return its response, or throw an Error with the text of the service.
async function request(method, path, content) {
  const headers = token.get() ? { authorization: `Bearer ${token.get()}` } : {};
  if (content) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, body: content && JSON.stringify(content) });
  if (response.ok) return response;
  const { error = `The service responded with status ${response.status}; try again.` } = await response
    .json()
    .catch(() => ({}));
  if (response.status === 401) throw new Unauthorised(REFUSED);
  throw response.status === 403 ? new Unauthorised(error) : new Error(error);
}

// Return the JSON of a GET request; throw Unauthorised or Error.
export const get = async (path) => (await request("GET", path)).json();
export const createWearer = async (wearer, options) => (await request("PUT", wearerPath(wearer), options)).json();
export const resetWearer = (wearer) => request("POST", `${wearerPath(wearer)}/reset`);
export const deleteWearer = (wearer) => request("DELETE", wearerPath(wearer));
export const readArchive = async (wearer) => (await request("GET", `${wearerPath(wearer)}/export`)).blob();

// Return all stored events of a wearer; `onCount` gets the number of those read so far.
export async function readEvents(wearer, onCount) {
  const events = [];
  for (let after = -1; after !== null; ) {
    const page = await get(`${wearerPath(wearer)}/events?after=${after}`);
    events.push(...page.events);
    after = page.next;
    onCount(events.length);
  }
  return events;
}

// One WebSocket to /v1/watch. `onMessage` gets each message; `onState` gets "connected", "connecting", "refused", or
// "waiting" with the seconds until the next attempt and the reason given by the service.
export class LiveSocket {
  constructor(onMessage, onState) {
    Object.assign(this, { onMessage, onState, wearer: null, socket: null, attempts: 0, timer: null });
    addEventListener("online", () => this.connect());
    document.addEventListener("visibilitychange", () => !document.hidden && this.connect());
  }

  watch(wearer) {
    this.wearer = wearer;
    if (this.socket?.readyState === WebSocket.OPEN) this.#send({ type: "watch", wearer });
    else this.connect();
  }

  // Connect now, unless a connection is open or being opened.
  connect() {
    if (this.wearer === null || this.socket) return;
    clearTimeout(this.timer);
    this.onState("connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/watch`);
    this.socket = socket;
    socket.onopen = () => {
      if (token.get()) this.#send({ type: "auth", token: token.get() });
      this.#send({ type: "watch", wearer: this.wearer });
    };
    socket.onmessage = ({ data }) => {
      this.attempts = 0;
      this.onState("connected");
      this.onMessage(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => this.#onClose(code, reason);
  }

  #onClose(code, reason) {
    this.socket = null;
    if (code === CLOSED_BY_TOKEN) return this.onState("refused");
    // Random, so that many pages do not reconnect at the same moment.
    const wait = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.attempts) * (0.8 + 0.4 * Math.random());
    this.attempts += 1;
    this.onState("waiting", wait / 1000, reason);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  #send(message) {
    this.socket.send(JSON.stringify(message));
  }
}
