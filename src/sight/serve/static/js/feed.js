// The line to the service: a token where it asks for one, requests, and a socket that comes back by itself.

const TOKEN = "sight-token",
  REFUSED = [1008, 4401];
const FIRST_MS = 500,
  LONGEST_MS = 10_000;

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

export class Unauthorised extends Error {}

export const REFUSALS = {
  401: "The service does not know this token: it was cut short, mistyped or removed. Enter it again.",
  403: "The service knows this token, but it does not permit looking on: ask for one with the scope read.",
};

export async function ask(path) {
  const headers = token.get() ? { authorization: `Bearer ${token.get()}` } : {};
  const answer = await fetch(path, { headers });
  const content = await answer.json().catch(() => ({}));
  if (answer.status in REFUSALS) throw new Unauthorised(REFUSALS[answer.status]);
  if (!answer.ok) throw new Error(content.error ?? `The service answered ${answer.status}; try again.`);
  return content;
}

// One socket to /v1/watch. `tell` hears each message; `state` hears "connected", "connecting", "refused", or "waiting"
// with the seconds until the next try and what the service gave as its reason.
export class Feed {
  constructor(tell, state) {
    Object.assign(this, { tell, state, wearer: null, socket: null, tries: 0, timer: null });
    addEventListener("online", () => this.now());
    document.addEventListener("visibilitychange", () => !document.hidden && this.now());
  }

  watch(wearer) {
    this.wearer = wearer;
    if (this.socket?.readyState === WebSocket.OPEN) this.#say({ type: "watch", wearer });
    else this.now();
  }

  // Try at once, unless a line is open or being opened.
  now() {
    if (this.wearer === null || this.socket) return;
    clearTimeout(this.timer);
    this.state("connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/watch`);
    this.socket = socket;
    socket.onopen = () => {
      if (token.get()) this.#say({ type: "auth", token: token.get() });
      this.#say({ type: "watch", wearer: this.wearer });
    };
    socket.onmessage = ({ data }) => {
      this.tries = 0;
      this.state("connected");
      this.tell(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  #closed(code, reason) {
    this.socket = null;
    if (REFUSED.includes(code)) return this.state("refused");
    // Some chance in it, so that many pages do not knock together.
    const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.tries) * (0.8 + 0.4 * Math.random());
    this.tries += 1;
    this.state("waiting", wait / 1000, reason);
    this.timer = setTimeout(() => this.now(), wait);
  }

  #say(message) {
    this.socket.send(JSON.stringify(message));
  }
}
