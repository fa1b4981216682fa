// The open letters of one dead-letter topic: what failed and why; replay or discard one, some, or all of one cause.
import { path } from "./api.js";
import { fill, h, keyed, set, setHidden, setText } from "./dom.js";
import { select, field } from "./field.js";
import { exact, plural, visible } from "./format.js";
import { isReadOnly } from "./live.js";
import { Letter } from "./letter.js";
import { openSettle } from "./settle.js";

const EVERY = 15_000;
const MOST = [50, 200, 500];

export function letters(page, topic) {
  new LettersView(page, topic);
}

const causeKey = (letter) => `${letter.exception}: ${plainReason(letter.reason)}`;

/** Without the numbers, so that letters of one cause are one choice. */
function plainReason(reason) {
  return String(reason)
    .replace(/\d{2,}/g, "…")
    .slice(0, 120);
}

class LettersView {
  constructor(page, topic) {
    Object.assign(this, { page, topic });
    this.found = [];
    this.facts = h("p", { class: "about" });
    this.cause = select([["", "all"]], { oninput: () => this.show() });
    this.limit = select(
      MOST.map((number) => [String(number), String(number)]),
      { oninput: () => this.ask() },
    );
    this.all = h("input", { type: "checkbox", onchange: () => this.selectAll() });
    this.selected = h("span", { class: "muted", role: "status", "aria-live": "polite" });
    this.replay = h("button", { type: "button", onclick: () => this.settle("replay") }, "Replay");
    this.discard = h("button", { type: "button", class: "danger", onclick: () => this.settle("discard") }, "Discard");
    this.note = h("p", { class: "muted", hidden: true }, "Read-only: replay and discard are off.");
    this.tools = h("div", { class: "buttons" }, this.replay, this.discard);
    this.list = h("ul", { class: "letters" });
    this.none = h("p", { class: "empty" }, "No open letter.");
    const slot = h("div", {});
    page.root.append(
      h("div", { class: "page-head" }, h("h1", {}, visible(topic)), this.facts),
      slot,
      h(
        "div",
        { class: "toolbar" },
        field("Cause", this.cause),
        field("Show", this.limit),
        h("label", { class: "check" }, this.all, " Select all shown"),
        this.tools,
        this.selected,
      ),
      this.note,
      this.list,
      this.none,
    );
    page.info(() => {
      setHidden(this.tools, isReadOnly());
      setHidden(this.note, !isReadOnly());
    });
    const url = () => path(["api", "dead-letters", topic], { limit: this.limit.value });
    this.ask = page.poll(url, (found) => this.take(found), { every: EVERY, slot, exact: true });
  }

  take(found) {
    this.found = found.letters;
    setText(this.facts, `dead letters: ${exact(found.open)} open on ${visible(String(found.dead_letters))}`);
    const causes = [...new Set(found.letters.map(causeKey))];
    const sign = causes.join("\n");
    if (this.cause.sign !== sign) {
      this.cause.sign = sign;
      const chosen = this.cause.value;
      fill(
        this.cause,
        h("option", { value: "" }, "all"),
        causes.map((cause) => h("option", { value: cause }, visible(cause))),
      );
      this.cause.value = causes.includes(chosen) ? chosen : "";
    }
    this.show();
  }

  show() {
    const shown = this.found.filter((letter) => !this.cause.value || causeKey(letter) === this.cause.value);
    setHidden(this.none, shown.length > 0);
    keyed(
      this.list,
      shown,
      (letter) => letter.place.join("/"),
      (letter) => new Letter(letter, this.page, this.topic, this.ask, () => this.showSelected()).node,
    );
    this.showSelected();
  }

  chosen() {
    return [...this.list.children].filter((node) => node.letter.isSelected).map((node) => node.letter.data);
  }

  selectAll() {
    for (const node of this.list.children) node.letter.select(this.all.checked);
    this.showSelected();
  }

  showSelected() {
    const number = this.chosen().length;
    const total = this.list.children.length;
    this.all.checked = number > 0 && number === total;
    this.all.indeterminate = number > 0 && number < total;
    setText(this.selected, number ? `${plural(number, "letter")} selected` : "none selected");
    for (const button of [this.replay, this.discard]) set(button, "disabled", number === 0);
  }

  settle(verb) {
    openSettle(this.page, this.topic, verb, this.chosen(), this.ask);
  }
}
