// The theme's colours as values, for canvas: custom properties with light-dark() resolve only on an element.
let known = new Map();
let probe = null;
const listeners = new Set();

export function colour(name) {
  let found = known.get(name);
  if (found === undefined) {
    if (probe === null) {
      probe = document.createElement("span");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    found = getComputedStyle(probe).color;
    known.set(name, found);
  }
  return found;
}

export function forgetColours() {
  known = new Map();
  for (const listener of listeners) listener();
}

/** Calls the listener after each change of theme; returns the function that ends it. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forgetColours);
