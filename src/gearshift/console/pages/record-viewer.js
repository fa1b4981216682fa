// Reads a topic's records from a place, or follows them live, with filters; what is shown can be exported.
import { get, isAbort, path } from "./api.js";
import { fill, h, setHidden, setText, set } from "./dom.js";
import { field, select, text } from "./field.js";
import { exact, plural } from "./format.js";
import { problemBox } from "./problem.js";
import { RecordList } from "./record-list.js";

export class RecordViewer {
  constructor(page, topic) {
    Object.assign(this, { page, topic });
    this.url = ["api", "topics", topic];
    this.stream = null;
    this.reading = null;
    this.paused = false;
    this.following = false;
    this.skipped = 0;
    this.arrived = 0;
    this.list = new RecordList(page);
    this.status = h("p", { class: "muted", role: "status", "aria-live": "polite" });
    this.counts = h("p", { class: "muted" });
    this.slot = h("div", {});
    this.makeInputs();
    this.node = h(
      "section",
      { class: "card viewer" },
      h("h2", {}, "Records"),
      this.form,
      this.slot,
      h("div", { class: "viewer-status" }, this.status, this.counts),
      this.list.node,
    );
    page.onLeave(() => this.stop());
    this.read();
  }

  makeInputs() {
    this.from = select(
      [
        ["last", "the last"],
        ["time", "a time"],
        ["offset", "an offset"],
        ["earliest", "the beginning"],
      ],
      { oninput: () => this.showInputs() },
    );
    this.last = text({ type: "number", min: "1", max: "1000", value: "100" });
    this.time = text({ type: "datetime-local", step: "1" });
    this.offset = text({ type: "number", min: "0", value: "0" });
    this.partition = select([["", "all"]]);
    this.key = text({});
    this.path = text({ placeholder: "meter.id" });
    this.equals = text({});
    this.fields = {
      last: field("Records", this.last),
      time: field("Time (local)", this.time),
      offset: field("Offset", this.offset),
    };
    this.tail = h("button", { type: "button", onclick: () => this.toggleTail() }, "Tail");
    this.pause = h("button", { type: "button", hidden: true, onclick: () => this.togglePause() }, "Pause");
    this.export = h("button", { type: "button", onclick: () => this.download() }, "Export");
    this.form = h(
      "form",
      {
        class: "toolbar",
        onsubmit: (event) => {
          event.preventDefault();
          this.stop();
          this.read();
        },
      },
      field("From", this.from),
      Object.values(this.fields),
      field("Partition", this.partition),
      field("Key", this.key),
      field("Field", this.path),
      field("Equals", this.equals),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "submit", class: "primary" }, "Read"),
        this.tail,
        this.pause,
        this.export,
      ),
    );
    this.showInputs();
  }

  showInputs() {
    for (const [name, node] of Object.entries(this.fields)) setHidden(node, this.from.value !== name);
  }

  setPartitions(numbers) {
    const sign = numbers.join();
    if (this.partition.sign === sign) return;
    this.partition.sign = sign;
    const chosen = this.partition.value;
    fill(
      this.partition,
      h("option", { value: "" }, "all"),
      numbers.map((number) => h("option", { value: String(number) }, String(number))),
    );
    this.partition.value = chosen;
  }

  filters() {
    return {
      partition: this.partition.value,
      key: this.key.value,
      field: this.path.value.trim(),
      equals: this.path.value.trim() ? this.equals.value : "",
    };
  }

  parameters() {
    switch (this.from.value) {
      case "last":
        return { from: `-${this.last.value || 100}`, limit: this.last.value || 100 };
      case "time":
        return { from: this.time.value ? new Date(this.time.value).toISOString() : "earliest", limit: 500 };
      case "offset":
        return { offset: this.offset.value || "0", limit: 500 };
      default:
        return { from: "earliest", limit: 500 };
    }
  }

  async read() {
    if (this.from.value === "offset" && this.partition.value === "") {
      fill(
        this.slot,
        problemBox({ error: { what: "an offset belongs to one partition", hint: "choose the partition too" } }),
      );
      return;
    }
    this.reading?.abort();
    const reading = (this.reading = new AbortController());
    setText(this.status, "Reading…");
    setText(this.counts, "");
    try {
      const signal = AbortSignal.any([reading.signal, this.page.signal]);
      const found = await get(path([...this.url, "records"], { ...this.parameters(), ...this.filters() }), {
        signal,
        exact: true,
      });
      fill(this.slot);
      this.list.replace(found.records);
      setText(
        this.status,
        `${plural(found.records.length, "record")}, newest first${found.complete ? "" : "; there are more that fit"}`,
      );
    } catch (failure) {
      if (isAbort(failure)) return;
      setText(this.status, "");
      fill(
        this.slot,
        problemBox(failure, () => this.read()),
      );
    }
  }

  toggleTail() {
    if (this.following) {
      this.stop();
      this.showCounts();
      return;
    }
    this.reading?.abort();
    this.following = true;
    this.paused = false;
    this.skipped = this.arrived = 0;
    fill(this.slot);
    this.list.clear();
    this.connect();
    this.showButtons();
    setText(this.status, "Waiting for records…");
    setText(this.counts, "");
  }

  connect() {
    this.stream = this.page.stream(
      path([...this.url, "tail"], this.filters()),
      { records: (data) => this.take(data), problem: (data) => fill(this.slot, problemBox(data)) },
      { exact: true, whileHidden: true },
    );
  }

  take({ records, skipped }) {
    this.arrived += records.length;
    this.skipped += skipped ?? 0;
    this.list.add(records);
    this.showCounts();
  }

  togglePause() {
    this.paused = !this.paused;
    // Nothing is fetched while it is paused, so that what is on the screen stays exactly as it is.
    if (this.paused) {
      this.disconnect();
      this.list.draw();
    } else this.connect();
    this.showButtons();
    this.showCounts();
  }

  disconnect() {
    this.stream?.close();
    this.stream = null;
  }

  stop() {
    this.disconnect();
    this.following = this.paused = false;
    this.showButtons();
  }

  showButtons() {
    setText(this.tail, this.following ? "Stop" : "Tail");
    setHidden(this.pause, !this.following);
    setText(this.pause, this.paused ? "Continue" : "Pause");
    set(this.node ?? this.form, "class", this.following && !this.paused ? "card viewer following" : "card viewer");
  }

  showCounts() {
    const state = this.paused ? "Paused" : this.following ? "Live" : "Stopped";
    const skipped = this.skipped ? `, ${exact(this.skipped)} more not shown, as they came too fast` : "";
    // The counts change too often to be read aloud.
    setText(this.status, `${state}, newest first`);
    setText(this.counts, `${plural(this.arrived, "record")}${skipped}; the last ${this.list.most} are kept`);
  }

  download() {
    const lines = this.list.records.map((record) => JSON.stringify(record)).join("\n");
    const url = URL.createObjectURL(new Blob([lines, "\n"], { type: "application/x-ndjson" }));
    const link = h("a", { href: url, download: `${this.topic}.jsonl` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}
