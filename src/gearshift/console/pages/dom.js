// Builds and updates DOM nodes. Text only ever becomes text: nothing here parses HTML.
const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: `h("a", {href: "/topics"}, "Topics")`; attributes that are functions become listeners. */
export function h(tag, attrs, ...children) {
  return filled(document.createElement(tag), attrs, children);
}

/** An SVG element. */
export function s(tag, attrs, ...children) {
  return filled(document.createElementNS(SVG, tag), attrs, children);
}

function filled(node, attrs, children) {
  for (const name in attrs) set(node, name, attrs[name]);
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

/** Sets an attribute, a listener, a property `value` or `checked`, or styles through CSSOM, which the CSP allows. */
export function set(node, name, value) {
  if (typeof value === "function") {
    node.addEventListener(name.slice(2), value);
  } else if (name === "style") {
    for (const property in value) node.style.setProperty(property, value[property]);
  } else if (name === "value" || name === "checked") {
    node[name] = value ?? "";
  } else if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (name === "href" && !isOwn(String(value))) {
    return; // a link that comes with data must not leave the console or run a script
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

function isOwn(href) {
  return /^(\/(?![/\\])|#|blob:)/.test(href);
}

/** Sets the text of an element that has only text, if it differs. */
export function setText(node, text) {
  const value = text === null || text === undefined ? "" : String(text);
  const first = node.firstChild;
  if (first !== null && first.nodeType === Node.TEXT_NODE && first.nextSibling === null) {
    if (first.data !== value) first.data = value;
  } else if (first !== null || value !== "") {
    node.textContent = value;
  }
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

const known = new WeakMap();

/** Makes the children of `parent` those of `items`: nodes of known keys are updated and kept. */
export function keyed(parent, items, keyOf, create, update) {
  let nodes = known.get(parent);
  if (nodes === undefined) known.set(parent, (nodes = new Map()));
  const wanted = new Map();
  for (const item of items) wanted.set(keyOf(item), item);
  for (const [key, node] of nodes) {
    if (!wanted.has(key)) {
      node.remove();
      nodes.delete(key);
    }
  }
  let at = parent.firstChild;
  for (const [key, item] of wanted) {
    let node = nodes.get(key);
    if (node === undefined) nodes.set(key, (node = create(item)));
    if (update !== undefined) update(node, item);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
}

let ids = 0;

/** An id that no other element has, for labels and descriptions. */
export function newId() {
  ids += 1;
  return `g${ids}`;
}
