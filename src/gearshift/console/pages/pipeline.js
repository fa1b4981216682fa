// A pipeline: its gear and how to change it, promised and measured freshness, rates, lag, and the ledger.
import { get, path } from "./api.js";
import { Chart } from "./chart.js";
import { Durations } from "./durations.js";
import { fill, h, setText } from "./dom.js";
import { ago, bytes, count, exact, millis, place, rate, stamp, visible } from "./format.js";
import { gearBadge } from "./gear.js";
import { GearSelector } from "./gear-selector.js";
import { LedgerLine } from "./ledger-line.js";
import { LedgerTable } from "./ledger-table.js";
import { lagOf } from "./lag.js";
import { live, pipelineOfGraph, pipelineStatus } from "./live.js";
import { problemBox } from "./problem.js";
import { stateBadge } from "./state.js";
import { tile } from "./tile.js";

const EVERY = 5000;

export function pipeline(page, name) {
  new PipelineView(page, name);
}

class PipelineView {
  constructor(page, name) {
    Object.assign(this, { page, name });
    this.url = path(["api", "pipelines", name]);
    this.marks = [];
    this.detail = null;
    this.gear = gearBadge(null);
    this.state = stateBadge("unknown", "idle");
    this.source = h("span", { class: "about" });
    this.stores = h("p", { class: "about" });
    this.selector = new GearSelector(page, name, () => this.afterShift());
    this.slot = h("div", {});
    this.trouble = h("div", {});
    this.line = new LedgerLine();
    this.runs = new LedgerTable();
    this.durations = new Durations();
    this.plan = h("pre", { tabindex: "0", role: "group", "aria-label": "Plan" });
    this.makeTiles();
    this.makeCharts();
    this.build();
    page.info(() => this.showDefinition());
    page.live(() => this.showStatus());
    this.refresh = page.poll(this.url, (found) => this.take(found), { every: EVERY, slot: this.slot });
  }

  makeTiles() {
    this.tiles = {
      freshness: tile("Freshness", "promised by the declaration, and the measured latency (99th percentile)"),
      in: tile("Records in", "records that arrive per second"),
      out: tile("Records out", "records written per second"),
      latency: tile("Latency p50", "the time from the record to its result: median, and 99th percentile"),
      lag: tile("Lag", "records that arrived and are not processed yet"),
      dead: tile("Dead letters", "records that could not be decoded or written"),
      replayed: tile("Replayed", "records written by batches that never committed"),
      gap: tile("Gap", "offsets skipped or read twice between runs"),
      state: tile("State", "rows and bytes that Spark keeps for this query"),
      watermark: tile("Watermark"),
      records: tile("Processed", "records since the first run"),
      restarts: tile("Restarts"),
    };
  }

  makeCharts() {
    const { page } = this;
    this.rateChart = new Chart(page, {
      title: "Records per second",
      format: rate,
      lines: [
        { name: "in ", colour: "line-1", value: (point) => point.in },
        { name: "out ", colour: "line-2", value: (point) => point.out },
      ],
    });
    this.latencyChart = new Chart(page, {
      title: "Latency",
      format: millis,
      lines: [
        { name: "p50 ", colour: "line-1", value: (point) => point.p50 },
        { name: "p99 ", colour: "line-3", value: (point) => point.p99 },
      ],
    });
    this.lagChart = new Chart(page, {
      title: "Lag",
      format: count,
      lines: [{ name: "lag", colour: "line-4", value: (point) => point.lag }],
    });
  }

  build() {
    const { page } = this;
    page.root.append(
      h("div", { class: "page-head" }, h("h1", {}, visible(this.name)), this.gear, this.state, this.source),
      this.stores,
      this.slot,
      this.trouble,
      this.selector.node,
      h("section", { "aria-label": "Figures" }, h("div", { class: "tiles" }, Object.values(this.tiles))),
      h(
        "section",
        { class: "charts", "aria-label": "Charts" },
        h("h2", { class: "hidden-text" }, "Charts"),
        [this.rateChart, this.latencyChart, this.lagChart].map((chart) => h("div", { class: "card" }, chart.node)),
      ),
      h("section", { class: "card" }, h("h2", {}, "Ledger"), this.line.node, this.runs.node),
      h("section", { class: "card" }, h("h2", {}, "Durations of the last batch"), this.durations.node),
      h(
        "section",
        { class: "card" },
        h("h2", {}, "Plan"),
        h("details", {}, h("summary", {}, "Show Spark's plan"), this.plan),
      ),
    );
  }

  showDefinition() {
    const found = pipelineOfGraph(this.name);
    if (found === null) return;
    setText(this.source, place(found.file, found.line) ?? "");
    const from = Object.values(found.sources ?? {}).map(storeLink);
    fill(
      this.stores,
      "reads ",
      from.flatMap((link, index) => (index ? [", ", link] : [link])),
      found.target && [" · writes ", storeLink(found.target)],
      found.calendar && ` · calendar ${visible(String(found.calendar))}`,
    );
    this.latencyChart.limit = found.freshness_seconds ? found.freshness_seconds * 1000 : null;
  }

  showStatus() {
    const status = pipelineStatus(this.name) ?? this.detail?.status;
    if (!status) return;
    const { tiles } = this;
    const points = live.pipelines.get(this.name) ?? [];
    const promised = pipelineOfGraph(this.name)?.freshness_seconds ?? 0;
    this.gear.show(status.gear);
    this.state.show(status.state);
    this.selector.show(status.gear);
    this.showTrouble(status);
    const late = promised > 0 && status.latency_p99_ms > promised * 1000;
    tiles.freshness.show(
      visible(String(status.freshness ?? "–")),
      `measured ${millis(status.latency_p99_ms)}${late ? ": slower than promised" : ""}`,
      late ? "warning" : status.latency_p99_ms === null ? "none" : "ok",
    );
    tiles.in.show(rate(status.records_per_second));
    tiles.out.show(
      rate(status.written_per_second),
      status.batch_records_per_second ? `batch ${rate(status.batch_records_per_second)}` : "",
    );
    tiles.latency.show(millis(status.latency_p50_ms), `p99 ${millis(status.latency_p99_ms)}`);
    const lag = lagOf(points, {
      lag: status.lag,
      rate: status.records_per_second,
      promised,
      isBatch: status.gear === "batch",
    });
    tiles.lag.show(
      count(lag.lag),
      lag.trouble === "growing" ? "growing" : lag.worth ? `${millis(lag.worth * 1000)} worth` : "",
      lag.trouble ? "warning" : "none",
    );
    tiles.dead.show(
      exact(status.dead_letters),
      status.dead_letters_pending ? `${exact(status.dead_letters_pending)} pending` : "",
      status.dead_letters ? "warning" : "none",
    );
    tiles.replayed.show(exact(status.replayed));
    tiles.gap.show(
      exact(status.gap),
      status.gap ? "offsets skipped or read twice" : "nothing skipped",
      status.gap ? "error" : "ok",
    );
    tiles.records.show(count(status.records), `${count(status.written)} written`);
    tiles.restarts.show(
      exact(status.restarts),
      status.next_run ? `next run ${stamp(status.next_run)}` : "",
      status.restarts ? "warning" : "none",
    );
    for (const chart of [this.rateChart, this.latencyChart, this.lagChart]) chart.show(points, this.marks);
  }

  showTrouble(status) {
    const sign = `${status.error}|${status.warning}`;
    if (this.trouble.sign === sign) return;
    this.trouble.sign = sign;
    const source = this.detail?.source ?? pipelineOfGraph(this.name);
    fill(
      this.trouble,
      status.error && problemBox({ error: { ...split(status.error), file: source?.file, line: source?.line } }),
      status.warning && h("p", { class: "notice" }, visible(String(status.warning))),
    );
  }

  take(found) {
    this.detail = found;
    this.selector.show(found.status?.gear ?? this.selector.gear, found.gears ?? {});
    this.selector.showWhy(found.why);
    const runs = found.ledger?.runs ?? [];
    this.marks = runs.slice(-50).map((run) => ({ t: Date.parse(run.began), label: run.gear, colour: run.gear }));
    this.line.show(runs);
    this.runs.show(runs);
    this.durations.show(found.durations_ms);
    setText(this.plan, found.plan ?? "No plan yet.");
    this.tiles.state.show(
      found.state ? count(found.state.rows) : "–",
      found.state ? bytes(found.state.bytes) : "no state",
    );
    this.tiles.watermark.show(
      found.watermark ? ago(found.watermark) : "–",
      found.watermark ? stamp(found.watermark) : "none declared",
    );
    if (found.source?.file) setText(this.source, place(found.source.file, found.source.line));
    this.showStatus();
  }

  async afterShift() {
    const found = await get(this.url, { signal: this.page.signal });
    this.take(found);
    return found.ledger?.gap ?? null;
  }
}

/** An error of the status is one text: what happened, and after a semicolon the hint. */
function split(text) {
  const [what, ...hint] = String(text).split("; ");
  return { what, hint: hint.join("; ") };
}

function storeLink(store) {
  const [kind, name] = store.table !== undefined ? ["tables", store.table] : ["topics", store.topic];
  return h("a", { href: path([kind, name]) }, visible(name));
}
