// The panels of boards, by kind: each has a node and `show(data)`.
import { CandleChart } from "./candles.js";
import { Chart } from "./chart.js";
import { h, keyed, set, setHidden, setText } from "./dom.js";
import { clock, count, exact, percent, visible } from "./format.js";

const KINDS = {
  number: numberPanel,
  series: seriesPanel,
  leaderboard: leaderboardPanel,
  table: tablePanel,
  candles: candlesPanel,
  feed: feedPanel,
  zones: zonesPanel,
};
const COLOURS = ["line-1", "line-2", "line-3", "line-4", "batch", "near-real-time"];
const MOST_ITEMS = 100;
const MOST_ROWS = 200;

export function panelOf(page, panel) {
  return (KINDS[panel.kind] ?? unknownPanel)(page, panel);
}

function unknownPanel(_page, panel) {
  return { node: h("p", { class: "muted" }, `unknown kind ${visible(String(panel.kind))}`), show() {} };
}

/** Numbers of a board keep some digits; the rest is text. */
function cell(value) {
  if (typeof value === "number")
    return Number.isInteger(value)
      ? exact(value)
      : value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 4 : 2 });
  if (value === null || value === undefined) return "–";
  return visible(typeof value === "object" ? JSON.stringify(value) : String(value));
}

function numberPanel() {
  const value = h("span", { class: "big" });
  const unit = h("span", { class: "muted" });
  return {
    node: h("p", { class: "number-panel" }, value, " ", unit),
    show(data) {
      setText(value, cell(data.value));
      setText(unit, data.unit ? visible(String(data.unit)) : "");
    },
  };
}

function seriesPanel(page, panel) {
  const node = h("div", {});
  let chart = null;
  let names = null;
  const show = (data) => {
    const lines = data.lines ?? { "": data.points ?? [] };
    const found = Object.keys(lines).slice(0, COLOURS.length);
    // Another set of lines needs another legend.
    if (chart === null || names.join("\n") !== found.join("\n")) {
      names = found;
      chart?.close();
      chart = new Chart(page, {
        title: visible(panel.title ?? panel.name),
        lines: found.map((name, index) => ({
          name: name ? `${visible(name)} ` : "value",
          named: name !== "",
          colour: COLOURS[index],
          value: (point) => point.values[index],
        })),
        seconds: 366 * 86_400,
        quiet: true,
        height: 190,
      });
      node.replaceChildren(chart.node);
    }
    chart.show(merged(found.map((name) => lines[name])));
  };
  return { node, show };
}

/** One list of points with a value of each line, as lines need not have the same times. */
function merged(lines) {
  const byTime = new Map();
  lines.forEach((points, index) => {
    for (const point of points) {
      const t = Date.parse(point.at);
      if (!byTime.has(t)) byTime.set(t, { t, values: Array(lines.length).fill(null) });
      byTime.get(t).values[index] = point.value;
    }
  });
  return [...byTime.values()].sort((one, other) => one.t - other.t);
}

function rowsPanel(panel, update) {
  const head = h("tr", {});
  const body = h("tbody", {});
  const title = visible(panel.title ?? panel.name);
  const table = h("table", {}, h("caption", { class: "hidden-text" }, title), h("thead", {}, head), body);
  const node = h("div", { class: "scroller tall", tabindex: "0", role: "region", "aria-label": title }, table);
  return {
    node,
    show({ columns, rows }) {
      keyed(
        head,
        columns.map((name, index) => ({ name, index })),
        (each) => `${each.index}${each.name}`,
        () => h("th", { scope: "col" }),
        (th, each) => {
          setText(th, visible(String(each.name)));
          set(th, "class", each.index > 0 && typeof rows[0]?.[each.index] === "number" ? "number" : null);
        },
      );
      const shown = rows.slice(0, MOST_ROWS).map((row, index) => ({ row, index }));
      keyed(
        body,
        shown,
        (each) => each.index,
        () => h("tr", {}),
        (tr, each) => update(tr, each),
      );
    },
  };
}

function fillRow(tr, values) {
  while (tr.children.length > values.length) tr.lastChild.remove();
  values.forEach((value, index) => {
    const at = tr.children[index] ?? tr.appendChild(index === 0 ? h("th", { scope: "row" }) : h("td", {}));
    setText(at, cell(value));
    set(at, "class", typeof value === "number" && index > 0 ? "number" : "wide");
  });
}

function tablePanel(_page, panel) {
  return rowsPanel(panel, (tr, { row }) => fillRow(tr, row));
}

function leaderboardPanel(_page, panel) {
  let before = new Map();
  let seen = new Map();
  const made = rowsPanel(panel, (tr, { row, index }) => {
    fillRow(tr, row);
    const name = String(row[1]); // after the place
    const was = before.get(name);
    seen.set(name, index);
    set(tr, "class", was === undefined || was === index ? null : was > index ? "is-up" : "is-down");
  });
  const show = (data) => {
    seen = new Map();
    made.show(data);
    before = seen;
  };
  return { node: made.node, show };
}

function candlesPanel(page, panel) {
  const chart = new CandleChart(page, visible(panel.title ?? panel.name));
  return { node: chart.node, show: (data) => chart.show(data.bars ?? []) };
}

function feedPanel(_page, panel) {
  const list = h("ul", { class: "feed" });
  const node = h(
    "div",
    { class: "scroller tall", tabindex: "0", role: "region", "aria-label": visible(panel.title ?? panel.name) },
    list,
  );
  let items = [];
  let newest = "";
  const show = (data) => {
    // Each event has the items to show, or only new ones: both end as the newest on top, each once.
    const known = new Set(items.map((item) => item.key));
    const added = data.items
      .map((item) => ({ ...item, key: `${item.at} ${item.text}` }))
      .filter((item) => !known.has(item.key));
    items = [...added, ...items].slice(0, MOST_ITEMS);
    if (items[0]?.key === newest) return;
    newest = items[0]?.key ?? "";
    keyed(
      list,
      items,
      (item) => item.key,
      (item) =>
        h(
          "li",
          { class: `feed-item level-${["error", "warning", "ok"].includes(item.level) ? item.level : "none"}` },
          item.at && h("time", { datetime: item.at }, clock(new Date(item.at))),
          h(
            "span",
            {},
            ["error", "warning"].includes(item.level) && h("b", {}, `${item.level}: `),
            visible(String(item.text)),
          ),
        ),
    );
  };
  return { node, show };
}

function zonesPanel() {
  const list = h("ul", { class: "zones" });
  const show = (data) => {
    const most = Math.max(1, ...data.zones.map((zone) => zone.capacity ?? zone.value ?? 0));
    keyed(
      list,
      data.zones,
      (zone) => zone.name,
      (zone) =>
        h(
          "li",
          { class: "zone" },
          h("span", { class: "zone-name" }, visible(String(zone.name))),
          h("b", {}),
          h("span", { class: "track" }, h("span", { class: "length" })),
          h("span", { class: "muted" }),
        ),
      (node, zone) => {
        const share = (zone.value ?? 0) / (zone.capacity || most);
        const level = zone.capacity ? (share > 1 ? "error" : share > 0.85 ? "warning" : "ok") : "none";
        set(node, "class", `zone level-${level}`);
        setText(node.children[1], count(zone.value));
        set(node.children[2].firstChild, "style", { width: `${Math.min(100, share * 100).toFixed(1)}%` });
        setText(
          node.children[3],
          zone.capacity ? `${percent(share)} of ${count(zone.capacity)}${share > 1 ? ", full" : ""}` : "",
        );
        setHidden(node.children[3], !zone.capacity);
      },
    );
  };
  return { node: list, show };
}
