// One record in the viewer: a row, and below it, if it is open, everything about the record. Rows are used again.
import { h, set, setText } from "./dom.js";
import { oneLine, pretty } from "./exact-json.js";
import { stamp, visible } from "./format.js";

const COLUMNS = 6;

export class RecordRow {
  constructor() {
    this.record = null;
    this.button = h(
      "button",
      { type: "button", class: "quiet expand", "aria-expanded": "false", onclick: () => this.toggle() },
      "+",
    );
    this.partition = h("td", { role: "cell", class: "number" });
    this.offset = h("th", { scope: "row", role: "rowheader", class: "number" });
    this.time = h("td", { role: "cell" });
    this.key = h("td", { role: "cell", class: "data" });
    this.value = h("td", { role: "cell", class: "data" });
    this.node = h(
      "tr",
      { class: "record", role: "row" },
      h("td", { class: "narrow", role: "cell" }, this.button),
      this.partition,
      this.offset,
      this.time,
      this.key,
      this.value,
    );
    this.detail = null;
  }

  show(record) {
    this.record = record;
    this.close();
    setText(this.partition, record.partition);
    setText(this.offset, record.offset);
    setText(this.time, stamp(record.timestamp, { millis: true }));
    setText(this.key, visible(oneLine(record.key, 120)));
    const words = record.error ? `▲ cannot be decoded: ${record.error}` : oneLine(record.value);
    setText(this.value, visible(words));
    set(this.node, "class", record.error ? "record undecodable" : "record");
    set(this.button, "aria-label", `Record ${record.partition}/${record.offset}`);
  }

  toggle() {
    if (this.detail === null) this.open();
    else this.close();
  }

  open() {
    this.detail = h(
      "tr",
      { class: "detail", role: "row" },
      h("td", { colspan: COLUMNS, role: "cell" }, recordDetail(this.record)),
    );
    this.node.after(this.detail);
    set(this.button, "aria-expanded", "true");
    setText(this.button, "−");
  }

  close() {
    if (this.detail === null) return;
    this.detail.remove();
    this.detail = null;
    set(this.button, "aria-expanded", "false");
    setText(this.button, "+");
  }

  /** Moves the row, and what is open below it, to the top of `body`. */
  moveToTop(body) {
    body.prepend(this.node);
    if (this.detail !== null) this.node.after(this.detail);
  }

  remove() {
    this.close();
    this.node.remove();
  }
}

/** Key, value, headers and schemas of a record in full. */
function recordDetail(record) {
  const schema = [
    record.format && `value ${record.format}`,
    record.schema_id !== null && record.schema_id !== undefined && `schema id ${record.schema_id}`,
    record.key_format && `key ${record.key_format}`,
    record.key_schema_id !== null && record.key_schema_id !== undefined && `key schema id ${record.key_schema_id}`,
  ].filter(Boolean);
  return h(
    "div",
    { class: "record-detail" },
    record.error && h("p", { class: "error-text" }, visible(`cannot be decoded: ${record.error}`)),
    h(
      "div",
      { class: "columns" },
      block("Key", record.key),
      h("div", {}, h("h3", {}, "Headers"), headerList(record.headers)),
    ),
    block("Value", record.value),
    schema.length > 0 && h("p", { class: "muted" }, visible(schema.join(" · "))),
  );
}

function block(title, value) {
  const text = visible(typeof value === "string" ? value : pretty(value));
  return h(
    "div",
    {},
    h("h3", {}, title),
    h("pre", { class: "data", tabindex: "0", role: "group", "aria-label": title }, text),
  );
}

function headerList(headers) {
  if (!headers?.length) return h("p", { class: "muted" }, "none");
  return h(
    "dl",
    { class: "headers data" },
    headers.map((header) =>
      h(
        "div",
        {},
        h("dt", {}, visible(String(header.name))),
        h("dd", {}, header.base64 !== undefined ? `base64 ${header.base64}` : visible(String(header.value ?? "null"))),
      ),
    ),
  );
}
