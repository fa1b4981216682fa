// The dialog that resets a group's offsets: a preview of every move, then the reset itself.
import { path, post } from "./api.js";
import { DataTable } from "./data-table.js";
import { confirmDialog } from "./dialog.js";
import { h, setHidden } from "./dom.js";
import { field, select, text } from "./field.js";
import { exact, visible } from "./format.js";

export function openReset(page, group, topics, done) {
  const topic = topics.length ? select(topics.map((each) => [each, visible(each)])) : text({ required: true });
  const to = select(
    [
      ["earliest", "the earliest record"],
      ["latest", "the latest record"],
      ["time", "a time"],
      ["offset", "an offset"],
    ],
    { oninput: () => show() },
  );
  const time = text({ type: "datetime-local", step: "1" });
  const offset = text({ type: "number", min: "0", value: "0" });
  const [timeField, offsetField] = [field("Time (local)", time), field("Offset", offset, "of every partition")];
  const show = () => {
    setHidden(timeField, to.value !== "time");
    setHidden(offsetField, to.value !== "offset");
  };
  show();
  const target = () => {
    if (to.value === "offset") return offset.value;
    if (to.value !== "time") return to.value;
    if (!time.value) throw { error: { what: "no time is given", hint: "choose a date and a time" } };
    return new Date(time.value).toISOString();
  };
  const send = (dryRun, signal) =>
    post(path(["api", "groups", group, "reset"]), { topic: topic.value, to: target(), dry_run: dryRun }, { signal });
  confirmDialog(page, {
    title: `Reset ${visible(group)}`,
    words: "The group then reads from the new offsets: records are read again, or skipped.",
    body: [h("div", { class: "form-grid" }, field("Topic", topic), field("To", to), timeField, offsetField)],
    verb: "Apply",
    danger: true,
    preview: async (signal) => moves(await send(true, signal)),
    act: async (signal) => {
      const found = await send(false, signal);
      done();
      return [h("p", { class: "success" }, "The offsets are reset."), moves(found)];
    },
  });
}

function moves(found) {
  const table = new DataTable({
    label: "Moves",
    key: (move) => `${move.topic}/${move.partition}`,
    empty: "No offset would change.",
    columns: [
      { title: "Partition", number: true, text: (move) => move.partition },
      { title: "Before", number: true, text: (move) => exact(move.before) },
      { title: "After", number: true, text: (move) => exact(move.after) },
      {
        title: "Change",
        number: true,
        text: (move) =>
          move.before === null || move.after === null
            ? "–"
            : `${move.after > move.before ? "+" : ""}${exact(move.after - move.before)}`,
      },
    ],
  });
  table.show(found.moves);
  return table.node;
}
