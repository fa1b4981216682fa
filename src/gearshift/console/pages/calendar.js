// Intervals of pipelines with a calendar, as a grid: a row for each pipeline, a cell for each interval.
import { isAbort, path, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { fill, h, keyed, set, setHidden, setText } from "./dom.js";
import { exact, plural, seconds, stamp, visible } from "./format.js";
import { isReadOnly } from "./live.js";
import { problemBox } from "./problem.js";
import { stateBadge } from "./state.js";

const SIGNS = { done: "✓", failed: "✕", running: "▶", due: "…", open: "○", late: "▲", "too late": "△" };
const WORDS = {
  done: "done",
  failed: "failed",
  running: "running",
  due: "due",
  open: "open: has not ended",
  late: "late: rows arrived after it ran, due again",
  "too late": "too late: rows arrived after the allowed lateness",
};
const MOST = 400; // of each pipeline, the newest

const stateOf = (interval) => (interval.state in SIGNS ? interval.state : "open");

export function calendar(page) {
  const none = h("p", { class: "empty card", hidden: true }, "No pipeline of the app runs on intervals.");
  const list = h("div", { class: "stack" });
  const legend = h(
    "ul",
    { class: "cell-legend", "aria-label": "Legend" },
    Object.keys(SIGNS).map((state) =>
      h(
        "li",
        {},
        h("span", { class: `cell is-${state.replace(" ", "-")}`, "aria-hidden": "true" }, SIGNS[state]),
        ` ${WORDS[state]}`,
      ),
    ),
  );
  page.root.append(h("div", { class: "page-head" }, h("h1", {}, "Calendar")), legend);
  const ask = page.poll(
    "/api/intervals",
    (found) => {
      const rows = Map.groupBy ? [...Map.groupBy(found, (each) => each.pipeline)] : grouped(found);
      setHidden(none, rows.length > 0);
      setHidden(legend, rows.length === 0);
      keyed(
        list,
        rows,
        ([name]) => name,
        ([name]) => makeRow(page, name, () => ask()),
        (node, [, intervals]) => node.show(intervals),
      );
    },
    { every: 4000 },
  );
  page.root.append(list, none);
}

function grouped(intervals) {
  const found = new Map();
  for (const each of intervals) found.set(each.pipeline, [...(found.get(each.pipeline) ?? []), each]);
  return [...found];
}

function makeRow(page, name, done) {
  const facts = h("p", { class: "muted" });
  const cells = h("ul", { class: "cells" });
  const node = h(
    "section",
    { class: "card" },
    h("h2", {}, h("a", { href: path(["pipelines", name]) }, visible(name))),
    facts,
    cells,
  );
  node.show = (intervals) => {
    const counts = new Map();
    for (const each of intervals) counts.set(stateOf(each), (counts.get(stateOf(each)) ?? 0) + 1);
    setText(facts, [...counts].map(([state, number]) => `${exact(number)} ${state}`).join(" · "));
    const sorted = [...intervals].sort((one, other) => Date.parse(one.start) - Date.parse(other.start)).slice(-MOST);
    keyed(
      cells,
      sorted,
      (each) => each.start,
      () => makeCell(page, done),
      (cell, each) => cell.show(each),
    );
  };
  return node;
}

function makeCell(page, done) {
  let interval = null;
  const button = h("button", { type: "button", class: "cell", onclick: () => openInterval(page, interval, done) });
  const node = h("li", {}, button);
  node.show = (each) => {
    interval = each;
    const state = stateOf(each);
    set(button, "class", `cell is-${state.replace(" ", "-")}`);
    setText(button, SIGNS[state]);
    const words = `${stamp(each.start)}: ${WORDS[state]}${each.rows !== null && each.rows !== undefined ? `, ${plural(each.rows, "row")}` : ""}`;
    set(button, "title", words);
    set(button, "aria-label", words);
  };
  return node;
}

function openInterval(page, interval, done) {
  const fact = (title, value) =>
    value !== null &&
    value !== undefined &&
    value !== "" &&
    h("div", {}, h("dt", {}, title), h("dd", {}, visible(String(value))));
  const inputs = Object.entries(interval.inputs ?? {}).map(
    ([name, input]) => `${name}: ${exact(input.rows)} rows, version ${input.version}`,
  );
  const out = h("div", { role: "status", "aria-live": "polite" });
  const hasRun = Boolean(interval.began);
  const run = h("button", { type: "button", class: "primary", onclick: () => start() }, hasRun ? "Run again" : "Run");
  const start = async () => {
    run.disabled = true;
    try {
      await post(
        path(["api", "pipelines", interval.pipeline, "intervals"]),
        { start: interval.start },
        { signal: page.signal },
      );
      fill(out, h("p", { class: "success" }, "It has started; the calendar shows when it is done."));
      done();
    } catch (failure) {
      if (!isAbort(failure)) fill(out, problemBox(failure));
      run.disabled = false;
    }
  };
  openDialog(
    page,
    { title: visible(interval.pipeline) },
    h(
      "div",
      {},
      h("p", {}, stateBadge(interval.state)),
      interval.error && problemBox({ error: { what: interval.error, pipeline: interval.pipeline } }),
      h(
        "dl",
        { class: "facts" },
        fact("From", stamp(interval.start)),
        fact("To", stamp(interval.end)),
        fact("Rows", interval.rows !== null && interval.rows !== undefined ? exact(interval.rows) : null),
        fact("Late rows", interval.late_rows ? exact(interval.late_rows) : null),
        fact("Last run", interval.began ? stamp(interval.began) : "never"),
        fact("Took", interval.seconds !== null && interval.seconds !== undefined ? seconds(interval.seconds) : null),
        fact("Why", interval.why),
        fact("Tries", interval.tries),
        fact("Version written", interval.version),
        fact("Read", inputs.join("; ")),
      ),
      out,
      isReadOnly() ? h("p", { class: "muted" }, "Read-only: running is off.") : h("footer", {}, run),
    ),
  );
}
