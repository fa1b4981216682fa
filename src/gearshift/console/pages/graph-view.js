// The app's graph on the overview: edges in SVG below nodes that are links. On a narrow screen it is a list by stage.
import { h, s, set, setText } from "./dom.js";
import { STAGES, graphModel } from "./graph-model.js";
import { columnsOf, curve, placed } from "./graph-layout.js";
import { factsOf, graphNode, lagLabel } from "./graph-node.js";
import { lagOf } from "./lag.js";
import { live, totalLag, latestPoint } from "./live.js";

const TITLES = {
  sources: "Sources and captures",
  topics: "Topics",
  pipelines: "Pipelines",
  tables: "Tables",
  deliveries: "Deliveries",
  destinations: "Destinations",
};
const NARROW = matchMedia("(max-width: 700px)");

export class GraphView {
  constructor(page, graph) {
    this.graph = graph;
    const { nodes, edges } = graphModel(graph);
    this.nodes = new Map(nodes.map((node) => [node.id, node]));
    this.edges = edges;
    this.layout = columnsOf(nodes, edges);
    this.links = new Map(nodes.map((node) => [node.id, graphNode(node)]));
    this.items = new Map(nodes.map((node) => [node.id, h("li", {}, this.links.get(node.id))]));
    this.svg = s("svg", { class: "edges", "aria-hidden": "true" });
    this.drawn = new Map(edges.map((edge) => [edge.id, this.edge(edge)]));
    // Labels lie above all curves.
    for (const { lines } of this.drawn.values()) this.svg.append(...lines);
    for (const { label } of this.drawn.values()) this.svg.append(label);
    this.stage = h("div", { class: "graph" }, this.svg, this.sections(nodes));
    this.node = h(
      "div",
      { class: "graph-scroller", tabindex: "0", role: "region", "aria-label": "Graph of the app" },
      this.stage,
    );
    this.width = 0;
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width !== this.width) this.place((this.width = width));
    });
    observer.observe(this.node);
    page.onLeave(() => observer.disconnect());
  }

  sections(nodes) {
    return STAGES.map((stage) => {
      const here = nodes.filter((node) => node.stage === stage);
      if (here.length === 0) return null;
      return h(
        "section",
        { class: "stage" },
        h("h3", {}, TITLES[stage]),
        h(
          "ul",
          {},
          here.map((node) => this.items.get(node.id)),
        ),
      );
    });
  }

  edge(edge) {
    const line = s("path", { class: "edge" });
    const flow = s("path", { class: "flow" });
    const label = s("text", { class: "edge-label", "text-anchor": "end" });
    return { edge, lines: [line, flow], line, flow, label, phase: 0 };
  }

  place(available) {
    if (NARROW.matches) {
      for (const item of this.items.values()) item.removeAttribute("style");
      this.stage.removeAttribute("style");
      return;
    }
    const { places, width, height } = this.measure(available - 4);
    const bottom = height + (this.layout.back.size > 0 ? 40 : 6);
    set(this.stage, "style", { width: `${width}px`, height: `${bottom}px` });
    set(this.svg, "width", width);
    set(this.svg, "height", bottom);
    for (const [id, item] of this.items) {
      const at = places.get(id);
      set(item, "style", { left: `${at.x}px`, top: `${at.y}px`, width: `${at.width}px`, height: `${at.height}px` });
    }
    for (const { edge, line, flow, label } of this.drawn.values()) {
      const drawn = curve(places.get(edge.from), places.get(edge.to));
      set(line, "d", drawn.path);
      set(flow, "d", drawn.path);
      set(label, "x", drawn.x);
      set(label, "y", drawn.y - 6);
    }
  }

  /** Places the nodes by the heights that their texts need at the width of a column. */
  measure(available) {
    const { places } = placed(this.layout.columns, () => 50, available);
    const natural = new Map();
    for (const [id, item] of this.items) set(item, "style", { width: `${places.get(id).width}px`, height: "auto" });
    for (const [id, item] of this.items) natural.set(id, item.offsetHeight);
    return placed(this.layout.columns, (id) => natural.get(id), available);
  }

  show(status) {
    const pipelines = new Map((status.pipelines ?? []).map((each) => [each.name, each]));
    const deliveries = new Map((status.deliveries ?? []).map((each) => [each.name, each]));
    const topics = new Map((status.topics ?? []).map((each) => [each.name, each]));
    const lags = new Map();
    for (const each of this.drawn.values()) this.showEdge(each, { pipelines, deliveries, topics, lags });
    const facts = factsOf(status, live.alerts);
    for (const [id, link] of this.links) link.show({ ...facts.get(id), lag: lags.get(id) });
  }

  showEdge(each, known) {
    const { edge, line, flow, label } = each;
    const lag = this.lag(edge, known);
    const moving = this.rate(edge, known);
    const words = lag === null || NARROW.matches ? "" : lagLabel(lag);
    // The label of a pipeline's lag stands once, at its first input.
    setText(label, lag?.isShown === false ? "" : words);
    const trouble = lag?.trouble ? " troubled" : "";
    set(line, "class", `edge${trouble}`);
    set(label, "class", `edge-label${trouble}`);
    set(flow, "class", `flow${trouble}${moving > 0 ? "" : " still"}`);
    if (moving > 0) {
      // One step a second shows that records flow, at no cost in between.
      each.phase = (each.phase + 3) % 12;
      set(flow, "stroke-dashoffset", -each.phase);
      set(flow, "stroke-width", Math.min(4, 1.2 + Math.log10(1 + moving) * 0.6).toFixed(1));
    }
  }

  lag(edge, { pipelines, deliveries, lags }) {
    const name = edge.pipeline ?? edge.delivery;
    if (name === undefined) return null;
    const key = edge.to;
    if (lags.has(key)) return { ...lags.get(key), isShown: false };
    let found;
    if (edge.pipeline !== undefined) {
      const status = pipelines.get(name);
      const definition = this.nodes.get(edge.to).definition;
      const points = live.pipelines.get(name);
      const options = {
        lag: status?.lag,
        rate: status?.records_per_second,
        promised: definition.freshness_seconds ?? 0,
        isBatch: status?.gear === "batch",
      };
      found = lagOf(points, options);
    } else {
      const points = live.deliveries.get(name);
      const status = deliveries.get(name);
      found = lagOf(points, { lag: status ? totalLag(status) : null, rate: latestPoint(points)?.out });
    }
    lags.set(key, found);
    return found;
  }

  rate(edge, { pipelines, topics }) {
    if (edge.pipeline !== undefined) return pipelines.get(edge.pipeline)?.records_per_second ?? 0;
    if (edge.delivery !== undefined) return latestPoint(live.deliveries.get(edge.delivery))?.out ?? 0;
    const from = this.nodes.get(edge.from);
    if (from.kind === "pipeline") return pipelines.get(from.name)?.written_per_second ?? 0;
    if (from.kind === "delivery") return latestPoint(live.deliveries.get(from.name))?.out ?? 0;
    const to = this.nodes.get(edge.to);
    return topics.get(to.name)?.records_per_second ?? 0;
  }
}
