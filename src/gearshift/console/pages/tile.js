// A number with its title, and what it is compared to.
import { h, set, setText } from "./dom.js";

/** An element with `show(value, note?, level?)`. */
export function tile(title, explanation) {
  const value = h("b", {}, "–");
  const note = h("span", { class: "tile-note" });
  const node = h("div", { class: "tile", title: explanation }, h("span", { class: "tile-title" }, title), value, note);
  node.show = (text, words = "", level = "none") => {
    setText(value, text);
    setText(note, words);
    set(node, "class", `tile level-${level}`);
  };
  return node;
}
