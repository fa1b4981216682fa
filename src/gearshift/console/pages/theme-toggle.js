// The button for the theme: the system's, light or dark.
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { forgetColours } from "./palette.js";

const ORDER = ["system", "light", "dark"];

function current() {
  return document.documentElement.dataset.theme ?? "system";
}

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("gearshift-theme", theme);
  } catch {
    // Storage can be blocked; the choice then lasts until the page is closed.
  }
  forgetColours();
}

export function themeToggle() {
  const word = h("span", {}, current());
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      title: "Switch between the system's theme, light and dark",
      onclick: () => {
        apply(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]);
        setText(word, current());
      },
    },
    icon("theme"),
    h("span", { class: "hidden-text" }, "Theme: "),
    word,
  );
  return button;
}
