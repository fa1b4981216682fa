// The dialog that replays or discards dead letters: first what would happen, then it happens.
import { path, post } from "./api.js";
import { confirmDialog } from "./dialog.js";
import { h } from "./dom.js";
import { plural, visible } from "./format.js";

const WORDS = {
  replay: "Each letter is sent again to where it failed, exactly once.",
  discard: "Discarded letters are settled for good: they are not replayed.",
};

export function openSettle(page, topic, verb, letters, done) {
  const url = path(["api", "dead-letters", topic, verb]);
  const isReplay = verb === "replay";
  const byCause = h("input", { type: "checkbox" });
  const reason = shared(letters);
  const filters = () => (byCause.checked ? [causeFilter(letters[0], reason)] : letters.map(letterFilter));
  const run = async (dryRun, signal) => {
    const total = { letters: 0, to_topic: 0, to_deliveries: {}, rows: 0, results: 0 };
    for (const only of filters()) {
      const found = await post(url, { only, dry_run: dryRun }, { signal });
      for (const name of ["letters", "to_topic", "rows", "results"]) total[name] += found[name] ?? 0;
      for (const [name, number] of Object.entries(found.to_deliveries ?? {}))
        total.to_deliveries[name] = (total.to_deliveries[name] ?? 0) + number;
    }
    return total;
  };
  confirmDialog(page, {
    title: `${isReplay ? "Replay" : "Discard"} ${plural(letters.length, "letter")}?`,
    words: WORDS[verb],
    body: [
      reason &&
        h(
          "label",
          { class: "check" },
          byCause,
          " all open letters with this cause: ",
          h("code", {}, visible(causeFilter(letters[0], reason).join(", "))),
        ),
    ],
    verb: isReplay ? "Replay" : "Discard",
    danger: !isReplay,
    preview: async (signal) => result(await run(true, signal), isReplay ? "would be replayed" : "would be discarded"),
    act: async (signal) => {
      try {
        return [
          h("p", { class: "success" }, "Done."),
          result(await run(false, signal), isReplay ? "replayed" : "discarded"),
        ];
      } finally {
        done();
      }
    },
  });
}

/** Selects one letter: by its record and by who failed on it, or by its cause if it is of no record. */
function letterFilter(letter) {
  if (letter.partition === null || letter.partition === undefined) return causeFilter(letter, letter.reason);
  return [`partition=${letter.partition}`, `offset=${letter.offset}`, ...who(letter)];
}

function causeFilter(letter, reason) {
  return [`exception=${letter.exception}`, ...who(letter), ...(reason ? [`reason=${reason}`] : [])];
}

function who(letter) {
  if (letter.delivery) return [`delivery=${letter.delivery}`];
  return letter.pipeline ? [`pipeline=${letter.pipeline}`] : [];
}

/** The longest part without numbers of the letters' reason, if all failed in the same way; a filter takes a part. */
function shared(letters) {
  const first = letters[0];
  if (
    letters.some(
      (letter) =>
        letter.exception !== first.exception ||
        letter.delivery !== first.delivery ||
        letter.pipeline !== first.pipeline,
    )
  )
    return null;
  const parts = String(first.reason)
    .split(/\d{2,}/)
    .sort((one, other) => other.length - one.length);
  const part = parts.find((each) => letters.every((letter) => String(letter.reason).includes(each)));
  return part && part.trim().length >= 4 ? part.trim() : null;
}

function result(total, words) {
  const parts = [
    total.to_topic && `${plural(total.to_topic, "record")} to the topic`,
    ...Object.entries(total.to_deliveries).map(([name, number]) => `${plural(number, "record")} to ${visible(name)}`),
    total.rows && plural(total.rows, "row"),
    total.results && plural(total.results, "result"),
  ].filter(Boolean);
  return h("p", {}, `${plural(total.letters, "letter")} ${words}${parts.length ? `: ${parts.join(", ")}` : ""}.`);
}
