// A board of the app: panels that the server fills at most once a second.
import { path } from "./api.js";
import { fill, h } from "./dom.js";
import { inFrame, notInFrame } from "./animation-frame.js";
import { visible } from "./format.js";
import { panelOf } from "./panels.js";

export function board(page, name) {
  const title = h("h1", {}, visible(name));
  const numbers = h("div", { class: "tiles" });
  const grid = h("div", { class: "board" });
  const slot = h("div", {});
  page.root.append(h("div", { class: "page-head" }, title), slot);
  page.poll(
    "/api/boards",
    (found) => {
      const mine = found.find((each) => each.name === name);
      if (mine === undefined) {
        const names = found.map((each) => each.name).join(", ");
        fill(
          slot,
          h(
            "p",
            { class: "notice" },
            visible(`unknown board ${name}; ${names ? `use one of ${names}` : "the app has no boards"}`),
          ),
        );
        return;
      }
      fill(title, visible(mine.title ?? name));
      show(page, name, mine.panels, { numbers, grid });
    },
    { slot },
  );
  page.root.append(numbers, grid);
}

function show(page, name, panels, { numbers, grid }) {
  const shown = new Map();
  for (const panel of panels) {
    const made = panelOf(page, panel);
    shown.set(panel.name, made);
    const place = panel.kind === "number" ? numbers : grid;
    place.append(
      h(
        "section",
        { class: `card panel panel-${panel.kind}` },
        h("h2", {}, visible(panel.title ?? panel.name)),
        made.node,
      ),
    );
  }
  const waiting = new Map();
  const draw = () => {
    for (const [panel, data] of waiting) shown.get(panel)?.show(data);
    waiting.clear();
  };
  page.onLeave(() => notInFrame(draw));
  page.stream(path(["api", "boards", name, "events"]), {
    panels: (data) => {
      for (const [panel, found] of Object.entries(data.panels)) waiting.set(panel, found);
      inFrame(draw);
    },
  });
}
