// What canvas charts share: sizes, scales, ticks and the grid.
import { colour } from "./palette.js";
import { clock, day } from "./format.js";

export const LEFT = 52;
export const RIGHT = 10;
export const TOP = 14;
export const BOTTOM = 20;

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** Ticks from 0 (or below) to at least `most`: at most five round values. */
export function valueTicks(least, most) {
  const span = most - least || Math.abs(most) || 1;
  const raw = span / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  const first = Math.floor(least / step) * step;
  const ticks = [];
  for (let value = first; ticks.length < 8; value += step) {
    ticks.push(Number(value.toPrecision(12)));
    if (value >= most) break;
  }
  return ticks;
}

/** Times at round steps, about one every `room` pixels. */
export function timeTicks(from, to, width, room = 90) {
  const wanted = (to - from) / 1000 / Math.max(1, Math.floor(width / room));
  const step = (STEPS.find((value) => value >= wanted) ?? Math.ceil(wanted / 86400) * 86400) * 1000;
  // Round in local time, so that a step of a day begins at midnight.
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let t = Math.ceil((from - offset) / step) * step + offset; t <= to; t += step) ticks.push(t);
  return { ticks, step };
}

export function timeLabel(t, step) {
  const date = new Date(t);
  if (step >= 86_400_000) return day(date);
  return step >= 60_000 ? clock(date).slice(0, 5) : clock(date);
}

/** A canvas that follows the size of its element and the pixels of the screen. */
export class Surface {
  constructor(canvas, onSize) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
    this.observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      if (width === this.width && height === this.height) return;
      this.width = width;
      this.height = height;
      onSize();
    });
    this.observer.observe(canvas);
  }

  /** Clears, and returns the context in CSS pixels. */
  begin() {
    const scale = devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = "11px system-ui, sans-serif";
    return this.context;
  }

  close() {
    this.observer.disconnect();
  }
}

/** The positions of times and values within a surface. */
export function scales(surface, from, to, least, most) {
  const across = Math.max(1, surface.width - LEFT - RIGHT);
  const down = Math.max(1, surface.height - TOP - BOTTOM);
  const span = to - from || 1;
  const range = most - least || 1;
  return {
    from,
    to,
    across,
    down,
    x: (t) => LEFT + ((t - from) / span) * across,
    y: (value) => TOP + down - ((value - least) / range) * down,
  };
}

export function drawGrid(context, surface, scale, ticks, format) {
  context.strokeStyle = colour("line");
  context.fillStyle = colour("muted");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of ticks) {
    const y = Math.round(scale.y(tick)) + 0.5;
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(surface.width - RIGHT, y);
    context.stroke();
    context.fillText(format(tick), LEFT - 6, y);
  }
  context.textBaseline = "alphabetic";
  context.textAlign = "center";
  const { ticks: times, step } = timeTicks(scale.from, scale.to, scale.across);
  for (const t of times) {
    const x = scale.x(t);
    if (x < LEFT + 12 || x > surface.width - RIGHT - 18) continue;
    context.fillText(timeLabel(t, step), x, surface.height - 5);
  }
}
