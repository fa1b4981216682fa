// A topic: its records, partitions, groups, settings, schemas and skew.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { fill, h, setHidden } from "./dom.js";
import { bytes, count, exact, plural, visible } from "./format.js";
import { openProduce } from "./produce.js";
import { RecordViewer } from "./record-viewer.js";
import { isReadOnly } from "./live.js";
import { showSkew } from "./skew.js";
import { stateBadge } from "./state.js";

export function topic(page, name) {
  const url = path(["api", "topics", name]);
  const facts = h("p", { class: "about" });
  const schemas = h("p", { class: "about" });
  const produce = h("button", { type: "button", hidden: true, onclick: () => openProduce(page, name) }, "Produce");
  const slot = h("div", {});
  const parts = partitionTable();
  const groups = groupTable();
  const settings = settingTable();
  const noSettings = h("p", { class: "empty", hidden: true }, "The cluster does not show the settings of this topic.");
  const skew = h("div", { "aria-live": "polite" });
  const check = h("button", { type: "button", onclick: () => showSkew(page, name, check, skew) }, "Check skew");
  const viewer = new RecordViewer(page, name);
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, visible(name)), facts, produce),
    schemas,
    slot,
    viewer.node,
    h("section", { class: "card" }, h("h2", {}, "Partitions"), parts.node, h("div", { class: "toolbar" }, check), skew),
    h("section", { class: "card" }, h("h2", {}, "Consumer groups"), groups.node),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Settings"),
      h("details", {}, h("summary", {}, "Show the settings"), settings.node, noSettings),
    ),
  );
  page.info(() => setHidden(produce, isReadOnly()));
  page.poll(
    url,
    (found) => {
      const records = found.partitions.reduce((sum, each) => sum + (each.records ?? 0), 0);
      fill(
        facts,
        [
          plural(records, "record"),
          plural(found.partitions.length, "partition"),
          found.bytes !== null && bytes(found.bytes),
          found.id && `id ${visible(String(found.id))}`,
        ]
          .filter(Boolean)
          .join(" · "),
      );
      showSchemas(schemas, found);
      viewer.setPartitions(found.partitions.map((each) => each.number));
      parts.show(found.partitions);
      groups.show(found.groups ?? []);
      settings.show(found.settings ?? []);
      setHidden(noSettings, found.settings !== null);
    },
    { every: 5000, slot },
  );
}

function showSchemas(node, found) {
  const sign = JSON.stringify([found.value_schema, found.key_schema]);
  if (node.sign === sign) return;
  node.sign = sign;
  const link = (title, schema) =>
    schema && [
      `${title} `,
      h("a", { href: path(["schemas", schema.subject]) }, visible(schema.subject)),
      ` version ${schema.version}, ${schema.format}, id ${schema.id}`,
    ];
  const links = [link("value schema", found.value_schema), link("key schema", found.key_schema)].filter(Boolean);
  fill(
    node,
    links.length
      ? links.flatMap((each, index) => (index ? [" · ", ...each] : each))
      : "No schema is registered for this topic.",
  );
}

const isUnderReplicated = (each) => (each.in_sync?.length ?? 0) < (each.replicas?.length ?? 0);

function partitionTable() {
  return new DataTable({
    label: "Partitions",
    key: (each) => each.number,
    rowClass: (each) => (isUnderReplicated(each) || each.leader === null || each.leader < 0 ? "is-warning" : ""),
    columns: [
      { title: "Partition", number: true, sort: (each) => each.number, text: (each) => each.number },
      {
        title: "Leader",
        number: true,
        text: (each) => (each.leader === null || each.leader < 0 ? "none" : each.leader),
      },
      { title: "Replicas", text: (each) => (each.replicas ?? []).join(", ") },
      {
        title: "In sync",
        text: (each) => `${(each.in_sync ?? []).join(", ")}${isUnderReplicated(each) ? " ▲ under-replicated" : ""}`,
      },
      { title: "Begin", number: true, text: (each) => exact(each.begin) },
      { title: "End", number: true, text: (each) => exact(each.end) },
      { title: "Records", number: true, sort: (each) => each.records, text: (each) => exact(each.records) },
    ],
  });
}

function groupTable() {
  return new DataTable({
    label: "Consumer groups of the topic",
    key: (group) => group.group_id,
    empty: "No group reads this topic.",
    columns: [
      {
        title: "Group",
        wide: true,
        node: (group) => h("a", { href: path(["groups", group.group_id]) }, visible(group.group_id)),
        sign: (group) => group.group_id,
      },
      { title: "State", node: (group) => stateBadge(group.state), sign: (group) => group.state },
      {
        title: "Members",
        number: true,
        text: (group) => exact(Array.isArray(group.members) ? group.members.length : group.members),
      },
      { title: "Lag", number: true, text: (group) => exact(group.lag) },
      { title: "By partition", wide: true, text: (group) => byPartition(group.partitions) },
    ],
  });
}

function byPartition(lags) {
  const behind = Object.entries(lags ?? {}).filter(([, lag]) => lag > 0);
  const shown = behind
    .slice(0, 8)
    .map(([partition, lag]) => `${partition}: ${count(lag)}`)
    .join(", ");
  return behind.length > 8 ? `${shown}, and ${behind.length - 8} more` : shown || "no lag";
}

function settingTable() {
  return new DataTable({
    label: "Settings",
    key: (setting) => setting.name,
    rowClass: (setting) => (setting.is_own ? "is-current" : ""),
    columns: [
      { title: "Setting", text: (setting) => setting.name },
      { title: "Value", wide: true, text: (setting) => visible(String(setting.value ?? "")) },
      { title: "Set by", text: (setting) => (setting.is_own ? "this topic" : "default") },
    ],
  });
}
