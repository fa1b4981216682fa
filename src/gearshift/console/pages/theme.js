// A classic script, because it must run before the first paint: a module would show the wrong theme for a moment.
(() => {
  try {
    const stored = localStorage.getItem("gearshift-theme");
    if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
  } catch {
    // Storage can be blocked; the system's theme applies.
  }
})();
