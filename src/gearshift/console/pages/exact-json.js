// JSON in which every number keeps its digits: a 64-bit id or a decimal does not fit JavaScript's number.
const hasRaw = typeof JSON.rawJSON === "function";

function keepDigits(_key, value, context) {
  if (typeof value === "number" && context?.source !== undefined && String(value) !== context.source) {
    return JSON.rawJSON(context.source);
  }
  return value;
}

export function parseExact(text) {
  return hasRaw ? JSON.parse(text, keepDigits) : JSON.parse(text);
}

function isRaw(value) {
  return hasRaw && JSON.isRawJSON(value);
}

/** A number of exactly these digits, as a value for JSON.stringify. */
export function rawNumber(digits) {
  return hasRaw ? JSON.rawJSON(digits) : Number(digits);
}

/** A JavaScript number, of a number or of kept digits; otherwise null. */
export function toNumber(value) {
  if (typeof value === "number") return value;
  return isRaw(value) ? Number(value.rawJSON) : null;
}

/** A value on one line: text as it is, everything else as JSON. */
export function oneLine(value, most = 300) {
  if (value === undefined || value === null) return "null";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export function pretty(value) {
  return JSON.stringify(value, null, 2) ?? "null";
}
