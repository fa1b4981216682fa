// A chart of values over time: lines, a limit, marks, and the values at the pointer or under the arrow keys.
import { Surface, drawGrid, scales, valueTicks, LEFT, RIGHT, TOP, BOTTOM } from "./axes.js";
import { inFrame, notInFrame } from "./animation-frame.js";
import { h, set, setText, setHidden } from "./dom.js";
import { clock, count } from "./format.js";
import { colour, onTheme } from "./palette.js";

const DASHES = [[], [5, 3], [2, 2], [8, 3, 2, 3]];
const AT_LEAST = 60_000;
const DESCRIBED_EVERY = 10_000;

/**
 * `lines`: {name, colour, value(point)}; a point has its time as `t` in ms, and a value can be null. `quiet` leaves out
 * the title, where the page has it.
 */
export class Chart {
  constructor(
    page,
    {
      title,
      lines,
      format = count,
      height = 170,
      seconds = 600,
      limit = null,
      most = 2000,
      titleTag = "h3",
      quiet = false,
    },
  ) {
    Object.assign(this, { title, lines, format, seconds, most });
    this.limit = limit;
    this.points = [];
    this.marks = [];
    this.hover = null;
    this.described = 0;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": title, style: { height: `${height}px` } });
    this.values = lines.map(() => h("b", {}));
    this.swatches = lines.map((line) => h("span", { class: "swatch" }));
    this.when = h("span", { class: "when" });
    this.legend = h(
      "div",
      { class: "legend" },
      lines.map((line, index) =>
        h(
          "span",
          { class: "line" },
          this.swatches[index],
          lines.length > 1 || line.named ? line.name : null,
          this.values[index],
        ),
      ),
      this.when,
    );
    this.none = h("p", { class: "no-data" }, "No values yet");
    this.node = h(
      "div",
      { class: "chart" },
      h("div", { class: "chart-head" }, !quiet && h(titleTag, {}, title), this.legend),
      h("div", { class: "chart-body" }, this.canvas, this.none),
    );
    this.draw = this.draw.bind(this);
    this.surface = new Surface(this.canvas, () => inFrame(this.draw));
    this.listen();
    const endTheme = onTheme(() => inFrame(this.draw));
    this.close = () => {
      this.surface.close();
      endTheme();
      notInFrame(this.draw);
      forget();
    };
    const forget = page.onLeave(this.close);
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.scale === undefined || this.points.length === 0) return;
      const share = (event.offsetX - LEFT) / this.scale.across;
      this.hover = this.indexAt(this.scale.from + share * (this.scale.to - this.scale.from));
      inFrame(this.draw);
    });
    const end = () => {
      this.hover = null;
      inFrame(this.draw);
    };
    this.canvas.addEventListener("pointerleave", end);
    this.canvas.addEventListener("blur", end);
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
      if (event.key === "Escape") end();
      if (step === undefined || this.points.length === 0) return;
      event.preventDefault();
      const last = this.points.length - 1;
      this.hover = Math.max(0, Math.min(last, (this.hover ?? last) + step));
      this.described = 0;
      inFrame(this.draw);
    });
  }

  indexAt(t) {
    let low = 0;
    let high = this.points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle].t < t) low = middle + 1;
      else high = middle;
    }
    return low > 0 && t - this.points[low - 1].t < this.points[low].t - t ? low - 1 : low;
  }

  /** `marks`: {t, label, colour}. */
  show(points, marks = this.marks) {
    const held = this.hover === null ? null : this.points[this.hover]?.t;
    this.points = points.length > this.most ? points.slice(-this.most) : points;
    // The pointer stays on its moment while newer points come in.
    if (held !== null && held !== undefined) this.hover = this.indexAt(held);
    this.marks = marks;
    inFrame(this.draw);
  }

  draw() {
    const { points, surface, lines } = this;
    if (surface.width === 0) return;
    const context = surface.begin();
    let most = 0;
    let least = 0;
    let any = false;
    const to = points.length > 0 ? points[points.length - 1].t : Date.now();
    const first = points.length > 0 ? points[0].t : to - AT_LEAST;
    const from = Math.max(Math.min(first, to - AT_LEAST), to - this.seconds * 1000);
    for (const point of points) {
      if (point.t < from) continue;
      for (const line of lines) {
        const value = line.value(point);
        if (value === null || value === undefined) continue;
        any = true;
        if (value > most) most = value;
        if (value < least) least = value;
      }
    }
    setHidden(this.none, any);
    if (this.limit !== null && this.limit < most * 4) most = Math.max(most, this.limit);
    const ticks = valueTicks(least, most || 1);
    const scale = scales(surface, from, to, ticks[0], ticks[ticks.length - 1]);
    this.scale = scale;
    drawGrid(context, surface, scale, ticks, this.format);
    this.drawMarks(context, scale);
    if (this.limit !== null && this.limit <= ticks[ticks.length - 1]) this.drawLimit(context, scale);
    lines.forEach((line, index) => this.drawLine(context, scale, line, index));
    this.drawHover(context, scale);
    this.describe();
  }

  drawLine(context, scale, line, index) {
    context.strokeStyle = colour(line.colour);
    context.lineWidth = 1.7;
    context.lineJoin = "round";
    context.setLineDash(DASHES[index % DASHES.length]);
    context.beginPath();
    let down = false;
    let alone = null;
    for (const point of this.points) {
      const value = point.t < scale.from ? null : line.value(point);
      if (value === null || value === undefined) {
        down = false;
        continue;
      }
      const [x, y] = [scale.x(point.t), scale.y(value)];
      if (down) context.lineTo(x, y);
      else {
        context.moveTo(x, y);
        alone = [x, y];
      }
      down = true;
    }
    context.stroke();
    context.setLineDash([]);
    if (alone !== null && this.points.length === 1) {
      context.fillStyle = context.strokeStyle;
      context.fillRect(alone[0] - 2, alone[1] - 2, 4, 4);
    }
  }

  drawMarks(context, scale) {
    const bottom = this.surface.height - BOTTOM;
    context.textAlign = "left";
    for (const mark of this.marks) {
      if (mark.t < scale.from || mark.t > scale.to) continue;
      const x = Math.round(scale.x(mark.t)) + 0.5;
      context.strokeStyle = context.fillStyle = colour(mark.colour);
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(x, TOP - 4);
      context.lineTo(x, bottom);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x - 4, TOP - 11);
      context.lineTo(x + 4, TOP - 11);
      context.lineTo(x, TOP - 4);
      context.fill();
      const width = context.measureText(mark.label).width;
      const left = x + 6 + width > this.surface.width ? x - 6 - width : x + 6;
      context.fillText(mark.label, left, TOP - 3);
    }
  }

  drawLimit(context, scale) {
    const y = Math.round(scale.y(this.limit)) + 0.5;
    context.strokeStyle = context.fillStyle = colour("warning");
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(this.surface.width - RIGHT, y);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "right";
    context.fillText("promised", this.surface.width - RIGHT, y - 4);
  }

  drawHover(context, scale) {
    const point = this.hover === null ? null : this.points[this.hover];
    const shown = point ?? this.points[this.points.length - 1];
    setText(this.when, point ? clock(new Date(point.t)) : "");
    this.lines.forEach((line, index) => {
      setText(this.values[index], shown ? this.format(line.value(shown)) : "");
      const fill = colour(line.colour);
      if (this.swatches[index].style.color !== fill) this.swatches[index].style.color = fill;
    });
    if (!point) return;
    const x = Math.round(scale.x(point.t)) + 0.5;
    context.strokeStyle = colour("muted");
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, this.surface.height - BOTTOM);
    context.stroke();
    for (const line of this.lines) {
      const value = line.value(point);
      if (value === null || value === undefined) continue;
      context.fillStyle = colour(line.colour);
      context.beginPath();
      context.arc(x, scale.y(value), 3.5, 0, 7);
      context.fill();
    }
  }

  /** The chart in words; not every second, which a screen reader would have to follow. */
  describe() {
    const now = Date.now();
    if (now - this.described < DESCRIBED_EVERY) return;
    this.described = now;
    const words = this.lines.map((line, index) => `${line.name} ${this.values[index].textContent || "unknown"}`);
    set(
      this.canvas,
      "aria-label",
      `${this.title}: ${words.join(", ")}${this.when.textContent ? ` at ${this.when.textContent}` : ""}. Arrow keys show earlier values.`,
    );
  }
}
