// Small icons as SVG, which look the same with every font.
import { s } from "./dom.js";

const PATHS = {
  batch: "M2 3h12v3H2zM2 8h12v2H2zM2 12h12v1.5H2z",
  "near-real-time": "M2 3l5 5-5 5zM8.5 3l5 5-5 5z",
  "real-time": "M9.5 1L3 9.2h4L6.2 15 13 6.6H8.6z",
  ok: "M8 1a7 7 0 100 14A7 7 0 008 1zm3.4 5.2L7.2 11 4.5 8.3l1-1 1.6 1.6 3.2-3.7z",
  error:
    "M8 1a7 7 0 100 14A7 7 0 008 1zm2.8 8.7l-1.1 1.1L8 9.1l-1.7 1.7-1.1-1.1L6.9 8 5.2 6.3l1.1-1.1L8 6.9l1.7-1.7 1.1 1.1L9.1 8z",
  warning: "M8 1.2L15.4 14H.6zM7.2 6v4h1.6V6zm0 5v1.5h1.6V11z",
  idle: "M8 1a7 7 0 100 14A7 7 0 008 1zm-.8 3h1.6v3.7l2.6 1.6-.8 1.3-3.4-2.1z",
  off: "M8 1a7 7 0 100 14A7 7 0 008 1zM5.4 5.4h5.2v5.2H5.4z",
  topic: "M2 4h12v2H2zM2 7.2h9v2H2zM2 10.4h11v2H2z",
  table: "M1.5 2.5h13v11h-13zM3 6v2.2h3.4V6zm5 0v2.2h5V6zM3 9.8V12h3.4V9.8zm5 0V12h5V9.8z",
  source: "M8 1.5A6.5 6.5 0 108 14.5 6.5 6.5 0 008 1.5zM8 5l4 3-4 3V9H4V7h4z",
  capture:
    "M8 1.5c3.3 0 6 1 6 2.3v8.4c0 1.3-2.7 2.3-6 2.3s-6-1-6-2.3V3.8c0-1.3 2.7-2.3 6-2.3zM3.5 6.200v1.500c1 .7 2.7 1.1 4.5 1.100s3.5-.4 4.5-1.100V6.200A11 11 0 018 7c-1.7 0-3.3-.3-4.5-.8z",
  delivery: "M1.5 7.500L14.5 2 10.5 14 7.6 9.300zM7 10.200l1.4 2.300L6.5 14z",
  destination:
    "M8 1.500a5 5 0 00-5 5c0 3.7 5 8 5 8s5-4.3 5-8a5 5 0 00-5-5zm0 3.200a1.8 1.8 0 110 3.6 1.8 1.8 0 010-3.600z",
  theme: "M8 1.500a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM8 3v10A5 5 0 018 3z",
  menu: "M2 3.500h12v1.700H2zM2 7.200h12v1.700H2zM2 10.900h12v1.700H2z",
  lock: "M5 7V5a3 3 0 016 0v2h1v7H4V7zm1.5 0h3V5a1.5 1.5 0 00-3 0z",
};

export function icon(name) {
  return s(
    "svg",
    { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" },
    s("path", { d: PATHS[name] ?? PATHS.idle, "fill-rule": "evenodd" }),
  );
}

/** Changes which icon an icon element shows. */
export function setIcon(node, name) {
  const path = PATHS[name] ?? PATHS.idle;
  if (node.firstChild.getAttribute("d") !== path) {
    node.firstChild.setAttribute("d", path);
    node.setAttribute("class", `icon icon-${name}`);
  }
}
