// States as a level, an icon and a word: never by colour alone.
import { h, set, setText } from "./dom.js";
import { icon, setIcon } from "./icons.js";
import { visible } from "./format.js";

/** "ok", "warning", "error", "idle" or "off", for a state in the words of the API. */
export function levelOf(state) {
  const word = String(state ?? "").toLowerCase();
  if (["running", "done", "ok", "stable", "ready"].includes(word)) return "ok";
  if (/^(failed|error|dead)/.test(word)) return "error";
  if (
    /^(waiting for|retrying|starting|rebalanc|preparing|completing|late|too late|due|unassigned|restarting)/.test(word)
  )
    return "warning";
  if (["stopped", "paused", "empty", "off", "ended"].includes(word)) return "off";
  return "idle";
}

/** A badge with `show(state, level?)`. */
export function stateBadge(state, level) {
  const picture = icon("idle");
  const word = h("span", {});
  const node = h("span", { class: "state" }, picture, word);
  node.show = (value, as = levelOf(value)) => {
    setIcon(picture, as);
    set(node, "class", `state level-${as}`);
    setText(word, visible(String(value ?? "unknown").toLowerCase()));
  };
  node.show(state, level);
  return node;
}
