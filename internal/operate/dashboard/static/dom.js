// Building and updating the page. Texts become text nodes and nothing else: whatever a client or a server sent is never HTML.

/** h creates an element. Attributes whose value is null, undefined or false are left out; on_NAME is a listener. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on_")) node.addEventListener(name.slice(3), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** byId returns the element with an id of index.html. */
export const byId = (id) => document.getElementById(id);

/** text sets an element's text, if it differs: a text that stays keeps the user's selection. */
export function text(node, value) {
  const wanted = value === null || value === undefined ? "" : String(value);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** marked sets an element's text, and shows what is between two backticks as code. */
export function marked(node, value) {
  const parts = (value ?? "").split("`");
  if (parts.length % 2 === 0) return text(node, value);
  if (node.textContent !== parts.join("")) node.replaceChildren(...parts.map((part, i) => i % 2 ? h("code", {}, part) : part));
}

/** attribute sets or, for null, removes an attribute, if it differs. */
export function attribute(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

const lists = new WeakMap(); // parent -> rows by key

/**
 * keyed makes the children of parent show items. create(item) returns a row, an object with a node; update(row, item) shows the item.
 * Rows are kept by key. They are not moved while held, or while one of them has the focus or an open menu: nothing jumps away from
 * under the user's hand.
 */
export function keyed(parent, items, keyOf, create, update, held = false) {
  let rows = lists.get(parent);
  if (!rows) lists.set(parent, rows = new Map());
  const seen = new Set();
  for (const item of items) {
    const key = keyOf(item);
    let row = rows.get(key);
    if (!row) {
      row = create(item);
      rows.set(key, row);
      parent.append(row.node);
    }
    update(row, item);
    seen.add(key);
  }
  for (const [key, row] of rows) {
    if (seen.has(key)) continue;
    row.node.remove();
    rows.delete(key);
  }
  if (held || parent.matches(":focus-within") || parent.querySelector("details[open]")) return;
  let next = parent.firstChild;
  for (const item of items) {
    const { node } = rows.get(keyOf(item));
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/** cell creates a table cell. On a narrow screen, where the table's head is hidden, its label stands before it. */
export function cell(label, className = "", ...children) {
  return h("td", { class: className || null, "data-label": label }, ...children);
}

/** empty shows one row that says why a table has no rows, or takes it away. */
export function empty(body, columns, message) {
  let row = body.parentNode.querySelector(":scope > tbody.none");
  if (!message) {
    row?.remove();
    return;
  }
  if (!row) body.after(row = h("tbody", { class: "none" }, h("tr", {}, h("td", { colspan: columns }))));
  text(row.querySelector("td"), message);
}

/** menu creates a menu of buttons; entries returns [label, action, dangerous] for what can be done when it is opened. */
export function menu(label, entries) {
  const list = h("div", { class: "menu-list" });
  const node = h("details", { class: "menu" }, h("summary", { "aria-label": label }, "Actions"), list);
  node.addEventListener("toggle", () => {
    if (!node.open) return;
    list.replaceChildren(...entries().map(([name, action, danger]) => h("button", {
      type: "button", class: danger ? "danger" : null, on_click: () => { node.open = false; action(); },
    }, name)));
  });
  return node;
}

// A menu closes when the user goes elsewhere.
document.addEventListener("pointerdown", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(event.target)) open.open = false;
});
document.addEventListener("focusin", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(event.target)) open.open = false;
});

/** toast says for some seconds what was done. */
export function toast(message) {
  const node = h("p", { class: "toast" }, message);
  byId("toasts").append(node);
  setTimeout(() => node.remove(), 8000);
}
