// A subject: its versions, what changed between two of them, and whether another schema would be compatible.
import { isAbort, path, post } from "./api.js";
import { lineDiff } from "./diff.js";
import { fill, h } from "./dom.js";
import { field, select } from "./field.js";
import { visible } from "./format.js";
import { problemBox } from "./problem.js";

export function schema(page, subject) {
  const facts = h("p", { class: "about" });
  const body = h("div", { class: "stack" });
  page.root.append(h("div", { class: "page-head" }, h("h1", {}, visible(subject)), facts));
  page.poll(path(["api", "schemas", subject]), (found) => {
    const newest = found.versions[found.versions.length - 1];
    fill(
      facts,
      `${found.versions.length} version${found.versions.length === 1 ? "" : "s"} · ${visible(String(found.compatibility))}${newest ? ` · ${newest.format}` : ""}`,
    );
    fill(body, newest && versionCard(found.versions), newest && changeCard(found.versions), checkCard(page, subject));
  });
  page.root.append(body);
}

function prettyText(version) {
  try {
    return JSON.stringify(JSON.parse(version.text), null, 2);
  } catch {
    return version.text; // Protobuf, or a bare Avro name
  }
}

const label = (version) => `version ${version.version} (id ${version.id})`;

function versionCard(versions) {
  const options = [...versions].reverse().map((each) => [String(each.version), label(each)]);
  const chosen = select(options, { oninput: () => show() });
  const compared = select([["", "nothing"], ...options], { oninput: () => show() });
  const text = h("pre", { class: "schema-text", tabindex: "0", role: "group", "aria-label": "Schema" });
  const find = (value) => versions.find((each) => String(each.version) === value);
  const show = () => {
    const [version, other] = [find(chosen.value), find(compared.value)];
    if (!other) {
      fill(text, visible(prettyText(version)));
      return;
    }
    const signs = { same: "  ", removed: "- ", added: "+ " };
    fill(
      text,
      lineDiff(prettyText(other), prettyText(version)).map((line) =>
        h("span", { class: `diff ${line.kind}` }, `${signs[line.kind]}${visible(line.text)}\n`),
      ),
    );
  };
  if (versions.length > 1) compared.value = String(versions[versions.length - 2].version);
  show();
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Text"),
    h("div", { class: "toolbar" }, field("Show", chosen), field("Compared with", compared)),
    text,
  );
}

function changeCard(versions) {
  const changed = [...versions].reverse().map((version) =>
    h(
      "li",
      {},
      h("b", {}, label(version)),
      version.changes?.length
        ? h(
            "ul",
            {},
            version.changes.map((change) => h("li", {}, visible(String(change)))),
          )
        : h(
            "span",
            { class: "muted" },
            version.version === versions[0].version ? " first version" : " no change of a field",
          ),
    ),
  );
  return h("section", { class: "card" }, h("h2", {}, "Changes"), h("ul", { class: "plain" }, changed));
}

function checkCard(page, subject) {
  const text = h("textarea", { rows: "8", spellcheck: "false", required: true });
  const out = h("div", { role: "status", "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Check");
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Check a schema"),
    h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          button.disabled = true;
          try {
            fill(
              out,
              answer(
                await post(path(["api", "schemas", subject, "check"]), { text: text.value }, { signal: page.signal }),
              ),
            );
          } catch (failure) {
            if (!isAbort(failure)) fill(out, problemBox(failure));
          } finally {
            button.disabled = false;
          }
        },
      },
      field("Schema text", text, "it is compared with the registered versions; nothing is registered"),
      h("footer", { class: "form-end" }, button),
    ),
    out,
  );
}

function answer({ compatible, level, changes }) {
  return [
    h(
      "p",
      { class: compatible ? "success" : "notice" },
      `${compatible ? "Compatible" : "Not compatible"} at level ${visible(String(level))}`,
    ),
    h(
      "ul",
      {},
      changes.map((change) =>
        h(
          "li",
          { class: change.breaks ? "error-text" : null },
          `${visible(String(change.what))}${change.breaks ? " (breaks)" : ""}`,
        ),
      ),
    ),
  ];
}
