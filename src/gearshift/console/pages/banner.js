// The line on top of every page while the server does not answer, or does not let this browser in.
import { connection, onConnection } from "./connection.js";
import { fill, h } from "./dom.js";
import { clock } from "./format.js";

export function showBanner(node) {
  onConnection((state) => {
    node.className = state;
    if (state === "gone") {
      fill(node, h("p", {}, `The app does not answer since ${clock(connection.since)}; trying again`));
    } else if (state === "locked") {
      fill(
        node,
        h(
          "p",
          {},
          h("b", {}, "This browser has no access to the console. "),
          "Open the URL that ",
          h("code", {}, "gearshift run"),
          " printed, or run ",
          h("code", {}, "gearshift console"),
          ". This page continues by itself.",
        ),
      );
    } else {
      fill(node);
    }
  });
}
