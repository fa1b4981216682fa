// One dead letter: the record, the reason, and where it failed.
import { path } from "./api.js";
import { h, newId } from "./dom.js";
import { pretty } from "./exact-json.js";
import { bytes, stamp, visible } from "./format.js";
import { isReadOnly } from "./live.js";
import { openSettle } from "./settle.js";

export class Letter {
  constructor(data, page, topic, done, onSelect) {
    this.data = data;
    const id = newId();
    const settle = (verb) => () => openSettle(page, topic, verb, [data], done);
    const name = `letter ${data.place.join("/")}`;
    this.box = h("input", { type: "checkbox", id, "aria-label": `Select ${name}`, onchange: onSelect });
    this.node = h(
      "li",
      { class: "card letter" },
      h(
        "div",
        { class: "letter-head" },
        !isReadOnly() && this.box,
        h("h2", {}, visible(String(data.reason))),
        !isReadOnly() &&
          h(
            "div",
            { class: "buttons" },
            h("button", { type: "button", "aria-label": `Replay ${name}`, onclick: settle("replay") }, "Replay"),
            h(
              "button",
              { type: "button", class: "danger", "aria-label": `Discard ${name}`, onclick: settle("discard") },
              "Discard",
            ),
          ),
      ),
      h("p", { class: "muted" }, about(data)),
      origin(data, topic),
      h(
        "div",
        { class: "columns" },
        block("Key", data.key),
        data.decoded !== null && data.decoded !== undefined
          ? block("Decoded value", data.decoded)
          : block("Value as text", data.value),
      ),
      h(
        "details",
        {},
        h("summary", {}, "Bytes, headers and stack"),
        data.decoded !== null && data.decoded !== undefined && block("Value as text", data.value),
        block("Headers", data.headers ?? []),
        data.stack ? block("Stack", data.stack) : h("p", { class: "muted" }, "no stack"),
      ),
    );
    this.node.letter = this;
  }

  get isSelected() {
    return this.box.checked;
  }

  select(checked) {
    this.box.checked = checked;
  }
}

function about(data) {
  const failed = data.delivery
    ? `delivery ${data.delivery}`
    : data.pipeline
      ? `pipeline ${data.pipeline}`
      : data.failed_in;
  const size = typeof data.bytes === "number" ? bytes(data.bytes) : null;
  return visible(
    [`failed in ${failed}`, data.exception, data.stage && `stage ${data.stage}`, stamp(data.written), size]
      .filter(Boolean)
      .join(" · "),
  );
}

function origin(data, topic) {
  if (data.row) return h("p", { class: "muted" }, `row ${visible(String(data.row))}`);
  if (data.result_for) return h("p", { class: "muted" }, `a row of the result for ${visible(String(data.result_for))}`);
  if (data.partition === null || data.partition === undefined) return null;
  const source = topic.replace(/\.dlq$/, "");
  return h(
    "p",
    { class: "muted" },
    "record ",
    h("a", { href: path(["topics", source]) }, visible(source)),
    ` partition ${data.partition}, offset ${data.offset}`,
  );
}

function block(title, value) {
  const text = value === null || value === undefined ? "null" : typeof value === "string" ? value : pretty(value);
  return h(
    "div",
    {},
    h("h3", {}, title),
    h("pre", { class: "data", tabindex: "0", role: "group", "aria-label": title }, visible(text)),
  );
}
