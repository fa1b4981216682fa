// One node of the graph on the overview: a link with name, state, gear and rate.
import { h, set, setText, setHidden } from "./dom.js";
import { count, millis, rate, seconds, visible } from "./format.js";
import { gearBadge } from "./gear.js";
import { icon } from "./icons.js";
import { stateBadge, levelOf } from "./state.js";

const HAS_STATE = ["pipeline", "delivery", "source", "capture"];
const HAS_LINE = ["pipeline", "delivery", "source", "topic"];
const HAS_LAG = ["pipeline", "delivery"];

/** An element with `show(facts)`: {state, level, gear, line, lag, alert}. All lines are always there, so that its height stays. */
export function graphNode(node) {
  const gear = node.kind === "pipeline" ? gearBadge(node.definition.gear) : null;
  const state = HAS_STATE.includes(node.kind) ? stateBadge("starting", "idle") : null;
  const line = HAS_LINE.includes(node.kind) ? h("span", { class: "node-line" }) : null;
  const behind = HAS_LAG.includes(node.kind) ? h("span", { class: "node-line" }) : null;
  const warning = h(
    "span",
    { class: "node-alert", hidden: true },
    icon("warning"),
    h("span", { class: "hidden-text" }, " has an alert"),
  );
  const link = h(
    "a",
    { href: node.href, class: `node node-${node.kind}`, title: visible(node.name) },
    h(
      "span",
      { class: "node-name" },
      gear === null && icon(node.kind),
      h("span", { class: "hidden-text" }, `${node.kind} `),
      h("span", { class: "name" }, visible(node.name)),
      warning,
    ),
    (gear || state) && h("span", { class: "node-state" }, gear, state),
    line,
    behind,
  );
  link.show = (facts) => {
    gear?.show(facts.gear ?? node.definition.gear);
    state?.show(facts.state ?? "unknown", facts.level);
    if (line) setText(line, facts.line ?? "");
    if (behind) {
      setText(behind, lagWords(facts.lag));
      set(behind, "class", facts.lag?.trouble ? "node-line troubled" : "node-line");
    }
    setHidden(warning, !facts.alert);
    set(
      link,
      "class",
      `node node-${node.kind}${gear ? ` in-${facts.gear ?? node.definition.gear}` : ""} level-${facts.alert ? facts.alert : (facts.level ?? "none")}`,
    );
  };
  return link;
}

/** What each node shows, from the status: Map node id → facts. */
export function factsOf(status, alerts) {
  const facts = new Map();
  for (const each of status.topics ?? []) {
    facts.set(`topic:${each.name}`, { line: `${rate(each.records_per_second)} · ${count(each.records)}` });
  }
  for (const each of status.pipelines ?? []) {
    const latency =
      each.latency_p99_ms === null || each.latency_p99_ms === undefined ? "" : ` · ${millis(each.latency_p99_ms)}`;
    facts.set(`pipeline:${each.name}`, {
      gear: each.gear,
      state: each.state,
      level: each.state === "running" && (each.error || each.warning) ? "warning" : levelOf(each.state),
      line: `${rate(each.records_per_second)}${latency}`,
    });
  }
  for (const each of status.deliveries ?? []) {
    const state = each.paused ? "paused" : each.retrying ? "retrying" : each.state;
    facts.set(`delivery:${each.name}`, {
      state,
      level: each.error && state === "running" ? "warning" : levelOf(state),
      line: `${count(each.delivered)} delivered`,
    });
  }
  for (const each of status.captures ?? []) {
    facts.set(`capture:${each.name}`, {
      state: String(each.state ?? "").toLowerCase(),
      level: each.running === false || each.error ? "error" : "ok",
      line: "",
    });
  }
  for (const each of status.sources ?? []) {
    const state = each.error ? "failed" : each.running === false ? "ended" : "running";
    facts.set(`source:${each.name}`, { state, level: levelOf(state), line: `${count(each.sent)} sent` });
  }
  for (const alert of alerts) {
    for (const id of aboutOf(alert, status)) facts.set(id, { alert: alert.level, ...facts.get(id) });
  }
  return facts;
}

/** The nodes that an alert is about, by the page that it links to. */
function aboutOf(alert, status) {
  const [, page, part] = String(alert.link ?? "").split("/");
  let name;
  try {
    name = decodeURIComponent(part ?? "");
  } catch {
    return [];
  }
  if (page === "groups")
    return (status.deliveries ?? []).filter((each) => each.group_id === name).map((each) => `delivery:${each.name}`);
  const kind = { pipelines: "pipeline", topics: "topic", "dead-letters": "topic", tables: "table" }[page];
  return kind === undefined ? [] : [`${kind}:${name}`];
}

/** "lag 249", or with trouble "▲ 2.1k, 14 s". */
function lagWords(found) {
  if (found === undefined || found.lag === null) return "lag –";
  if (!found.trouble) return `lag ${count(found.lag)}`;
  if (found.trouble === "growing" || found.worth === null) return `▲ ${count(found.lag)}, growing`;
  return `▲ ${count(found.lag)}, ${seconds(Math.round(found.worth))}`;
}

/** The same in few characters, for the edge. */
export function lagLabel({ lag, trouble }) {
  if (lag === null) return "";
  return trouble ? `▲ ${count(lag)}` : `lag ${count(lag)}`;
}
