// TensorBoard's entry: it imports this module into the tab's frame and calls render(). The viewer itself is the same
// classic scripts as everywhere, in the order of index.html.
const SCRIPTS = [
  "vendor/htm-preact.js", "vendor/uPlot.js", "filter.js", "model.js", "player.js", "episode_columns.js", "hosts.js", "ui.js", "steps.js",
  "timeline.js", "config.js", "live.js", "table.js", "configurations.js", "grid.js", "charts.js", "curves.js", "importance.js", "scatter.js", "parallel.js", "failures.js", "pins.js", "trial.js", "clip.js",
  "compare.js", "tape.js", "episodes.js", "bars.js", "keys.js", "app.js",
];

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
  const styles = ["vendor/uPlot.css", "style.css"].map((name) => add("link", { rel: "stylesheet", href: `static/${name}` }));
  await Promise.all([...styles, ...SCRIPTS.map((name) => add("script", { src: `static/${name}`, async: false }))]);
  const tm = window.tuneMedia;
  tm.app.start(viewer, tm.hosts.serverSource({ live: false }), tm.hosts.tensorBoardHost());
}
