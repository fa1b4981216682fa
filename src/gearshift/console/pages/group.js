// A consumer group: its members, its lag by partition and over time, and the reset of its offsets.
import { path } from "./api.js";
import { Chart } from "./chart.js";
import { DataTable } from "./data-table.js";
import { h, setHidden, setText, set } from "./dom.js";
import { count, exact, plural, visible } from "./format.js";
import { isReadOnly } from "./live.js";
import { openReset } from "./reset.js";
import { stateBadge } from "./state.js";

const EVERY = 2000;
const MOST_POINTS = 1800; // an hour

export function group(page, id) {
  const points = [];
  let topics = [];
  const state = stateBadge("unknown", "idle");
  const facts = h("p", { class: "about" });
  const why = h("p", { class: "muted", hidden: true }, "The offsets can be reset while the group has no members.");
  const reset = h(
    "button",
    { type: "button", hidden: true, onclick: () => openReset(page, id, topics, ask) },
    "Reset offsets",
  );
  const slot = h("div", {});
  const chart = new Chart(page, {
    title: "Lag",
    seconds: 3600,
    format: count,
    titleTag: "h2",
    lines: [{ name: "lag", colour: "line-4", value: (point) => point.lag }],
  });
  const members = memberTable();
  const lag = lagTable();
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, visible(id)), state, facts, reset),
    why,
    slot,
    h("section", { class: "card" }, chart.node),
    h("section", { class: "card" }, h("h2", {}, "Lag by partition"), lag.node),
    h("section", { class: "card" }, h("h2", {}, "Members"), members.node),
  );
  let hasMembers = true;
  const showReset = () => {
    setHidden(reset, isReadOnly());
    set(reset, "disabled", hasMembers);
    setHidden(why, isReadOnly() || !hasMembers);
  };
  page.info(showReset);
  const ask = page.poll(
    path(["api", "groups", id]),
    (found) => {
      state.show(found.state);
      const total = found.lag.reduce((sum, each) => sum + (each.lag ?? 0), 0);
      points.push({ t: Date.now(), lag: total });
      if (points.length > MOST_POINTS) points.shift();
      chart.show(points);
      setText(
        facts,
        `${visible(String(found.kind ?? ""))} · ${plural(found.members.length, "member")} · lag ${exact(total)}`,
      );
      topics = [...new Set(found.lag.map((each) => each.topic))].sort();
      hasMembers = found.members.length > 0;
      showReset();
      members.show(found.members.map((member, index) => ({ ...member, index })));
      lag.show(found.lag);
    },
    { every: EVERY, slot },
  );
}

function memberTable() {
  return new DataTable({
    label: "Members",
    key: (member) => `${member.client_id}/${member.host}/${member.index}`,
    empty: "The group has no members.",
    columns: [
      { title: "Client", wide: true, text: (member) => visible(String(member.client_id)) },
      { title: "Host", text: (member) => visible(String(member.host)) },
      { title: "Partitions", number: true, text: (member) => exact(member.partitions.length) },
      { title: "Assignment", wide: true, text: (member) => visible(assignment(member.partitions)) },
    ],
  });
}

function assignment(partitions) {
  const topics = new Map();
  for (const [topic, partition] of partitions) topics.set(topic, [...(topics.get(topic) ?? []), partition]);
  return (
    [...topics]
      .map(([topic, numbers]) => `${topic}: ${numbers.sort((one, other) => one - other).join(", ")}`)
      .join("; ") || "none"
  );
}

function lagTable() {
  return new DataTable({
    label: "Lag by partition",
    key: (each) => `${each.topic}/${each.partition}`,
    empty: "The group has committed no offset.",
    columns: [
      {
        title: "Topic",
        wide: true,
        sort: (each) => each.topic,
        node: (each) => h("a", { href: path(["topics", each.topic]) }, visible(each.topic)),
        sign: (each) => each.topic,
      },
      { title: "Partition", number: true, sort: (each) => each.partition, text: (each) => each.partition },
      { title: "Committed", number: true, text: (each) => exact(each.committed) },
      { title: "End", number: true, text: (each) => exact(each.end) },
      { title: "Lag", number: true, sort: (each) => each.lag, text: (each) => exact(each.lag) },
      { title: "Member", text: (each) => visible(String(each.member ?? "–")) },
    ],
  });
}
