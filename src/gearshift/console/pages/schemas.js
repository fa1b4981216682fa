// All subjects of the schema registry.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h } from "./dom.js";
import { exact, visible } from "./format.js";

export function schemas(page) {
  const table = new DataTable({
    label: "Subjects",
    key: (each) => each.subject,
    empty: "No schema is registered.",
    columns: [
      {
        title: "Subject",
        wide: true,
        sort: (each) => each.subject,
        node: (each) => h("a", { href: path(["schemas", each.subject]) }, visible(each.subject)),
        sign: (each) => each.subject,
      },
      { title: "Versions", number: true, sort: (each) => each.versions, text: (each) => exact(each.versions) },
    ],
  });
  page.root.append(h("div", { class: "page-head" }, h("h1", {}, "Schemas")));
  page.poll("/api/schemas", (found) => table.show(found), { every: 10_000 });
  page.root.append(table.node);
}
