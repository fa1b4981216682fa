// Server-sent events that reconnect after every kind of failure; EventSource itself gives up on an HTTP error.
import { answered, lost } from "./connection.js";
import { get } from "./api.js";
import { parseExact } from "./exact-json.js";

const FIRST = 1000;
const LONGEST = 5000;
// Browsers allow six connections to a server for all tabs together: those in the background must not hold them.
const HIDDEN_FOR = 2000;

export class EventStream {
  /**
   * `handlers` by event name; `silence` is the time in ms after which a stream without events counts as broken. Without
   * `whileHidden` the stream rests while its page is in the background.
   */
  constructor(path, handlers, { silence = 0, exact = false, whileHidden = false, onState } = {}) {
    this.path = path;
    this.handlers = handlers;
    this.silence = silence;
    this.parse = exact ? parseExact : JSON.parse;
    this.onState = onState ?? (() => {});
    this.source = null;
    this.timer = 0;
    this.watch = 0;
    this.pause = FIRST;
    this.closed = false;
    this.resting = false;
    this.hideTimer = 0;
    this.onVisibility = () => this.followVisibility();
    if (!whileHidden) document.addEventListener("visibilitychange", this.onVisibility);
    if (!whileHidden && document.hidden) this.resting = true;
    else this.open();
  }

  followVisibility() {
    clearTimeout(this.hideTimer);
    if (document.hidden) this.hideTimer = setTimeout(() => this.rest(), HIDDEN_FOR);
    else if (this.resting) {
      this.resting = false;
      this.open();
    }
  }

  rest() {
    this.resting = true;
    clearTimeout(this.watch);
    clearTimeout(this.timer);
    this.source?.close();
  }

  open() {
    this.source = new EventSource(this.path);
    for (const name of Object.keys(this.handlers)) {
      this.source.addEventListener(name, (event) => this.take(name, event));
    }
    this.source.addEventListener("open", () => {
      answered();
      this.onState("open");
    });
    this.source.addEventListener("error", () => this.fail());
    this.expect();
  }

  take(name, event) {
    this.pause = FIRST;
    answered();
    this.expect();
    let data;
    try {
      data = this.parse(event.data);
    } catch {
      return; // a damaged event; the next one replaces it
    }
    this.handlers[name](data);
  }

  expect() {
    clearTimeout(this.watch);
    if (this.silence && !this.closed) this.watch = setTimeout(() => this.fail(), this.silence);
  }

  fail() {
    if (this.closed || this.resting) return;
    clearTimeout(this.watch);
    clearTimeout(this.timer);
    this.source.close();
    this.onState("broken");
    this.timer = setTimeout(() => this.retry(), this.pause);
    this.pause = Math.min(LONGEST, this.pause * 1.6);
  }

  async retry() {
    try {
      // EventSource does not tell why it failed: a request does, and reports 401 and a server that is gone.
      await get("/api/app", { patience: 5000 });
    } catch (failure) {
      if (failure.status === 0) lost();
      if (failure.isConnection) {
        this.fail();
        return;
      }
    }
    if (!this.closed && !this.resting) this.open();
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onVisibility);
    clearTimeout(this.hideTimer);
    clearTimeout(this.watch);
    clearTimeout(this.timer);
    this.source?.close();
  }
}
