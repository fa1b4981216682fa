// All dead-letter topics, and why their letters failed.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h, keyed, setHidden, setText } from "./dom.js";
import { exact, shortStamp, visible } from "./format.js";

export function deadLetters(page) {
  const none = h("p", { class: "all-good", hidden: true }, "No dead letter is open.");
  const list = h("div", { class: "stack" });
  page.root.append(
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, "Dead letters"),
      h("p", { class: "about" }, "Records that could not be decoded or delivered, with their bytes and the reason."),
    ),
    none,
  );
  page.poll(
    "/api/dead-letters",
    (found) => {
      setHidden(
        none,
        found.some((each) => each.open > 0),
      );
      const openFirst = [...found].sort((one, other) => other.open - one.open);
      keyed(
        list,
        openFirst,
        (each) => each.topic,
        make,
        (node, each) => node.show(each),
      );
    },
    { every: 15_000 },
  );
  page.root.append(list);
}

function make(first) {
  const facts = h("p", { class: "muted" });
  const causes = new DataTable({
    label: `Causes of ${visible(first.topic)}`,
    key: (cause) => `${cause.failed_in}|${cause.exception}|${cause.reason}`,
    empty: "No open letter: all are replayed or discarded.",
    columns: [
      { title: "Reason", wide: true, text: (cause) => visible(String(cause.reason)) },
      { title: "Exception", text: (cause) => visible(String(cause.exception).split(".").pop()) },
      { title: "Failed in", wide: true, text: (cause) => visible(String(cause.failed_in)) },
      { title: "Open", number: true, text: (cause) => exact(cause.open) },
    ],
  });
  const node = h(
    "section",
    { class: "card" },
    h("h2", {}, h("a", { href: path(["dead-letters", first.topic]) }, visible(first.topic))),
    facts,
    causes.node,
  );
  node.show = (each) => {
    const when = each.newest ? ` · from ${shortStamp(each.oldest)} to ${shortStamp(each.newest)}` : "";
    setText(facts, `${exact(each.open)} open on ${visible(String(each.dead_letters))}${when}`);
    causes.show(each.causes ?? []);
  };
  return node;
}
