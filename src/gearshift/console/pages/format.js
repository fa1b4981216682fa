// Numbers, times and text as the console shows them.
const NONE = "–";
const INTEGER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const TWO = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

const absent = (value) => value === null || value === undefined || Number.isNaN(value);

/** All digits: 12,345. */
export function exact(value) {
  return absent(value) ? NONE : INTEGER.format(value);
}

/** Short: 950, 12.3k, 4.5M. */
export function count(value) {
  if (absent(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10_000) return (size < 100 ? (size < 1 ? TWO : ONE) : INTEGER).format(value);
  if (size < 1e6) return `${ONE.format(value / 1e3)}k`;
  if (size < 1e9) return `${ONE.format(value / 1e6)}M`;
  return `${ONE.format(value / 1e9)}G`;
}

export function rate(value) {
  return absent(value) ? NONE : `${count(value)}/s`;
}

export function millis(value) {
  if (absent(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10) return `${ONE.format(value)} ms`;
  if (size < 1000) return `${INTEGER.format(value)} ms`;
  if (size < 60_000) return `${ONE.format(value / 1000)} s`;
  if (size < 3_600_000) return `${ONE.format(value / 60_000)} min`;
  if (size < 172_800_000) return `${ONE.format(value / 3_600_000)} h`;
  return `${ONE.format(value / 86_400_000)} days`;
}

export function seconds(value) {
  return absent(value) ? NONE : millis(value * 1000);
}

export function bytes(value) {
  if (absent(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${ONE.format(size)} ${units[unit]}`;
}

export function percent(share) {
  return absent(share) ? NONE : `${ONE.format(share * 100)} %`;
}

/** "1 record", "2 records". */
export function plural(number, noun) {
  return `${exact(number)} ${noun}${number === 1 ? "" : "s"}`;
}

const two = (value) => String(value).padStart(2, "0");

/** The local time of day. */
export function clock(date) {
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function day(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The local date and time of an ISO time: 2026-01-31 12:00:00. */
export function stamp(iso, { millis: withMillis = false } = {}) {
  const date = parsed(iso);
  if (date === null) return iso ? visible(String(iso)) : NONE;
  const text = `${day(date)} ${clock(date)}`;
  return withMillis ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

/** The local time, with the date only if it is not today. */
export function shortStamp(iso) {
  const date = parsed(iso);
  if (date === null) return stamp(iso);
  return day(date) === day(new Date()) ? clock(date) : `${day(date).slice(5)} ${clock(date).slice(0, 5)}`;
}

function parsed(iso) {
  if (iso === null || iso === undefined || iso === "") return null;
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** How long ago: "12 s ago". */
export function ago(iso, now = Date.now()) {
  const date = parsed(iso);
  return date === null ? NONE : `${millis(Math.max(0, Math.round((now - date) / 1000) * 1000))} ago`;
}

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]/g;

/** The text with control and direction characters escaped, which could hide or reorder a part of it. */
export function visible(text) {
  return text.replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** "file.py:12", without the folders. */
export function place(file, line) {
  if (!file) return null;
  const name = String(file).split("/").slice(-2).join("/");
  return visible(line ? `${name}:${line}` : name);
}
