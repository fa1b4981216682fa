// When lag is trouble: more than what was promised, or growing.
import { latestPoint } from "./live.js";

const WORTH = 10; // seconds of records behind, for what promises no freshness
const COMPARED = 30; // points

/** {lag, worth, trouble}: worth is the lag in seconds at the present rate, null if the rate is unknown. */
export function lagOf(points, { lag, rate, promised = 0, isBatch = false }) {
  const last = latestPoint(points);
  const behind = lag ?? last?.lag ?? null;
  if (behind === null) return { lag: null, worth: null, trouble: null };
  const worth = rate > 0 ? behind / rate : null;
  let trouble = null;
  if (!isBatch && behind > 0) {
    const allowed = Math.max(WORTH, promised);
    if (worth !== null && worth > allowed) trouble = "behind";
    else if (worth === null && (points?.length ?? 0) > COMPARED && isGrowing(points)) trouble = "growing";
    else if (worth !== null && worth > Math.max(2, promised) && isGrowing(points)) trouble = "growing";
  }
  return { lag: behind, worth, trouble };
}

function isGrowing(points) {
  if (!points || points.length < COMPARED) return false;
  const mean = (from, to) => {
    const some = points.slice(from, to).filter((point) => point.lag !== null && point.lag !== undefined);
    return some.length ? some.reduce((sum, point) => sum + point.lag, 0) / some.length : null;
  };
  const before = mean(-COMPARED, -COMPARED + 10);
  const now = mean(-10, undefined);
  return before !== null && now !== null && now > before * 1.3 && now - before > 5;
}
