// Whether the server answers: "connecting", "ok", "gone" since a time, or "locked" (the token is missing or wrong).
const listeners = new Set();

export const connection = { state: "connecting", since: new Date() };

function change(state) {
  if (connection.state === state) return;
  const before = connection.state;
  connection.state = state;
  connection.since = new Date();
  for (const listener of [...listeners]) listener(state, before);
}

export const answered = () => change("ok");
export const lost = () => change("gone");
export const locked = () => change("locked");

/** Calls the listener with the new state and the one before; returns the function that ends it. */
export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
