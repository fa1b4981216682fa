// The ledger as a time line: a bar for each run, in the colour of its gear.
import { h, keyed, set, setText } from "./dom.js";
import { exact, millis, stamp, visible } from "./format.js";
import { timeLabel, timeTicks } from "./axes.js";

const SPANS = [
  ["10 minutes", 600_000],
  ["1 hour", 3_600_000],
  ["1 day", 86_400_000],
  ["all", 0],
];
const MOST = 300;

export class LedgerLine {
  constructor() {
    this.runs = [];
    this.span = SPANS[3][1];
    this.buttons = SPANS.map(([title, span]) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(span === this.span), onclick: () => this.choose(span) },
        title,
      ),
    );
    this.bars = h("div", { class: "bars" });
    this.ticks = h("div", { class: "ticks" });
    this.words = h("p", { class: "hidden-text" });
    this.node = h(
      "div",
      { class: "ledger-line" },
      h("div", { class: "choices", role: "group", "aria-label": "Time shown" }, this.buttons),
      h(
        "div",
        { class: "line-box", role: "img", "aria-label": "Runs by gear over time; the table below has the same" },
        this.bars,
        this.ticks,
      ),
    );
  }

  choose(span) {
    this.span = span;
    this.buttons.forEach((button, index) => set(button, "aria-pressed", String(SPANS[index][1] === span)));
    this.show(this.runs);
  }

  show(runs) {
    this.runs = runs;
    const to = Date.now();
    const begins = runs.map((run) => Date.parse(run.began));
    const from = Math.max(this.span ? to - this.span : 0, Math.min(...begins, to - 60_000));
    const share = (t) => ((Math.max(from, Math.min(to, t)) - from) / (to - from)) * 100;
    const shown = runs.filter((run) => endOf(run, to) >= from).slice(-MOST);
    keyed(
      this.bars,
      shown,
      (run) => run.number,
      () => h("span", {}),
      (node, run) => {
        const left = share(Date.parse(run.began));
        const width = Math.max(0.25, share(endOf(run, to)) - left);
        set(node, "class", `bar in-${run.gear}${run.error ? " failed" : ""}${run.ended ? "" : " current"}`);
        set(node, "style", { left: `${left.toFixed(3)}%`, width: `${width.toFixed(3)}%` });
        set(node, "title", describe(run, to));
        setText(node, width > 9 ? run.gear : "");
      },
    );
    const { ticks, step } = timeTicks(from, to, 700, 110);
    keyed(
      this.ticks,
      ticks.filter((t) => share(t) < 94),
      (t) => t,
      () => h("span", {}),
      (node, t) => {
        set(node, "style", { left: `${share(t).toFixed(3)}%` });
        setText(node, timeLabel(t, step));
      },
    );
  }
}

function endOf(run, now) {
  return run.ended ? Date.parse(run.ended) : now;
}

function describe(run, now) {
  const took = millis(endOf(run, now) - Date.parse(run.began));
  return visible(
    `run ${run.number}, ${run.gear}, ${run.why}: ${exact(run.records)} records from ${stamp(run.began)}, ${took}${run.error ? `; ${run.error}` : ""}`,
  );
}
