// An error of the API as people read it: what, where, and what to do next.
import { h } from "./dom.js";
import { place, visible } from "./format.js";

const WHERE = ["app", "pipeline", "delivery", "topic", "partition", "offset"];

/** The box for a failure; `again` adds a button that tries once more. */
export function problemBox(failure, again) {
  const error = failure?.error ?? { what: failure?.message ?? "internal error", hint: "see the browser's console" };
  const where = WHERE.filter((name) => error[name] !== null && error[name] !== undefined).map(
    (name) => `${name} ${visible(String(error[name]))}`,
  );
  const file = place(error.file, error.line);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "what" }, visible(String(error.what))),
    where.length > 0 && h("p", { class: "where" }, where.join(", ")),
    file && h("p", { class: "where" }, h("code", { title: visible(String(error.file)) }, file)),
    error.hint && h("p", { class: "hint" }, `Hint: ${visible(String(error.hint))}`),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}
