// How long each part of the last batch took, as bars.
import { h, keyed, set, setText } from "./dom.js";
import { millis, visible } from "./format.js";

export class Durations {
  constructor() {
    this.list = h("ul", { class: "durations" });
    this.none = h("p", { class: "empty" }, "No batch has ended yet.");
    this.node = h("div", {}, this.list, this.none);
  }

  show(durations) {
    const entries = Object.entries(durations ?? {}).sort((one, other) => other[1] - one[1]);
    const longest = Math.max(1, ...entries.map(([, value]) => value));
    this.none.hidden = entries.length > 0;
    keyed(
      this.list,
      entries,
      ([name]) => name,
      ([name]) =>
        h(
          "li",
          {},
          h("span", {}, visible(name)),
          h("span", { class: "track" }, h("span", { class: "length" })),
          h("b", {}),
        ),
      (node, [, value]) => {
        set(node.children[1].firstChild, "style", { width: `${(value / longest) * 100}%` });
        setText(node.lastChild, millis(value));
      },
    );
  }
}
