// The rows of the record viewer: newest first, at most 500, and always the same nodes.
import { h, setHidden } from "./dom.js";
import { inFrame, notInFrame } from "./animation-frame.js";
import { RecordRow } from "./record-row.js";

export const MOST = 500;
const DRAWN_EVERY = 500; // ms; a person reads no faster, and drawing hundreds of records a second costs

export class RecordList {
  constructor(page, most = MOST) {
    this.most = most;
    this.rows = []; // newest first
    this.waiting = [];
    this.timer = 0;
    this.body = h("tbody", { role: "rowgroup" });
    const heads = [
      ["", "narrow", "Open"],
      ["Partition", "number partition"],
      ["Offset", "number offset"],
      ["Time", "time"],
      ["Key", "key"],
      ["Value", "value"],
    ];
    // The rows are grids, whose drawing the browser skips while they are scrolled out of view; the roles stay a table's.
    const table = h(
      "table",
      { class: "records", role: "table" },
      h("caption", { class: "hidden-text" }, "Records, newest first"),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          heads.map(([title, name, hidden]) =>
            h(
              "th",
              { scope: "col", role: "columnheader", class: name },
              hidden ? h("span", { class: "hidden-text" }, hidden) : title,
            ),
          ),
        ),
      ),
      this.body,
    );
    this.empty = h("p", { class: "empty" }, "No record fits.");
    this.scroller = h("div", { class: "scroller tall", tabindex: "0", role: "region", "aria-label": "Records" }, table);
    this.node = h("div", {}, this.scroller, this.empty);
    this.draw = this.draw.bind(this);
    page.onLeave(() => {
      clearTimeout(this.timer);
      notInFrame(this.draw);
    });
  }

  /** The shown records, oldest first. */
  get records() {
    return [...this.rows].reverse().map((row) => row.record);
  }

  /** Replaces everything by these records, given oldest first. */
  replace(records) {
    this.waiting = [];
    for (const row of this.rows.splice(records.length)) row.remove();
    const newest = [...records].reverse();
    newest.forEach((record, index) => {
      if (this.rows[index] === undefined) {
        this.rows.push(new RecordRow());
        this.body.append(this.rows[index].node);
      }
      this.rows[index].show(record);
    });
    this.showEmpty();
  }

  /** Adds records at the top, soon; the oldest rows become those of the new ones. */
  add(records) {
    this.waiting.push(...records);
    if (this.waiting.length > this.most) this.waiting.splice(0, this.waiting.length - this.most);
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      inFrame(this.draw);
    }, DRAWN_EVERY);
  }

  draw() {
    for (const record of this.waiting.splice(0)) {
      const row = this.rows.length >= this.most ? this.rows.pop() : new RecordRow();
      row.show(record);
      row.moveToTop(this.body);
      this.rows.unshift(row);
    }
    this.showEmpty();
  }

  clear() {
    this.replace([]);
  }

  showEmpty() {
    setHidden(this.empty, this.rows.length > 0);
    setHidden(this.scroller, this.rows.length === 0);
  }
}
