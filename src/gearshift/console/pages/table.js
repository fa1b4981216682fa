// A table: its schema, size and history, and SQL over it.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h, setText } from "./dom.js";
import { bytes, exact, shortStamp, visible } from "./format.js";
import { sqlBox } from "./sql.js";
import { tile } from "./tile.js";

export function table(page, name) {
  const uri = h("p", { class: "about" });
  const slot = h("div", {});
  const tiles = {
    rows: tile("Rows"),
    bytes: tile("Size"),
    files: tile("Files"),
    version: tile("Version"),
    changed: tile("Changed"),
  };
  const columns = new DataTable({
    label: "Schema",
    key: (each) => each.name,
    columns: [
      { title: "Column", wide: true, text: (each) => visible(String(each.name)) },
      { title: "Type", wide: true, text: (each) => visible(String(each.type)) },
    ],
  });
  const history = new DataTable({
    label: "History",
    key: (each) => each.version,
    columns: [
      { title: "Version", number: true, text: (each) => each.version },
      { title: "At", text: (each) => shortStamp(each.at) },
      { title: "Operation", text: (each) => visible(String(each.operation ?? "–")) },
      { title: "Writer", wide: true, text: (each) => visible(String(each.writer ?? "–")) },
      { title: "Batch", number: true, text: (each) => exact(each.batch) },
      { title: "Rows", number: true, text: (each) => exact(each.rows) },
    ],
  });
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, visible(name)), uri),
    slot,
    h("div", { class: "tiles" }, Object.values(tiles)),
    sqlBox(page, `SELECT * FROM "${name.replaceAll('"', '""')}" LIMIT 100`),
    h("section", { class: "card" }, h("h2", {}, "Schema"), columns.node),
    h("section", { class: "card" }, h("h2", {}, "History"), history.node),
  );
  page.poll(
    path(["api", "tables", name]),
    (found) => {
      setText(
        uri,
        visible(
          `${found.uri}${found.partition_by?.length ? ` · partitioned by ${found.partition_by.join(", ")}` : ""}`,
        ),
      );
      tiles.rows.show(exact(found.rows));
      tiles.bytes.show(bytes(found.bytes));
      tiles.files.show(exact(found.files));
      tiles.version.show(exact(found.version));
      tiles.changed.show(shortStamp(found.changed_at));
      columns.show(found.columns ?? []);
      history.show((found.history ?? []).slice(0, 200));
    },
    { every: 10_000, slot },
  );
}
