// The dialog that writes a record: inputs by the fields of the value's schema, or JSON without one.
import { get, isAbort, path, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { parseExact, pretty, rawNumber } from "./exact-json.js";
import { field, select, text } from "./field.js";
import { exact, visible } from "./format.js";
import { problemBox } from "./problem.js";

const WHOLE = /^(int|long|integer)$/;
const REAL = /^(float|double|number)$/;
const TEXT =
  /^(string|bytes|uuid|duration|date|date-time|time|time-.*|timestamp-.*|local-timestamp-.*|timestamp|decimal\(.*\)|email|uri)$/;
const TIME = /^(date-time|timestamp|local-timestamp)/;

export async function openProduce(page, topic) {
  const url = path(["api", "topics", topic]);
  const body = h("div", {}, h("p", { class: "muted" }, "Reading the schema…"));
  openDialog(page, { title: `Produce to ${visible(topic)}`, wide: true }, body);
  let form = null;
  try {
    form = await get(`${url}/form`, { signal: page.signal });
  } catch (failure) {
    if (isAbort(failure)) return;
    if (failure.status !== 404) {
      fill(body, problemBox(failure));
      return;
    }
  }
  showForm(page, `${url}/records`, form, body);
}

function showForm(page, url, form, body) {
  const inputs = form === null ? null : form.fields.map(fieldInput);
  const whole = h("textarea", { rows: "6", spellcheck: "false" });
  const key = text({});
  const keyIsJson = h("input", { type: "checkbox" });
  const headers = h("textarea", { rows: "2", spellcheck: "false", placeholder: "name: value" });
  const partition = text({ type: "number", min: "0", placeholder: "by key" });
  const out = h("div", { role: "status", "aria-live": "polite" });
  const submit = h("button", { type: "submit", class: "primary" }, "Produce");
  fill(
    body,
    h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          submit.disabled = true;
          try {
            const value = inputs === null ? anyValue(whole.value) : valueOf(inputs);
            const record = {
              key: key.value === "" ? null : keyIsJson.checked ? json("the key", key.value) : key.value,
              value,
              headers: headersOf(headers.value),
              partition: partition.value === "" ? null : Number(partition.value),
            };
            const written = await post(url, record, { signal: page.signal });
            fill(
              out,
              h(
                "p",
                { class: "success" },
                `Written to partition ${written.partition}, offset ${exact(written.offset)}`,
              ),
            );
          } catch (failure) {
            if (!isAbort(failure)) fill(out, problemBox(failure));
          } finally {
            submit.disabled = false;
          }
        },
      },
      form === null &&
        h(
          "p",
          { class: "muted" },
          "No schema is registered: the value is written as JSON, or as text if it is not JSON.",
        ),
      h("div", { class: "form-grid" }, inputs === null ? field("Value", whole) : inputs.map((each) => each.node)),
      h(
        "div",
        { class: "form-grid" },
        field("Key", key, form?.key_field ? `empty: the value of ${visible(form.key_field)}` : "empty: no key"),
        h("label", { class: "check" }, keyIsJson, " the key is JSON, for a schema of keys"),
        field("Partition", partition),
        field("Headers", headers, "one a line, name: value"),
      ),
      out,
      h("footer", {}, submit),
    ),
  );
  body.querySelector("input, textarea, select")?.focus();
}

/** {name, node, read()}: read returns undefined for an optional field that was left empty. */
function fieldInput({ name, type, required, default: preset }) {
  const words = String(type ?? "string");
  const base = words.replace(/ or null$/, "");
  const isNullable = base !== words;
  const label = `${visible(name || "Value")}${required ? "" : " (optional)"}`;
  const filled =
    preset === null || preset === undefined ? "" : typeof preset === "object" ? pretty(preset) : String(preset);
  const attrs = { value: filled, required: required && !isNullable && base !== "string" };
  const made = (control, hint, read) => ({
    name,
    node: field(label, control, hint),
    // An empty text is a value of its own, where nothing else can be meant.
    read: () =>
      control.value === "" && !(required && base === "string" && !isNullable)
        ? required
          ? null
          : undefined
        : read(control.value),
  });
  if (base === "boolean")
    return made(
      choice(["true", "false"], filled, required && !isNullable),
      visible(words),
      (value) => value === "true",
    );
  if (base.includes(" | "))
    return made(choice(base.split(" | "), filled, required && !isNullable), "one of these", (value) => value);
  if (WHOLE.test(base))
    return made(text({ inputmode: "numeric", pattern: "-?[0-9]+", ...attrs }), visible(words), number);
  if (REAL.test(base))
    return made(
      text({ inputmode: "decimal", pattern: "-?[0-9]*\\.?[0-9]+([eE][+\\-]?[0-9]+)?", ...attrs }),
      visible(words),
      number,
    );
  if (TEXT.test(base))
    return made(
      text({ ...attrs, placeholder: TIME.test(base) ? "2026-01-31T12:00:00Z" : null }),
      visible(words),
      (value) => value,
    );
  return made(h("textarea", { rows: "3", spellcheck: "false", ...attrs }), `${visible(words)}, as JSON`, (value) =>
    json(name, value),
  );
}

function choice(values, chosen, required) {
  const control = select(
    [...(required && chosen ? [] : [["", ""]]), ...values.map((value) => [value, visible(value)])],
    { required },
  );
  control.value = chosen;
  return control;
}

function number(digits) {
  const value = Number(digits);
  // A 64-bit number keeps its digits, if it is written as JSON writes numbers.
  return String(value) !== digits && /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(digits) ? rawNumber(digits) : value;
}

function valueOf(inputs) {
  // A schema that is no record has one field without a name.
  if (inputs.length === 1 && inputs[0].name === "") return inputs[0].read();
  const value = {};
  for (const each of inputs) {
    const found = each.read();
    if (found !== undefined) value[each.name] = found;
  }
  return value;
}

function json(name, written) {
  try {
    return parseExact(written);
  } catch (failure) {
    throw {
      error: {
        what: `${name || "the value"} is not JSON: ${failure.message}`,
        hint: 'text needs quotes, as in "text"',
      },
    };
  }
}

function anyValue(written) {
  try {
    return parseExact(written);
  } catch {
    return written;
  }
}

function headersOf(written) {
  const headers = {};
  for (const line of written.split("\n")) {
    if (!line.trim()) continue;
    const colon = line.indexOf(":");
    if (colon < 1) throw { error: { what: `header ${line.trim()} has no value`, hint: "write name: value" } };
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}
