// The list of alerts: each with its cause, what to do, and a link to the page about it.
import { h, keyed, setText, setHidden, set } from "./dom.js";
import { ago, visible } from "./format.js";
import { icon } from "./icons.js";

export class Troubles {
  constructor() {
    this.good = h("p", { class: "all-good" }, icon("ok"), " All good");
    this.list = h("ul", { class: "troubles" });
    this.node = h(
      "section",
      { "aria-labelledby": "troubles-title" },
      h("h2", { id: "troubles-title", class: "hidden-text" }, "Alerts"),
      this.good,
      this.list,
    );
  }

  show(alerts) {
    setHidden(this.good, alerts.length > 0);
    const errorsFirst = [...alerts].sort(
      (one, other) => (one.level === "error" ? 0 : 1) - (other.level === "error" ? 0 : 1),
    );
    keyed(
      this.list,
      errorsFirst,
      (alert) => String(alert.id),
      (alert) => this.make(alert),
      (node, alert) => {
        set(node, "class", `trouble level-${alert.level}`);
        setText(node.what, visible(String(alert.what)));
        setText(node.hint, alert.hint ? `Hint: ${visible(String(alert.hint))}` : "");
        setText(node.since, alert.since ? ago(alert.since) : "");
      },
    );
  }

  make(alert) {
    const what = h("a", { class: "what", href: alert.link ?? "/" });
    const hint = h("span", { class: "hint" });
    const since = h("span", { class: "since" });
    const level = h("span", { class: "level" }, alert.level);
    const node = h(
      "li",
      {},
      icon(alert.level === "error" ? "error" : "warning"),
      h("div", {}, h("div", {}, level, " ", what), hint),
      since,
    );
    return Object.assign(node, { what, hint, since });
  }
}
