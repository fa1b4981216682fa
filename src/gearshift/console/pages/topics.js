// All topics of the cluster, with a filter.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h, setText } from "./dom.js";
import { field, text } from "./field.js";
import { exact, plural, rate, visible } from "./format.js";

const KINDS = { declared: "declared", letters: "dead letters", other: "" };
const kind = (topic) => (topic.dead_letters ? "letters" : topic.declared ? "declared" : "other");

export function topics(page) {
  let all = [];
  const input = text({
    type: "search",
    placeholder: "part of a name",
    value: page.search.get("filter") ?? "",
    oninput: () => show(),
  });
  const shown = h("p", { class: "muted", role: "status", "aria-live": "polite" });
  const table = new DataTable({
    label: "Topics",
    key: (topic) => topic.name,
    empty: "No topic fits.",
    columns: [
      {
        title: "Topic",
        wide: true,
        sort: (topic) => topic.name,
        node: (topic) => h("a", { href: path(["topics", topic.name]) }, visible(topic.name)),
        sign: (topic) => topic.name,
      },
      { title: "Kind", sort: (topic) => kind(topic), text: (topic) => KINDS[kind(topic)] },
      {
        title: "Partitions",
        number: true,
        sort: (topic) => topic.partitions,
        text: (topic) => exact(topic.partitions),
      },
      { title: "Records", number: true, sort: (topic) => topic.records, text: (topic) => exact(topic.records) },
      {
        title: "Records/s",
        number: true,
        sort: (topic) => topic.records_per_second,
        text: (topic) => rate(topic.records_per_second),
      },
    ],
  });
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    const found = wanted ? all.filter((topic) => topic.name.toLowerCase().includes(wanted)) : all;
    table.show(found);
    setText(shown, wanted ? `${exact(found.length)} of ${plural(all.length, "topic")}` : plural(all.length, "topic"));
  };
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, "Topics")),
    h("div", { class: "toolbar" }, field("Filter", input), shown),
  );
  page.poll(
    "/api/topics",
    (found) => {
      all = found;
      show();
    },
    { every: 5000 },
  );
  page.root.append(table.node);
}
