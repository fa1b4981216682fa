// Requests to the server. Every failure is an ApiError with the fields of the API's errors.
import { answered, locked, lost } from "./connection.js";
import { parseExact } from "./exact-json.js";

class ApiError extends Error {
  constructor(status, error) {
    super(error?.what ?? `the server answered with status ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.error = { what: this.message, ...error };
  }

  /** Whether no server answered, which the banner already reports. */
  get isConnection() {
    return this.status === 0 || this.status === 401;
  }
}

const GONE = { kind: "Unreachable", what: "the app does not answer", hint: "it is tried again by itself" };
const TIMEOUT = {
  kind: "Timeout",
  what: "no answer in time",
  hint: "the server or Kafka is busy; try again",
};
const PATIENCE = 60_000;

async function send(method, path, { body, signal, patience = PATIENCE } = {}) {
  const signals = [signal, patience ? AbortSignal.timeout(patience) : null].filter(Boolean);
  const options = { method, headers: { Accept: "application/json" }, credentials: "same-origin", cache: "no-store" };
  if (signals.length) options.signal = AbortSignal.any(signals);
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (failure) {
    throw explained(failure, signal);
  }
  if (response.status === 401) locked();
  else answered();
  if (!response.ok) throw new ApiError(response.status, await errorOf(response));
  return response;
}

function explained(failure, signal) {
  if (signal?.aborted) return failure;
  if (failure?.name === "TimeoutError") return new ApiError(0, TIMEOUT);
  lost();
  return new ApiError(0, GONE);
}

async function errorOf(response) {
  try {
    return (await response.json()).error ?? null;
  } catch {
    return null;
  }
}

async function decoded(response, { signal, exact }) {
  try {
    const text = await response.text();
    return exact ? parseExact(text) : JSON.parse(text);
  } catch (failure) {
    if (signal?.aborted) throw failure;
    if (failure instanceof SyntaxError) {
      throw new ApiError(response.status, { what: "the answer is not JSON", hint: "see the app's log" });
    }
    throw explained(failure, signal);
  }
}

/** `exact` keeps all digits of numbers, for records: see exact-json.js. */
export async function get(path, options = {}) {
  return decoded(await send("GET", path, options), options);
}

export async function post(path, body, options = {}) {
  return decoded(await send("POST", path, { patience: 0, ...options, body }), options);
}

/** Posts, and yields each line of the NDJSON answer as it arrives. */
export async function* postLines(path, body, { signal } = {}) {
  const response = await send("POST", path, { body, signal, patience: 0 });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += value ?? "";
      const lines = rest.split("\n");
      rest = done ? "" : lines.pop();
      for (const line of lines) if (line.trim()) yield JSON.parse(line);
      if (done) return;
    }
  } catch (failure) {
    throw failure instanceof SyntaxError
      ? new ApiError(0, { what: "the answer is not JSON", hint: "see the app's log" })
      : explained(failure, signal);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A path with every part encoded, and the parameters that are not empty. */
export function path(parts, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return `/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** True for the failure of a request that was cancelled on purpose. */
export function isAbort(failure) {
  return failure?.name === "AbortError";
}
