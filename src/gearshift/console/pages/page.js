// One visit to one page: what it listens to and asks for ends when it is left.
import { get, isAbort } from "./api.js";
import { connection, onConnection } from "./connection.js";
import { h, fill } from "./dom.js";
import { EventStream } from "./event-stream.js";
import { notInFrame } from "./animation-frame.js";
import { problemBox } from "./problem.js";
import { live, subscribe, subscribeInfo } from "./live.js";
import { onTheme } from "./palette.js";

export class Page {
  constructor(root, parameters, search) {
    this.root = root;
    this.parameters = parameters;
    this.search = search;
    this.abort = new AbortController();
    this.signal = this.abort.signal;
    this.leaving = new Set();
  }

  get left() {
    return this.signal.aborted;
  }

  /** Calls `end` when the page is left; returns the function that forgets it. */
  onLeave(end) {
    this.leaving.add(end);
    return () => this.leaving.delete(end);
  }

  leave() {
    this.abort.abort();
    for (const end of [...this.leaving]) end();
    this.leaving.clear();
  }

  /** Calls `draw` with each status of the running app, at most once a frame. */
  live(draw) {
    const unlessLeft = () => {
      if (!this.left && live.status !== null) draw(live.status);
    };
    this.onLeave(subscribe(unlessLeft));
    this.onLeave(onTheme(unlessLeft));
    this.onLeave(() => notInFrame(unlessLeft));
  }

  info(draw) {
    this.onLeave(subscribeInfo(draw));
  }

  stream(path, handlers, options) {
    const stream = new EventStream(path, handlers, options);
    const forget = this.onLeave(() => stream.close());
    return { close: () => (forget(), stream.close()) };
  }

  /**
   * Asks for `path` now and, with `every` ms, again and again; `take` gets each answer. A failure is shown in `slot`,
   * and is gone after the next success. Returns a function that asks at once.
   */
  poll(path, take, { every = 0, slot, exact = false, patience } = {}) {
    const box = slot ?? this.root.appendChild(h("div", {}));
    let timer = 0;
    let asking = false;
    let failed = false;
    let taken = false;
    const ask = async () => {
      clearTimeout(timer);
      if (asking || this.left) return;
      asking = true;
      try {
        const found = await get(typeof path === "function" ? path() : path, { signal: this.signal, exact, patience });
        if (this.left) return;
        if (failed) fill(box);
        failed = false;
        taken = true;
        take(found);
      } catch (failure) {
        if (isAbort(failure) || this.left) return;
        failed = true;
        // While the server is gone the banner says so; what the page showed stays.
        if (!taken || !failure.isConnection) fill(box, problemBox(failure, every ? null : ask));
      } finally {
        asking = false;
        if (every && !this.left) timer = setTimeout(wake, every);
      }
    };
    const wake = () => {
      if (document.hidden) document.addEventListener("visibilitychange", wake, { once: true, signal: this.signal });
      else ask();
    };
    this.onLeave(() => clearTimeout(timer));
    this.onLeave(onConnection((state) => state === "ok" && failed && ask()));
    ask();
    return ask;
  }

  get isConnected() {
    return connection.state === "ok";
  }
}
