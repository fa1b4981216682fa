// A table whose rows and cells are updated in place, within a container that scrolls by itself.
import { h, keyed, set, setText, setHidden } from "./dom.js";

/**
 * `columns`: {title, text(row)} or {title, node(row), sign(row)?}, and optionally number, wide, sort(row), and with text
 * isBad(row). A node is made again only when its sign differs. The first column is the row's header. `show(rows)` updates.
 */
export class DataTable {
  constructor({ label, columns, key, empty = "Nothing here.", className = "", rowClass, tallAbove = 40 }) {
    this.columns = columns;
    this.key = key;
    this.rowClass = rowClass;
    this.tallAbove = tallAbove;
    this.rows = [];
    this.order = null;
    this.signs = new WeakMap();
    this.heads = columns.map((column, index) => this.head(column, index));
    this.body = h("tbody", {});
    this.table = h(
      "table",
      { class: className },
      h("caption", { class: "hidden-text" }, label),
      h("thead", {}, h("tr", {}, this.heads)),
      this.body,
    );
    this.empty = h("p", { class: "empty", hidden: true }, empty);
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.node = h("div", { class: "data-table" }, this.scroller, this.empty);
  }

  head(column, index) {
    const title = column.sort
      ? h("button", { type: "button", class: "sort", onclick: () => this.sortBy(index) }, column.title)
      : column.hiddenTitle
        ? h("span", { class: "hidden-text" }, column.title)
        : column.title;
    return h("th", { scope: "col", class: column.number ? "number" : column.wide ? "wide" : null }, title);
  }

  sortBy(index) {
    const descending = this.order?.index === index ? !this.order.descending : Boolean(this.columns[index].number);
    this.order = { index, descending };
    this.heads.forEach((head, at) => {
      set(head, "aria-sort", at === index ? (descending ? "descending" : "ascending") : null);
    });
    this.show(this.rows);
  }

  sorted(rows) {
    if (this.order === null) return rows;
    const value = this.columns[this.order.index].sort;
    const sign = this.order.descending ? -1 : 1;
    return [...rows].sort((one, other) => {
      const a = value(one) ?? -Infinity;
      const b = value(other) ?? -Infinity;
      return a < b ? -sign : a > b ? sign : 0;
    });
  }

  show(rows) {
    this.rows = rows;
    setHidden(this.empty, rows.length > 0);
    setHidden(this.scroller, rows.length === 0);
    this.scroller.classList.toggle("tall", rows.length > this.tallAbove);
    keyed(
      this.body,
      this.sorted(rows),
      this.key,
      (row) => this.make(row),
      (node, row) => this.update(node, row),
    );
  }

  make(row) {
    const node = h("tr", {});
    this.columns.forEach((column, index) => {
      const attrs = { class: column.number ? "number" : column.wide ? "wide" : null };
      const cell = index === 0 ? h("th", { scope: "row", ...attrs }) : h("td", attrs);
      if (column.node) cell.append(column.node(row));
      node.append(cell);
    });
    this.signs.set(
      node,
      this.columns.map((column) => this.signOf(column, row)),
    );
    return node;
  }

  signOf(column, row) {
    return column.node ? String(column.sign?.(row) ?? "") : null;
  }

  update(node, row) {
    const signs = this.signs.get(node);
    if (this.rowClass) set(node, "class", this.rowClass(row) || null);
    this.columns.forEach((column, index) => {
      const cell = node.children[index];
      if (!column.node) {
        setText(cell, column.text(row));
        if (column.isBad) cell.classList.toggle("late", column.isBad(row));
        return;
      }
      const sign = this.signOf(column, row);
      if (sign !== signs[index]) {
        signs[index] = sign;
        cell.replaceChildren(column.node(row));
      }
    });
  }
}
