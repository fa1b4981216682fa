// A box for SQL: Ctrl+Enter runs it; a result with times and numbers is drawn too.
import { isAbort, post } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h, setText } from "./dom.js";
import { oneLine, toNumber } from "./exact-json.js";
import { field } from "./field.js";
import { exact, seconds, visible, plural } from "./format.js";
import { problemBox } from "./problem.js";

const LIMIT = 1000;
const COLOURS = ["line-1", "line-2", "line-3", "line-4"];

export function sqlBox(page, query) {
  const input = h("textarea", {
    rows: "4",
    spellcheck: "false",
    value: query,
    placeholder: "SELECT …",
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      }
    },
  });
  const button = h("button", { type: "submit", class: "primary" }, "Run");
  const status = h("p", { class: "muted", role: "status", "aria-live": "polite" });
  const out = h("div", { class: "stack" });
  let running = null;
  const run = async () => {
    running?.abort();
    const mine = (running = new AbortController());
    setText(status, "Running…");
    try {
      const signal = AbortSignal.any([mine.signal, page.signal]);
      const found = await post("/api/sql", { query: input.value, limit: LIMIT }, { signal, exact: true });
      fill(out, chartOf(page, found), resultTable(found));
      setText(
        status,
        `${found.truncated ? "the first " : ""}${plural(found.rows.length, "row")} in ${seconds(toNumber(found.seconds))}`,
      );
    } catch (failure) {
      if (isAbort(failure)) return;
      setText(status, "");
      fill(out, problemBox(failure));
    }
  };
  const form = h(
    "form",
    { onsubmit: (event) => (event.preventDefault(), run()) },
    field("Query", input, "Ctrl+Enter runs it; it reads the tables, and changes nothing"),
    h("div", { class: "toolbar sql-tools" }, button, status),
  );
  return h("section", { class: "card" }, h("h2", {}, "SQL"), form, out);
}

const isNumber = (type) =>
  /INT|DECIMAL|NUMERIC|FLOAT|DOUBLE|REAL|LONG|SHORT/i.test(type) && !/\[\]|STRUCT|LIST|MAP|INTERVAL/i.test(type);
const isTime = (type) => /^(TIMESTAMP|DATETIME|DATE)\b/i.test(type) && !/\[\]/.test(type);

function resultTable({ columns, types, rows }) {
  if (rows.length === 0) return h("p", { class: "empty" }, "No rows.");
  const classes = types.map((type) => (isNumber(String(type)) ? "number" : "cell"));
  return h(
    "div",
    { class: "scroller tall", tabindex: "0", role: "region", "aria-label": "Result" },
    h(
      "table",
      {},
      h("caption", { class: "hidden-text" }, "Result"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((name, index) =>
            h(
              "th",
              { scope: "col", class: classes[index], title: visible(String(types[index])) },
              visible(String(name)),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((value, index) => h("td", { class: classes[index] }, visible(oneLine(value, 400)))),
          ),
        ),
      ),
    ),
  );
}

/** A chart of the number columns over the first column of times, if there are both. */
function chartOf(page, { columns, types, rows }) {
  const time = types.findIndex((type) => isTime(String(type)));
  const numbers = types
    .map((type, index) => index)
    .filter((index) => isNumber(String(types[index])))
    .slice(0, COLOURS.length);
  if (time < 0 || numbers.length === 0 || rows.length < 2) return null;
  const points = rows
    .map((row) => ({ t: instant(row[time]), values: numbers.map((index) => numeric(row[index])) }))
    .filter((point) => !Number.isNaN(point.t))
    .sort((one, other) => one.t - other.t);
  if (points.length < 2) return null;
  const lines = numbers.map((index, at) => ({
    name: `${visible(String(columns[index]))} `,
    colour: COLOURS[at],
    named: true,
    value: (point) => point.values[at],
  }));
  const span = (points[points.length - 1].t - points[0].t) / 1000 + 1;
  const chart = new Chart(page, {
    title: `by ${visible(String(columns[time]))}`,
    lines,
    seconds: span,
    height: 200,
    format: (value) => exactShort(value),
  });
  chart.show(points);
  return chart.node;
}

/** DuckDB's times have a blank for the T, and no zone if they have none. */
function instant(value) {
  return Date.parse(
    String(value ?? "")
      .replace(" ", "T")
      .replace(/([+-]\d\d)$/, "$1:00"),
  );
}

function numeric(value) {
  if (value === null || value === undefined) return null;
  const found = toNumber(value) ?? Number(value);
  return Number.isNaN(found) ? null : found;
}

function exactShort(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 1000 ? String(Number(value.toPrecision(4))) : exact(value);
}
