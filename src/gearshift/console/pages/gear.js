// The three gears, each with its own icon and colour.
import { h, set, setText } from "./dom.js";
import { icon, setIcon } from "./icons.js";

export const GEARS = ["batch", "near-real-time", "real-time"];

export const RUNS = {
  batch: "runs on its calendar",
  "near-real-time": "micro-batches",
  "real-time": "record by record",
};

/** A badge with `show(gear)`. */
export function gearBadge(gear) {
  const picture = icon(gear);
  const word = h("span", {});
  const node = h("span", {}, picture, word);
  node.show = (value) => {
    setIcon(picture, value);
    set(node, "class", `gear gear-${value}`);
    setText(word, value ?? "no gear");
  };
  node.show(gear);
  return node;
}
