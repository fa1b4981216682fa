// All consumer groups with their lag.
import { path } from "./api.js";
import { DataTable } from "./data-table.js";
import { h, setText } from "./dom.js";
import { field, text } from "./field.js";
import { exact, plural, visible } from "./format.js";
import { stateBadge } from "./state.js";

export function groups(page) {
  let all = [];
  const input = text({ type: "search", placeholder: "part of a name", oninput: () => show() });
  const shown = h("p", { class: "muted", role: "status", "aria-live": "polite" });
  const table = new DataTable({
    label: "Consumer groups",
    key: (group) => group.group_id,
    empty: "No consumer group.",
    columns: [
      {
        title: "Group",
        wide: true,
        sort: (group) => group.group_id,
        node: (group) => h("a", { href: path(["groups", group.group_id]) }, visible(group.group_id)),
        sign: (group) => group.group_id,
      },
      {
        title: "State",
        sort: (group) => group.state,
        node: (group) => stateBadge(group.state),
        sign: (group) => group.state,
      },
      { title: "Kind", text: (group) => visible(String(group.kind ?? "–")) },
      { title: "Of", node: owner, sign: (group) => `${group.delivery} ${group.pipeline}` },
      { title: "Members", number: true, sort: (group) => group.members, text: (group) => exact(group.members) },
      { title: "Lag", number: true, sort: (group) => group.lag, text: (group) => exact(group.lag) },
      { title: "Topics", wide: true, text: (group) => visible((group.topics ?? []).join(", ")) },
    ],
  });
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    const found = wanted ? all.filter((group) => group.group_id.toLowerCase().includes(wanted)) : all;
    table.show(found);
    setText(shown, wanted ? `${exact(found.length)} of ${plural(all.length, "group")}` : plural(all.length, "group"));
  };
  page.root.append(
    h("div", { class: "page-head" }, h("h1", {}, "Consumer groups")),
    h("div", { class: "toolbar" }, field("Filter", input), shown),
  );
  page.poll(
    "/api/groups",
    (found) => {
      all = found;
      show();
    },
    // The server asks for the offsets of each group on its own, which takes it longer than all other pages.
    { every: 10_000 },
  );
  page.root.append(table.node);
}

function owner(group) {
  if (group.pipeline)
    return h("a", { href: path(["pipelines", group.pipeline]) }, `pipeline ${visible(group.pipeline)}`);
  return h("span", {}, group.delivery ? `delivery ${visible(group.delivery)}` : "–");
}
