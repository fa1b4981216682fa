// Draws at most once a frame, and not at all while the page is hidden.
const waiting = new Set();
let asked = false;

function run() {
  asked = false;
  const due = [...waiting];
  waiting.clear();
  for (const draw of due) draw();
}

function ask() {
  if (asked || document.hidden || waiting.size === 0) return;
  asked = true;
  requestAnimationFrame(run);
}

/** Runs the function in the next frame; asked several times for the same function, it runs once. */
export function inFrame(draw) {
  waiting.add(draw);
  ask();
}

export function notInFrame(draw) {
  waiting.delete(draw);
}

document.addEventListener("visibilitychange", ask);
