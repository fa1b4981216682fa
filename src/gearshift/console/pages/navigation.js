// The top line and the menu: pages with the counts of what is wrong, pipelines with their gears, boards.
import { get, path } from "./api.js";
import { connection, onConnection } from "./connection.js";
import { fill, h, keyed, set, setHidden, setText } from "./dom.js";
import { visible } from "./format.js";
import { icon, setIcon } from "./icons.js";
import { live, subscribe, subscribeInfo } from "./live.js";
import { levelOf } from "./state.js";
import { themeToggle } from "./theme-toggle.js";

const PAGES = [
  ["/", "Overview"],
  ["/topics", "Topics"],
  ["/groups", "Consumer groups"],
  ["/dead-letters", "Dead letters"],
  ["/schemas", "Schemas"],
  ["/connectors", "Connectors"],
  ["/tables", "Tables"],
  ["/calendar", "Calendar"],
];
const LETTERS_EVERY = 60_000;

export class Navigation {
  constructor(top, nav) {
    this.nav = nav;
    this.app = h("span", { class: "app-name" });
    this.readOnly = h("span", { class: "read-only", hidden: true }, icon("lock"), " read-only");
    this.connection = h("span", { class: "connection", role: "status", "aria-live": "polite" }, "connecting");
    this.menu = h(
      "button",
      {
        type: "button",
        class: "quiet menu",
        "aria-expanded": "false",
        "aria-controls": "nav",
        onclick: () => this.toggle(),
      },
      icon("menu"),
      " Menu",
    );
    fill(
      top,
      this.menu,
      h("a", { href: "/", class: "brand" }, h("b", {}, "Gearshift"), this.app),
      this.readOnly,
      h("span", { class: "space" }),
      this.connection,
      themeToggle(),
    );
    this.counts = new Map();
    this.items = new Map(PAGES.map(([href, title]) => [href, this.item(href, title)]));
    this.pages = h("ul", {}, [...this.items.values()]);
    this.pipelines = h("ul", {});
    this.boards = h("ul", {});
    this.pipelinePart = h("div", { hidden: true }, h("h2", {}, "Pipelines"), this.pipelines);
    this.boardPart = h("div", { hidden: true }, h("h2", {}, "Boards"), this.boards);
    fill(nav, this.pages, this.boardPart, this.pipelinePart);
    subscribeInfo(() => this.showInfo());
    subscribe(() => this.showStatus());
    onConnection(() => this.showConnection());
    this.countLetters();
  }

  item(href, title) {
    const number = h("span", { class: "count", hidden: true });
    this.counts.set(href, number);
    return h("li", {}, h("a", { href }, h("span", {}, title), number));
  }

  toggle(open = this.menu.getAttribute("aria-expanded") !== "true") {
    set(this.menu, "aria-expanded", String(open));
    this.nav.classList.toggle("open", open);
  }

  /** Marks the link of the page that is shown, and closes the menu of a narrow screen. */
  mark(pathname) {
    this.toggle(false);
    for (const link of this.nav.querySelectorAll("a")) {
      const href = link.getAttribute("href");
      set(
        link,
        "aria-current",
        pathname === href ? "page" : href !== "/" && pathname.startsWith(`${href}/`) ? "true" : null,
      );
    }
  }

  showInfo() {
    const { app, boards, read_only: readOnly, graph } = live.info;
    setText(this.app, app === null ? "" : visible(app));
    setHidden(this.readOnly, !readOnly);
    setHidden(this.items.get("/calendar"), app === null);
    setHidden(this.boardPart, !boards?.length);
    keyed(
      this.boards,
      boards ?? [],
      (board) => board.name,
      (board) => h("li", {}, h("a", { href: path(["boards", board.name]) }, visible(board.title ?? board.name))),
    );
    setHidden(this.pipelinePart, !graph?.pipelines?.length);
    keyed(
      this.pipelines,
      graph?.pipelines ?? [],
      (each) => each.name,
      (each) => this.pipeline(each),
    );
    this.showConnection();
    this.mark(location.pathname);
  }

  pipeline(each) {
    const gear = icon(each.gear);
    const state = icon("idle");
    const words = h("span", { class: "hidden-text" });
    const node = h(
      "li",
      {},
      h(
        "a",
        { href: path(["pipelines", each.name]) },
        gear,
        h("span", { class: "name" }, visible(each.name)),
        state,
        words,
      ),
    );
    return Object.assign(node, { gear, state, words });
  }

  showStatus() {
    const status = new Map((live.status?.pipelines ?? []).map((each) => [each.name, each]));
    keyed(
      this.pipelines,
      live.info?.graph?.pipelines ?? [],
      (each) => each.name,
      (each) => this.pipeline(each),
      (node, each) => {
        const now = status.get(each.name);
        if (now === undefined) return;
        setIcon(node.gear, now.gear);
        set(node.gear, "class", `icon in-${now.gear}`);
        setIcon(node.state, levelOf(now.state));
        set(node.state, "class", `icon level-${levelOf(now.state)}`);
        setText(node.words, `, ${now.gear}, ${now.state}`);
      },
    );
    this.count("/", live.alerts.length, "alert");
  }

  count(href, number, noun) {
    const node = this.counts.get(href);
    setHidden(node, !number);
    setText(node, number ? String(number) : "");
    set(node, "aria-label", number ? `${number} ${noun}${number === 1 ? "" : "s"}` : null);
    if (number) set(node, "role", "img");
  }

  showConnection() {
    const words = {
      ok: live.info?.app === null ? "connected" : "live",
      gone: "no answer",
      locked: "no access",
      connecting: "connecting",
    };
    setText(this.connection, words[connection.state]);
    set(this.connection, "class", `connection is-${connection.state}`);
  }

  async countLetters() {
    if (!document.hidden && connection.state === "ok") {
      try {
        const topics = await get("/api/dead-letters");
        this.count(
          "/dead-letters",
          topics.reduce((sum, topic) => sum + (topic.open ?? 0), 0),
          "open dead letter",
        );
      } catch {
        // The page about dead letters says why; the menu only counts.
      }
    }
    setTimeout(() => this.countLetters(), connection.state === "ok" ? LETTERS_EVERY : 1000);
  }
}
