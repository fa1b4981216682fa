// What the running app reports once a second, and the last ten minutes of it.
import { get } from "./api.js";
import { onConnection } from "./connection.js";
import { EventStream } from "./event-stream.js";
import { inFrame } from "./animation-frame.js";

const MOST_POINTS = 600;
const SILENCE = 12_000;
const WITHOUT_APP = 5_000;

export const live = {
  /** The answer of /api/app; null until it came. */
  info: null,
  status: null,
  alerts: [],
  at: null,
  pipelines: new Map(),
  deliveries: new Map(),
};

const onStatus = new Set();
const onInfo = new Set();
let stream = null;

export function subscribe(listener) {
  onStatus.add(listener);
  if (live.status !== null) inFrame(listener);
  return () => onStatus.delete(listener);
}

export function subscribeInfo(listener) {
  onInfo.add(listener);
  if (live.info !== null) listener();
  return () => onInfo.delete(listener);
}

export function isReadOnly() {
  return live.info?.read_only === true;
}

export function pipelineStatus(name) {
  return live.status?.pipelines?.find((each) => each.name === name) ?? null;
}

export function pipelineOfGraph(name) {
  return live.info?.graph?.pipelines?.find((each) => each.name === name) ?? null;
}

export function start() {
  onConnection((state, before) => {
    if (state === "ok" && before !== "ok") load();
  });
  load();
}

let loading = false;
let loadTimer = 0;

async function load() {
  if (loading) return;
  loading = true;
  clearTimeout(loadTimer);
  let again = 0;
  try {
    take(await get("/api/app", { patience: 15_000 }));
    // Without a running app there is no stream: asking is the check that the server answers.
    if (live.info.app === null) again = WITHOUT_APP;
  } catch {
    again = WITHOUT_APP / 2;
  } finally {
    loading = false;
  }
  if (again) loadTimer = setTimeout(load, again);
}

function take(found) {
  live.info = found;
  for (const listener of [...onInfo]) listener();
  if (found.app === null) closeStream();
  else openStream();
}

function openStream() {
  if (stream !== null) return;
  stream = new EventStream("/api/events", { history: takeHistory, status: takeStatus }, { silence: SILENCE });
}

function closeStream() {
  stream?.close();
  stream = null;
}

const timed = (point) => ({ ...point, t: Date.parse(point.at) });

function takeHistory(data) {
  for (const kind of ["pipelines", "deliveries"]) {
    live[kind].clear();
    for (const [name, points] of Object.entries(data[kind] ?? {})) {
      live[kind].set(name, points.slice(-MOST_POINTS).map(timed));
    }
  }
  if (live.status !== null) notify();
}

function takeStatus(data) {
  if (!data.status) return; // before the first snapshot
  live.status = data.status;
  live.alerts = data.alerts ?? [];
  live.at = data.at;
  const t = Date.parse(data.at);
  for (const each of data.status?.pipelines ?? []) {
    add(live.pipelines, each.name, {
      t,
      in: each.records_per_second,
      out: each.written_per_second,
      lag: each.lag,
      p50: each.latency_p50_ms,
      p99: each.latency_p99_ms,
    });
  }
  for (const each of data.status?.deliveries ?? []) {
    add(live.deliveries, each.name, {
      t,
      in: null,
      out: each.delivered_per_second ?? null,
      lag: totalLag(each),
      p50: null,
      p99: null,
    });
  }
  notify();
}

function add(kept, name, point) {
  let points = kept.get(name);
  if (points === undefined) kept.set(name, (points = []));
  const last = points[points.length - 1];
  if (last !== undefined && last.t >= point.t) return; // the history already has it
  points.push(point);
  if (points.length > MOST_POINTS) points.shift();
}

export function totalLag(delivery) {
  if (delivery.lag === null || delivery.lag === undefined) return null;
  return Object.values(delivery.lag).reduce((sum, lag) => sum + (lag ?? 0), 0);
}

export function latestPoint(points) {
  return points?.[points.length - 1] ?? null;
}

function notify() {
  for (const listener of onStatus) inFrame(listener);
}
