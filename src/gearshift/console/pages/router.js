// Which page a path shows. Links are plain links; the history API changes the page without loading it again.
import { h, fill, setText } from "./dom.js";
import { Page } from "./page.js";
import { problemBox } from "./problem.js";

export class Router {
  /** `routes`: [pattern, title, show], as in ["/topics/:topic", "Topic", showTopic]. */
  constructor(main, announcer, routes) {
    this.main = main;
    this.announcer = announcer;
    this.routes = routes.map(([pattern, title, show]) => ({ parts: split(pattern), title, show }));
    this.page = null;
    this.onShow = () => {};
  }

  start() {
    document.addEventListener("click", (event) => this.click(event));
    addEventListener("popstate", () => this.show({ focus: true }));
    this.show({ focus: false });
  }

  click(event) {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    const href = link?.getAttribute("href");
    if (!href?.startsWith("/") || link.hasAttribute("download") || link.target) return;
    event.preventDefault();
    this.go(href);
  }

  go(href) {
    if (href !== location.pathname + location.search) history.pushState(null, "", href);
    this.show({ focus: true });
    scrollTo(0, 0);
  }

  show({ focus }) {
    this.page?.leave();
    const root = h("div", { class: "page" });
    fill(this.main, root);
    const { route, parameters } = this.match(location.pathname);
    this.page = new Page(root, parameters, new URLSearchParams(location.search));
    const name = parameters[0];
    document.title = [name, route.title, "Gearshift"].filter(Boolean).join(" · ");
    try {
      route.show(this.page, ...parameters);
    } catch (failure) {
      console.warn(failure);
      fill(root, h("h1", {}, route.title), problemBox(failure));
    }
    this.onShow(location.pathname);
    if (focus) {
      this.main.focus({ preventScroll: true });
      setText(this.announcer, document.title);
    }
  }

  match(pathname) {
    const parts = split(pathname);
    for (const route of this.routes) {
      const parameters = fits(route.parts, parts);
      if (parameters !== null) return { route, parameters };
    }
    return { route: { title: "Not found", show: notFound }, parameters: [] };
  }
}

function split(pathname) {
  return pathname.split("/").filter(Boolean);
}

function fits(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const parameters = [];
  for (let index = 0; index < parts.length; index += 1) {
    if (pattern[index].startsWith(":")) {
      try {
        parameters.push(decodeURIComponent(parts[index]));
      } catch {
        return null;
      }
    } else if (pattern[index] !== parts[index]) return null;
  }
  return parameters;
}

function notFound(page) {
  page.root.append(
    h("h1", {}, "Not found"),
    h("p", {}, "The console has no such page. ", h("a", { href: "/" }, "Go to the overview")),
  );
}
