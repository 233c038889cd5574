// TensorBoard's entry: it imports this module into the tab's frame and calls render(). The viewer itself is the same
// classic scripts as everywhere, those of index.html, in their order.
function add(tag, attributes) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement(tag), attributes, { onload: resolve, onerror: reject });
    document.head.append(element);
  });
}

export async function render() {
  document.documentElement.lang = "en";
  document.title = "Episodes";
  if (window.frameElement) window.frameElement.title = "Episodes";
  const viewer = Object.assign(document.createElement("div"), { id: "viewer" });
  document.body.append(viewer);
  add("link", { rel: "preload", href: "data/first.json", as: "fetch", crossOrigin: "anonymous" }).catch(() => {});
  const page = new DOMParser().parseFromString(await (await fetch("static/index.html")).text(), "text/html");
  const files = (selector, attribute) =>
    [...page.querySelectorAll(selector)].map((element) => element.getAttribute(attribute));
  const scripts = files("script", "src").filter((name) => !name.endsWith("/start.js"));
  const styles = files("link[rel=stylesheet]", "href").map((href) => add("link", { rel: "stylesheet", href }));
  await Promise.all([...styles, ...scripts.map((src) => add("script", { src, async: false }))]);
  const tm = window.tuneMedia;
  tm.app.start(viewer, tm.hosts.serverSource({ live: false }), tm.hosts.tensorBoardHost());
}
