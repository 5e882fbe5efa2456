// Elements, and how a new picture replaces the old one without losing the focus.

// `of` has attributes; `act`, what a click does; `time`, see tick(). Children are elements, and
// texts, which never become markup.
export function h(name, of, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(of || {})) {
    if (key === "act" || key === "time")
      element[key] = value;
    else if (value !== undefined && value !== false)
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== undefined &&
    child !== null && child !== false));
  return element;
}

export function svg(name, of, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(of))
    element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A text that a client has chosen: its direction does not change that of the text around it.
export function foreign(text, of) {
  return h("bdi", {class: "foreign", ...of}, text);
}

export function table(caption, heads, rows, none) {
  if (rows.length === 0)
    return h("div", null, h("h2", null, caption), h("p", null, none));
  return h("table", null, h("caption", null, caption),
    h("thead", null, h("tr", null, heads.map(head => h("th", {scope: "col"}, head)))),
    h("tbody", null, rows.map(({key, cells: [first, ...others]}) =>
      h("tr", {"data-key": key}, h("th", {scope: "row"}, first),
        others.map((cell, i) => h("td", {"data-label": heads[i + 1]},
          isShown(cell) && h("div", null, cell)))))));
}

function isShown(cell) {
  return Array.isArray(cell) ? cell.some(isShown) : cell !== undefined && cell !== null &&
    cell !== false && cell !== "";
}

export function facts(pairs) {
  return h("dl", null, pairs.filter(([, told]) => told !== undefined && told !== "")
    .map(([what, told]) => [h("dt", null, what), h("dd", null, told)]));
}

// --- times

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// The two largest units: "2 h 5 min".
export function duration(ms) {
  let s = Math.max(0, Math.round(ms / 1000));
  const first = UNITS.findIndex(([, size]) => s >= size);
  if (first < 0)
    return "0 s";
  return UNITS.slice(first, first + 2).map(([unit, size]) => {
    const count = Math.floor(s / size);
    s -= count * size;
    return count > 0 ? `${count} ${unit}` : "";
  }).filter(Boolean).join(" ");
}

// A time that goes on between two pictures: +1, since something began; -1, until it ends.
function running(ms, way, words = "") {
  if (ms === undefined)
    return undefined;
  const when = new Date(Date.now() - way * ms);
  // A lease of a Java client may end after the last day that a Date has.
  const isDate = !Number.isNaN(when.getTime());
  return h("time", {class: "time", datetime: isDate && when.toISOString(),
    title: isDate && when.toLocaleString(), time: {ms, way, words, at: performance.now()}},
  words + duration(ms));
}

export const since = (ms, atLeast) => running(ms, 1, atLeast ? "at least " : "");
export const until = ms => running(ms, -1);

export function tick() {
  for (const element of document.querySelectorAll("time.time")) {
    const {ms, way, words, at} = element.time;
    const text = words + duration(ms + way * (performance.now() - at));
    if (element.textContent !== text)
      element.firstChild.data = text;
  }
}

// --- the new picture

function keyOf(node) {
  return node.dataset?.key;
}

function copyOwn(from, to) {
  for (const {name} of [...to.attributes])
    if (!from.hasAttribute(name))
      to.removeAttribute(name);
  for (const {name, value} of from.attributes)
    if (to.getAttribute(name) !== value)
      to.setAttribute(name, value);
  to.act = from.act;
  to.time = from.time;
}

function isAlike(a, b) {
  return a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

// Makes the children of `old` like those of `next`, and keeps every element that is in both:
// rows by their data-key.
export function morph(old, next) {
  const keyed = new Map([...old.childNodes].filter(keyOf).map(node => [keyOf(node), node]));
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const found = keyOf(wanted) !== undefined ? keyed.get(keyOf(wanted)) : at;
    keyed.delete(keyOf(wanted)); // for one alone, if another one has the same key
    if (!found || !isAlike(found, wanted)) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (found !== at)
      old.insertBefore(found, at);
    else
      at = at.nextSibling;
    if (found.nodeType === Node.ELEMENT_NODE) {
      copyOwn(wanted, found);
      morph(found, wanted);
    } else if (found.data !== wanted.data) {
      found.data = wanted.data;
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
