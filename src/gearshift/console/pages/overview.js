// The first page: what is wrong, the app as a living graph, and its pipelines and deliveries as tables.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { fill, h, setHidden } from "./dom.js";
import { count, exact, millis, rate, visible, plural } from "./format.js";
import { gearBadge } from "./gear.js";
import { GraphView } from "./graph-view.js";
import { live, totalLag } from "./live.js";
import { stateBadge } from "./state.js";
import { Troubles } from "./troubles.js";

export function overview(page) {
  let shown = null;
  page.root.append(h("h1", {}, "Overview"));
  page.info(() => {
    const { app, graph } = live.info;
    const key = JSON.stringify([app, graph]);
    if (key === shown) return;
    shown = key;
    fill(page.root);
    if (app === null || graph === null) showCluster(page);
    else showApp(page, live.info);
  });
}

function showApp(page, info) {
  const troubles = new Troubles();
  const view = new GraphView(page, info.graph);
  const pipelines = pipelineTable(info.graph);
  const deliveries = deliveryTable();
  const some = h("section", {}, h("h2", {}, "Deliveries"), deliveries.node);
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, visible(info.app)), h("p", { class: "about" }, about(info))),
    troubles.node,
    h("section", { class: "card" }, h("h2", {}, "From source to destination"), view.node),
    h("section", {}, h("h2", {}, "Pipelines"), pipelines.node),
    some,
  );
  setHidden(some, info.graph.deliveries.length === 0);
  page.live((status) => {
    troubles.show(live.alerts);
    view.show(status);
    pipelines.show(status.pipelines ?? []);
    deliveries.show(status.deliveries ?? []);
  });
}

function about(info) {
  const parts = [info.version && `Gearshift ${info.version}`, info.bootstrap_servers, info.graph.timezone];
  return parts.filter(Boolean).map(String).map(visible).join(" · ");
}

function pipelineTable(graph) {
  const promised = new Map(graph.pipelines.map((each) => [each.name, each.freshness_seconds]));
  const isLate = (row) => promised.get(row.name) > 0 && row.latency_p99_ms > promised.get(row.name) * 1000;
  return new DataTable({
    label: "Pipelines",
    key: (row) => row.name,
    empty: "The app declares no pipeline.",
    columns: [
      {
        title: "Pipeline",
        node: (row) => h("a", { href: path(["pipelines", row.name]) }, visible(row.name)),
        sign: (row) => row.name,
      },
      { title: "Gear", node: (row) => gearBadge(row.gear), sign: (row) => row.gear },
      { title: "State", node: (row) => stateBadge(row.state), sign: (row) => row.state },
      { title: "Freshness", text: (row) => visible(String(row.freshness ?? "–")) },
      {
        title: "Latency p99",
        number: true,
        text: (row) => `${isLate(row) ? "▲ " : ""}${millis(row.latency_p99_ms)}`,
        isBad: isLate,
      },
      { title: "In", number: true, text: (row) => rate(row.records_per_second) },
      { title: "Out", number: true, text: (row) => rate(row.written_per_second) },
      { title: "Lag", number: true, text: (row) => count(row.lag) },
      { title: "Dead letters", number: true, text: (row) => exact(row.dead_letters) },
      { title: "Gap", number: true, text: (row) => exact(row.gap) },
    ],
  });
}

const stateOf = (delivery) => (delivery.paused ? "paused" : delivery.retrying ? "retrying" : delivery.state);

function deliveryTable() {
  return new DataTable({
    label: "Deliveries",
    key: (row) => row.name,
    columns: [
      {
        title: "Delivery",
        node: (row) => h("a", { href: path(["groups", row.group_id]) }, visible(row.name)),
        sign: (row) => row.group_id,
      },
      {
        title: "Topic",
        node: (row) => h("a", { href: path(["topics", row.topic]) }, visible(row.topic)),
        sign: (row) => row.topic,
      },
      {
        title: "State",
        node: (row) => stateBadge(stateOf(row), row.error ? "warning" : undefined),
        sign: (row) => `${stateOf(row)} ${Boolean(row.error)}`,
      },
      { title: "Delivered", number: true, text: (row) => exact(row.delivered) },
      { title: "Per second", number: true, text: (row) => rate(row.delivered_per_second) },
      { title: "Lag", number: true, text: (row) => count(totalLag(row)) },
      { title: "In flight", number: true, text: (row) => exact(row.in_flight) },
      { title: "Retries", number: true, text: (row) => exact(row.retries) },
      { title: "Duplicates", number: true, text: (row) => exact(row.duplicates) },
      { title: "Dead letters", number: true, text: (row) => exact(row.dead_letters) },
      { title: "Consumers", number: true, text: (row) => exact(row.consumers) },
    ],
  });
}

function showCluster(page) {
  const topics = h("b", {}, "…");
  const records = h("span", {}, "");
  const groups = h("b", {}, "…");
  const lag = h("span", {}, "");
  page.root.append(
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, "Cluster"),
      h(
        "p",
        { class: "about" },
        `No app is running here. Cluster: ${visible(String(live.info.bootstrap_servers ?? "unknown"))}`,
      ),
    ),
    h(
      "div",
      { class: "tiles" },
      h("a", { class: "tile", href: "/topics" }, h("span", { class: "tile-title" }, "Topics"), topics, records),
      h("a", { class: "tile", href: "/groups" }, h("span", { class: "tile-title" }, "Consumer groups"), groups, lag),
    ),
    h("p", {}, "Start an app with ", h("code", {}, "gearshift run FILE"), " to see its pipelines here."),
  );
  page.poll(
    "/api/topics",
    (found) => {
      topics.textContent = exact(found.length);
      records.textContent = plural(
        found.reduce((sum, topic) => sum + (topic.records ?? 0), 0),
        "record",
      );
    },
    { every: 10_000 },
  );
  page.poll(
    "/api/groups",
    (found) => {
      groups.textContent = exact(found.length);
      lag.textContent = `lag ${exact(found.reduce((sum, group) => sum + (group.lag ?? 0), 0))}`;
    },
    { every: 10_000 },
  );
}
