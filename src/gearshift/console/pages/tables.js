// All tables, and SQL over them.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h } from "./dom.js";
import { bytes, exact, shortStamp, visible } from "./format.js";
import { sqlBox } from "./sql.js";

function name(each) {
  return h(
    "div",
    { class: "why" },
    h("a", { href: path(["tables", each.table]) }, visible(each.table)),
    each.error &&
      h("p", { class: "error-text" }, visible(`${each.error.what}${each.error.hint ? `; ${each.error.hint}` : ""}`)),
  );
}

export function tables(page) {
  const table = new DataTable({
    label: "Tables",
    key: (each) => each.table,
    empty: "No table yet.",
    columns: [
      {
        title: "Table",
        wide: true,
        sort: (each) => each.table,
        node: name,
        sign: (each) => `${each.table} ${each.error?.what}`,
      },
      { title: "Rows", number: true, sort: (each) => each.rows, text: (each) => exact(each.rows) },
      { title: "Size", number: true, sort: (each) => each.bytes, text: (each) => bytes(each.bytes) },
      { title: "Files", number: true, sort: (each) => each.files, text: (each) => exact(each.files) },
      { title: "Version", number: true, text: (each) => exact(each.version) },
      { title: "Partitioned by", text: (each) => visible((each.partition_by ?? []).join(", ")) },
      { title: "Changed", sort: (each) => each.changed_at, text: (each) => shortStamp(each.changed_at) },
    ],
  });
  page.root.append(h("div", { class: "page-head" }, h("h1", {}, "Tables")));
  page.poll("/api/tables", (found) => table.show(found), { every: 10_000 });
  page.root.append(table.node, sqlBox(page, ""));
}
