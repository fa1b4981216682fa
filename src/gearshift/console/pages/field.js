// A labelled input.
import { h, newId } from "./dom.js";

/** {node, input}: `control` is an input, select or textarea. */
export function field(label, control, hint) {
  const id = newId();
  control.id = id;
  const hintId = hint ? newId() : null;
  if (hintId) control.setAttribute("aria-describedby", hintId);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint && h("small", { id: hintId }, hint),
  );
}

export function text(attrs = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attrs });
}

/** `options`: [value, words]. */
export function select(options, attrs = {}) {
  return h(
    "select",
    attrs,
    options.map(([value, words]) => h("option", { value }, words)),
  );
}
