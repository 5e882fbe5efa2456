// What the address says behind its #: the view, what it is about, and fields. A link shows the
// same view to its reader; the API token is no part of it.

// `#lock/deploy%2Fprod?x=y` -> {view: "lock", name: "deploy/prod", fields: {x: "y"}}
export function readState() {
  const [place, query] = location.hash.slice(1).split("?");
  const [view, name] = place.split("/");
  let plain;
  try {
    plain = name && decodeURIComponent(name);
  } catch {
    plain = undefined;
  }
  return {view, name: plain, fields: Object.fromEntries(new URLSearchParams(query))};
}

export function link(view, name, fields = {}) {
  const given = Object.entries(fields).filter(([, value]) => value);
  const end = new URLSearchParams(given).toString();
  return "#" + view + (name ? "/" + encodeURIComponent(name) : "") + (end && "?" + end);
}
