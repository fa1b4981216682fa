// The verdict on how a topic's load is spread, measured on request.
import { get, isAbort, path } from "./api.js";
import { DataTable } from "./data-table.js";
import { fill, h } from "./dom.js";
import { bytes, exact, percent, plural, visible } from "./format.js";
import { problemBox } from "./problem.js";

export async function showSkew(page, topic, button, out) {
  button.disabled = true;
  fill(out, h("p", { class: "muted" }, "Reading the newest records…"));
  try {
    const found = await get(path(["api", "topics", topic, "skew"]), { signal: page.signal, patience: 0 });
    fill(out, verdict(found));
  } catch (failure) {
    if (!isAbort(failure)) fill(out, problemBox(failure));
  } finally {
    button.disabled = false;
  }
}

function verdict({ verdict: { kind, what, advice }, partitions, keys, sampled, distinct_keys: distinct }) {
  const isFine = kind === "no skew";
  const loads = new DataTable({
    label: "Load by partition",
    key: (each) => each.partition,
    columns: [
      { title: "Partition", number: true, text: (each) => each.partition },
      { title: "Records", number: true, text: (each) => exact(each.records) },
      { title: "Share", number: true, text: (each) => percent(each.share) },
      { title: "Bytes", number: true, text: (each) => bytes(each.bytes) },
    ],
  });
  const hot = new DataTable({
    label: "Most frequent keys",
    key: (each) => `${each.partition}/${each.key}`,
    empty: "No keys.",
    columns: [
      { title: "Key", wide: true, text: (each) => visible(String(each.key)) },
      { title: "Partition", number: true, text: (each) => each.partition },
      { title: "Records", number: true, text: (each) => exact(each.records) },
      { title: "Share", number: true, text: (each) => percent(each.share) },
    ],
  });
  loads.show(partitions);
  hot.show(keys);
  return h(
    "div",
    { class: `verdict level-${isFine ? "ok" : "warning"}` },
    h("h3", {}, kind),
    h("p", {}, visible(what)),
    advice.length > 0 &&
      h(
        "ul",
        {},
        advice.map((each) => h("li", {}, visible(each))),
      ),
    h("div", { class: "columns" }, loads.node, hot.node),
    h(
      "p",
      { class: "muted" },
      `From ${plural(sampled, "record")}${distinct === null ? "" : `, ${plural(distinct, "key")}`}.`,
    ),
  );
}
