// The runs of a ledger as a table: which gear ran over which offsets, and why.
import { DataTable } from "./data-table.js";
import { h, setHidden, setText } from "./dom.js";
import { exact, seconds, shortStamp, stamp, visible } from "./format.js";
import { gearBadge } from "./gear.js";

const FIRST = 30;

export class LedgerTable {
  constructor() {
    this.all = false;
    this.runs = [];
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.showAll() });
    this.table = new DataTable({
      label: "Runs of the ledger",
      key: (run) => run.number,
      empty: "It has not run yet.",
      rowClass: (run) => (run.error ? "is-error" : run.ended ? "" : "is-current"),
      columns: [
        { title: "Run", number: true, text: (run) => run.number },
        { title: "Gear", node: (run) => gearBadge(run.gear), sign: (run) => run.gear },
        {
          title: "Why",
          wide: true,
          node: why,
          sign: (run) => [run.why, run.error, run.note, run.paused_for].join("|"),
        },
        { title: "Began", node: (run) => moment(run.began), sign: (run) => shortStamp(run.began) },
        {
          title: "Ended",
          node: (run) => (run.ended ? moment(run.ended) : h("span", {}, "running")),
          sign: (run) => (run.ended ? shortStamp(run.ended) : ""),
        },
        { title: "Records", number: true, text: (run) => exact(run.records) },
        { title: "Written", number: true, text: (run) => exact(run.written) },
        { title: "Gap", number: true, text: (run) => exact(run.gap), isBad: (run) => run.gap > 0 },
        {
          title: "Replayed",
          number: true,
          text: (run) =>
            run.replayed === null || run.replayed === undefined
              ? "–"
              : `${run.at_least ? "≥ " : ""}${exact(run.replayed)}`,
        },
        { title: "Pause", number: true, text: (run) => seconds(run.pause) },
        { title: "Offsets", node: offsets, sign: (run) => JSON.stringify([run.starts, run.ends]) },
      ],
    });
    this.node = h("div", {}, this.table.node, this.more);
  }

  showAll() {
    this.all = true;
    this.show(this.runs);
  }

  /** Newest first. */
  show(runs) {
    this.runs = runs;
    const newest = [...runs].reverse();
    this.table.show(this.all ? newest : newest.slice(0, FIRST));
    setHidden(this.more, this.all || runs.length <= FIRST);
    setText(this.more, `Show all ${exact(runs.length)} runs`);
  }
}

function moment(iso) {
  return h("time", { datetime: iso, title: stamp(iso) }, shortStamp(iso));
}

function why(run) {
  return h(
    "div",
    { class: "why" },
    visible(String(run.why ?? "")),
    run.error && h("p", { class: "error-text" }, visible(String(run.error))),
    run.note && h("p", { class: "muted" }, visible(String(run.note))),
    run.paused_for && h("p", { class: "muted" }, visible(String(run.paused_for))),
  );
}

function offsets(run) {
  const topics = [...new Set([...Object.keys(run.starts ?? {}), ...Object.keys(run.ends ?? {})])];
  if (topics.length === 0) return h("span", {}, "–");
  const lines = [];
  for (const topic of topics) {
    const [starts, ends] = [run.starts?.[topic] ?? {}, run.ends?.[topic] ?? {}];
    for (const partition of Object.keys(ends).sort((one, other) => one - other)) {
      lines.push(
        h("li", {}, `${visible(topic)} ${partition}: ${exact(starts[partition] ?? 0)} → ${exact(ends[partition])}`),
      );
    }
  }
  return h(
    "details",
    {},
    h("summary", {}, `${lines.length} partition${lines.length === 1 ? "" : "s"}`),
    h("ul", { class: "offsets" }, lines),
  );
}
