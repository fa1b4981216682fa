// Connectors of change data capture: state, tasks, and why one failed.
import { isAbort, path, post } from "./api.js";
import { fill, h, keyed, setHidden } from "./dom.js";
import { visible } from "./format.js";
import { isReadOnly } from "./live.js";
import { problemBox } from "./problem.js";
import { stateBadge } from "./state.js";

export function connectors(page) {
  const list = h("div", { class: "stack" });
  const none = h(
    "p",
    { class: "empty card", hidden: true },
    "No connector: the app captures no database, or no Kafka Connect is set up.",
  );
  page.root.append(h("div", { class: "page-head" }, h("h1", {}, "Connectors")));
  const ask = page.poll(
    "/api/connectors",
    (found) => {
      setHidden(none, found.length > 0);
      keyed(
        list,
        found,
        (each) => each.name,
        (each) => make(page, each.name, () => ask()),
        (node, each) => node.show(each),
      );
    },
    { every: 4000 },
  );
  page.root.append(list, none);
}

function make(page, name, done) {
  const state = stateBadge("unknown", "idle");
  const body = h("div", {});
  const out = h("div", { role: "status", "aria-live": "polite" });
  const button = (verb) =>
    h(
      "button",
      { type: "button", "aria-label": `${verb} ${visible(name)}`, onclick: (event) => act(verb, event.currentTarget) },
      verb[0].toUpperCase() + verb.slice(1),
    );
  const buttons = h("div", { class: "buttons" }, ["pause", "resume", "restart"].map(button));
  const act = async (verb, pressed) => {
    pressed.disabled = true;
    try {
      const found = await post(path(["api", "connectors", name, verb]), {}, { signal: page.signal });
      fill(out, h("p", { class: "success" }, `${verb}: ${visible(String(found.state).toLowerCase())}`));
      done();
    } catch (failure) {
      if (!isAbort(failure)) fill(out, problemBox(failure));
    } finally {
      pressed.disabled = false;
    }
  };
  const node = h(
    "section",
    { class: "card" },
    h("div", { class: "page-head" }, h("h2", {}, visible(name)), state, h("span", { class: "space" }), buttons),
    out,
    body,
  );
  let sign = null;
  node.show = (each) => {
    state.show(each.state);
    setHidden(buttons, isReadOnly());
    const now = JSON.stringify(each);
    if (now === sign) return;
    sign = now;
    fill(
      body,
      each.capture && h("p", { class: "muted" }, `capture ${visible(each.capture)}`),
      each.cause && h("p", { class: "notice" }, visible(String(each.cause))),
      each.tasks.length === 0 && h("p", { class: "muted" }, "no tasks"),
      h("ul", { class: "plain" }, each.tasks.map(task)),
    );
  };
  return node;
}

function task({ number, state, cause }) {
  const [first, ...rest] = String(cause ?? "").split("\n");
  return h(
    "li",
    {},
    `task ${number} `,
    stateBadge(state),
    cause &&
      (rest.length
        ? h(
            "details",
            {},
            h("summary", {}, visible(first)),
            h("pre", { tabindex: "0", role: "group", "aria-label": `Cause of task ${number}` }, visible(String(cause))),
          )
        : h("p", { class: "error-text" }, visible(first))),
  );
}
