// The app's graph as nodes and edges: what feeds what, from sources to destinations.
import { path } from "./api.js";

export const STAGES = ["sources", "topics", "pipelines", "tables", "deliveries", "destinations"];

const storeId = (store) => (store.table !== undefined ? `table:${store.table}` : `topic:${store.topic}`);

/** {nodes: [{id, kind, stage, name, href, definition}], edges: [{id, from, to, delivery?, pipeline?}]} */
export function graphModel(graph) {
  const nodes = new Map();
  const edges = new Map();
  const node = (id, kind, stage, name, href, definition = null) => {
    if (!nodes.has(id)) nodes.set(id, { id, kind, stage, name, href, definition });
    return id;
  };
  const edge = (from, to, about = {}) => edges.set(`${from}→${to}`, { id: `${from}→${to}`, from, to, ...about });
  const store = (each) =>
    each.table !== undefined
      ? node(storeId(each), "table", "tables", each.table, path(["tables", each.table]))
      : node(storeId(each), "topic", "topics", each.topic, path(["topics", each.topic]));

  for (const topic of graph.topics ?? []) store({ topic: topic.name });
  for (const table of graph.tables ?? []) store({ table: table.name });
  for (const source of graph.sources ?? []) {
    const to = source.to?.[0];
    const id = node(`source:${source.name}`, "source", "sources", source.name, to ? nodeHref(to) : "/topics", source);
    for (const each of source.to ?? []) edge(id, store(each));
  }
  for (const capture of graph.captures ?? []) {
    const id = node(`capture:${capture.name}`, "capture", "sources", capture.name, "/connectors", capture);
    for (const each of Object.values(capture.tables ?? {})) edge(id, store(each));
  }
  for (const pipeline of graph.pipelines ?? []) {
    const id = node(
      `pipeline:${pipeline.name}`,
      "pipeline",
      "pipelines",
      pipeline.name,
      path(["pipelines", pipeline.name]),
      pipeline,
    );
    for (const each of Object.values(pipeline.sources ?? {})) edge(store(each), id, { pipeline: pipeline.name });
    if (pipeline.target) edge(id, store(pipeline.target));
  }
  for (const delivery of graph.deliveries ?? []) {
    const href = path(["groups", delivery.group_id]);
    const id = node(`delivery:${delivery.name}`, "delivery", "deliveries", delivery.name, href, delivery);
    edge(store({ topic: delivery.topic }), id, { delivery: delivery.name });
    const target = delivery.target;
    if (target?.destination !== undefined) {
      edge(id, node(`destination:${delivery.name}`, "destination", "destinations", target.destination, href, delivery));
    } else if (target) {
      edge(id, store(target));
    }
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

function nodeHref(store) {
  return store.table !== undefined ? path(["tables", store.table]) : path(["topics", store.topic]);
}
