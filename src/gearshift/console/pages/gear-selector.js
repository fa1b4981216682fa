// Shifts a pipeline: the gears with what forbids them, a question before, the steps while it happens, the proof after.
import { isAbort, path, postLines } from "./api.js";
import { openDialog } from "./dialog.js";
import { fill, h, set, setHidden, setText } from "./dom.js";
import { exact, place, seconds, visible } from "./format.js";
import { GEARS, RUNS } from "./gear.js";
import { icon } from "./icons.js";
import { isReadOnly } from "./live.js";
import { problemBox } from "./problem.js";

export class GearSelector {
  /** `onShifted` is called after a shift has ended, well or not, and returns the new gap. */
  constructor(page, pipeline, onShifted) {
    Object.assign(this, { page, pipeline, onShifted });
    this.gear = null;
    this.shifting = false;
    this.gears = {};
    this.refusals = new Map();
    this.buttons = new Map(GEARS.map((gear) => [gear, this.button(gear)]));
    this.note = h("p", { class: "muted", hidden: true }, icon("lock"), " Read-only: shifting is off.");
    this.why = h("p", { class: "muted" });
    this.steps = h("ol", { class: "steps" });
    this.proof = h("div", { class: "proof" });
    this.progress = h(
      "div",
      { class: "shift", hidden: true, "aria-live": "polite", role: "log", "aria-label": "Steps of the shift" },
      this.steps,
      this.proof,
    );
    this.node = h(
      "section",
      { class: "card", "aria-labelledby": "gear-title" },
      h("h2", { id: "gear-title" }, "Gear"),
      h(
        "div",
        { class: "gears", role: "group", "aria-labelledby": "gear-title" },
        [...this.buttons.values()].map((each) => each.parentNode),
      ),
      this.why,
      this.note,
      this.progress,
    );
  }

  button(gear) {
    const reason = h("div", { class: "refusals" });
    const button = h(
      "button",
      {
        type: "button",
        class: `gear-choice gear-${gear}`,
        "aria-pressed": "false",
        disabled: true,
        onclick: () => this.ask(gear),
      },
      h("span", { class: "gear-name" }, icon(gear), gear),
      h("span", { class: "gear-words" }, RUNS[gear]),
    );
    this.refusals.set(gear, reason);
    h("div", { class: "gear-slot" }, button, reason);
    return button;
  }

  show(gear, gears = this.gears) {
    this.gear = gear;
    this.gears = gears;
    setHidden(this.note, !isReadOnly());
    for (const [name, button] of this.buttons) {
      const able = gears[name];
      set(button, "aria-pressed", String(name === gear));
      set(button, "disabled", this.shifting || isReadOnly() || !able?.ok);
      setText(button.lastChild, name === gear ? "current gear" : able && !able.ok ? "not available" : RUNS[name]);
      this.showRefusals(this.refusals.get(name), able?.refusals ?? []);
    }
  }

  /** Why it is in this gear, and what would change that. */
  showWhy(found) {
    if (!found) return;
    const by = { auto: "The gearbox chose ", timetable: "The timetable chose " }[found.chosen_by] ?? "In ";
    const change = found.change ? ` What would change it: ${found.change}.` : "";
    setText(this.why, visible(`${by}${found.gear}: ${found.why}.${change}`));
  }

  showRefusals(node, refusals) {
    const sign = JSON.stringify(refusals);
    if (node.sign === sign) return;
    node.sign = sign;
    fill(
      node,
      refusals.map((each) =>
        h(
          "div",
          { class: "refusal" },
          h("p", {}, visible(String(each.what))),
          each.operator && h("p", { class: "muted" }, "operator ", h("code", {}, visible(String(each.operator)))),
          each.rewrite && h("p", { class: "hint" }, visible(String(each.rewrite))),
          each.file && h("p", {}, h("code", { title: visible(String(each.file)) }, place(each.file, each.line))),
        ),
      ),
    );
  }

  ask(gear) {
    const isRun = gear === this.gear && gear === "batch";
    if (gear === this.gear && !isRun) return;
    const now = h("input", { type: "checkbox" });
    const { close } = openDialog(
      this.page,
      { title: isRun ? `Run ${visible(this.pipeline)} now?` : `Shift ${visible(this.pipeline)} to ${gear}?` },
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            close();
            this.shift(gear, now.checked);
          },
        },
        h(
          "p",
          {},
          isRun
            ? "A batch over everything that arrived since the last one starts at once."
            : `From ${this.gear} to ${gear} on the same checkpoint: nothing is lost, and every replayed record is counted.`,
        ),
        !isRun && h("label", { class: "check" }, now, " now: do not wait for the batch to end"),
        h(
          "footer",
          {},
          h("button", { type: "button", onclick: () => close() }, "Cancel"),
          h("button", { type: "submit", class: "primary" }, isRun ? "Run" : "Shift"),
        ),
      ),
    );
  }

  async shift(gear, now) {
    this.shifting = true;
    this.show(this.gear);
    setHidden(this.progress, false);
    fill(this.steps);
    fill(this.proof);
    set(this.progress, "aria-busy", "true");
    const began = performance.now();
    let shifted = null;
    let failure = null;
    try {
      for await (const line of postLines(
        path(["api", "pipelines", this.pipeline, "shift"]),
        { gear, now },
        { signal: this.page.signal },
      )) {
        if (line.shifted) shifted = line.shifted;
        else if (line.error) failure = { error: line.error };
        else this.step(line, performance.now() - began);
      }
    } catch (raised) {
      if (isAbort(raised) || this.page.left) return;
      failure = raised;
    }
    this.shifting = false;
    set(this.progress, "aria-busy", null);
    const gap = await this.onShifted().catch(() => null);
    if (this.page.left) return;
    this.show(shifted?.after ?? this.gear);
    if (shifted) fill(this.proof, proofOf(shifted, gap));
    else if (failure) fill(this.proof, problemBox(failure));
    else
      fill(
        this.proof,
        problemBox({
          error: { what: "the answer ended before the shift did", hint: "see the pipeline's gear and state above" },
        }),
      );
  }

  step({ step, words }, elapsed) {
    for (const before of this.steps.children) before.classList.add("past");
    const level = step === "rollback" ? "level-error" : step === "done" ? "level-ok" : "";
    this.steps.append(
      h(
        "li",
        { class: level },
        h("b", {}, visible(String(step))),
        h("span", {}, visible(String(words ?? ""))),
        h("span", { class: "elapsed" }, seconds(elapsed / 1000)),
      ),
    );
  }
}

function proofOf(shifted, gap) {
  const fact = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return [
    h("h3", {}, icon("ok"), ` ${shifted.before} → ${shifted.after}: the proof`),
    h(
      "dl",
      { class: "facts" },
      fact("Gap", gap === null ? "see the ledger" : `${exact(gap)} records`),
      fact("Replayed", `${exact(shifted.replayed)} records`),
      fact("Pause", seconds(shifted.pause)),
      fact("Waited for the boundary", seconds(shifted.waited)),
    ),
  ];
}
