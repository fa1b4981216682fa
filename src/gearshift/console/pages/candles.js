// Candles of prices with their volume.
import { Surface, drawGrid, scales, valueTicks, LEFT, TOP, BOTTOM } from "./axes.js";
import { inFrame, notInFrame } from "./animation-frame.js";
import { h, set, setText } from "./dom.js";
import { clock, count } from "./format.js";
import { colour, onTheme } from "./palette.js";

const MOST = 240;
const price = (value) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: 2 });

export class CandleChart {
  constructor(page, title) {
    this.title = title;
    this.bars = [];
    this.hover = null;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": title, style: { height: "230px" } });
    this.words = h("p", { class: "legend" });
    this.node = h("div", { class: "chart" }, this.words, this.canvas);
    this.draw = this.draw.bind(this);
    this.surface = new Surface(this.canvas, () => inFrame(this.draw));
    const endTheme = onTheme(() => inFrame(this.draw));
    page.onLeave(() => {
      this.surface.close();
      endTheme();
      notInFrame(this.draw);
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(Math.floor((event.offsetX - LEFT) / this.step)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      this.point((this.hover ?? this.bars.length) + move);
    });
  }

  point(index) {
    this.hover = index === null || this.bars.length === 0 ? null : Math.max(0, Math.min(this.bars.length - 1, index));
    inFrame(this.draw);
  }

  show(bars) {
    this.bars = bars.slice(-MOST).map((bar) => ({ ...bar, t: Date.parse(bar.at) }));
    if (this.hover !== null) this.hover = Math.min(this.hover, this.bars.length - 1);
    inFrame(this.draw);
  }

  draw() {
    const { bars, surface } = this;
    if (surface.width === 0 || bars.length === 0) return;
    const context = surface.begin();
    const least = Math.min(...bars.map((bar) => bar.low));
    const most = Math.max(...bars.map((bar) => bar.high));
    const ticks = valueTicks(least, most);
    const width = (bars[bars.length - 1].t - bars[0].t) / Math.max(1, bars.length - 1) || 60_000;
    const scale = scales(surface, bars[0].t, bars[bars.length - 1].t + width, ticks[0], ticks[ticks.length - 1]);
    this.step = scale.across / bars.length;
    drawGrid(context, surface, scale, ticks, price);
    const largest = Math.max(1, ...bars.map((bar) => bar.volume ?? 0));
    const body = Math.max(1, Math.min(14, this.step * 0.64));
    bars.forEach((bar, index) => {
      const x = LEFT + (index + 0.5) * this.step;
      const isUp = bar.close >= bar.open;
      context.fillStyle = colour("line");
      const volume = ((bar.volume ?? 0) / largest) * scale.down * 0.2;
      context.fillRect(x - body / 2, TOP + scale.down - volume, body, volume);
      context.strokeStyle = context.fillStyle = colour(isUp ? "ok" : "error");
      context.beginPath();
      context.moveTo(x, scale.y(bar.high));
      context.lineTo(x, scale.y(bar.low));
      context.stroke();
      const top = scale.y(Math.max(bar.open, bar.close));
      const height = Math.max(1, Math.abs(scale.y(bar.open) - scale.y(bar.close)));
      // Hollow means up: not by colour alone.
      if (isUp && body > 3) {
        context.fillStyle = colour("surface");
        context.fillRect(x - body / 2, top, body, height);
        context.strokeRect(x - body / 2, top, body, height);
      } else context.fillRect(x - body / 2, top, body, height);
    });
    this.drawHover(context);
  }

  drawHover(context) {
    const bar = this.bars[this.hover ?? this.bars.length - 1];
    const words = `${clock(new Date(bar.t))}  open ${price(bar.open)}  high ${price(bar.high)}  low ${price(bar.low)}  close ${price(bar.close)}  volume ${count(bar.volume)}`;
    setText(this.words, words);
    set(this.canvas, "aria-label", `${this.title}: candles. Arrow keys show each bar.`);
    if (this.hover === null) return;
    const x = Math.round(LEFT + (this.hover + 0.5) * this.step) + 0.5;
    context.strokeStyle = colour("muted");
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, this.surface.height - BOTTOM);
    context.stroke();
  }
}
