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

export const REFUSALS = {
  401: "The service does not accept this token: it is incomplete, mistyped or removed. Enter it again.",
  403: "This token does not permit reading. Use one with the scope read.",
};

// Return the JSON of a GET request; throw Unauthorised or Error.
export async function get(path) {
  const headers = token.get() ? { authorization: `Bearer ${token.get()}` } : {};
  const response = await fetch(path, { headers });
  const content = await response.json().catch(() => ({}));
  if (response.status in REFUSALS) throw new Unauthorised(REFUSALS[response.status]);
  if (!response.ok) throw new Error(content.error ?? `The service responded with status ${response.status}; try again.`);
  return content;
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
