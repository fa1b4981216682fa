// Modal dialogs: the browser keeps the focus inside, Escape closes, and the focus goes back to where it was.
import { fill, h, newId } from "./dom.js";
import { problemBox } from "./problem.js";
import { isAbort } from "./api.js";

/** Opens a dialog; `page` closes it when the page is left. Returns {node, close}. */
export function openDialog(page, { title, wide = false }, ...body) {
  const id = newId();
  const before = document.activeElement;
  const node = h(
    "dialog",
    { "aria-labelledby": id, class: wide ? "wide" : null },
    h(
      "header",
      {},
      h("h2", { id }, title),
      h("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => node.close() }, "×"),
    ),
    body,
  );
  document.body.append(node);
  const close = () => node.close();
  const forget = page.onLeave(close);
  node.addEventListener("close", () => {
    forget();
    node.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  });
  node.showModal();
  // Not the button that closes, which is first.
  node.querySelector("form input, form select, form textarea, form button, footer button")?.focus();
  return { node, close };
}

/**
 * A dialog that asks before something happens. `act` gets the abort signal; what it returns is shown in the dialog, and
 * with nothing returned the dialog closes. `check` previews, if there is one, before `act` is offered.
 */
export function confirmDialog(page, { title, words, body = [], verb, danger = false, preview, act }) {
  const out = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, preview ? "Preview" : verb);
  let previewed = !preview;
  let finished = false;
  const form = h(
    "form",
    {
      method: "dialog",
      oninput: () => {
        if (preview && previewed && !finished) {
          // Another input needs another preview.
          previewed = false;
          go.textContent = "Preview";
          fill(out);
        }
      },
      onsubmit: async (event) => {
        event.preventDefault();
        if (finished) return dialog.close();
        go.disabled = true;
        go.setAttribute("aria-busy", "true");
        try {
          const shown = await (previewed ? act(page.signal) : preview(page.signal));
          if (previewed) finished = true;
          else previewed = true;
          if (finished && shown === undefined) return dialog.close();
          fill(out, shown);
          go.textContent = finished ? "Close" : verb;
          if (finished) cancel.remove();
        } catch (failure) {
          if (!isAbort(failure)) fill(out, problemBox(failure));
        } finally {
          go.disabled = false;
          go.removeAttribute("aria-busy");
          if (go.isConnected) go.focus();
        }
      },
    },
    words && h("p", {}, words),
    body,
    out,
    h("footer", {}, cancel, go),
  );
  const dialog = openDialog(page, { title }, form);
  return dialog;
}
