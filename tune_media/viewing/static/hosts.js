// Where the data come from (a server, or files on disk), and what TensorBoard tells a plugin.
(function (tm) {
  "use strict";

  const MOST_TRIALS = 200; // whose files a gallery reads for one chart

  /** Data from the server: TensorBoard's tab and `tune-media watch`. URLs are relative to the page. */
  function serverSource({ live }) {
    async function get(url, options) {
      const response = await fetch(url, options);
      if (!response.ok) throw new Error((await response.text()) || response.statusText);
      return response;
    }
    const json = async (url) => (await get(url)).json();
    const query = (values) => new URLSearchParams(values).toString();
    const seen = {};
    let ahead = 0; // milliseconds of this clock before the server's
    /** Return a page, or null if it is the one that was returned last. */
    async function changed(name) {
      const response = await get(`data/${name}.json?${query({ seen: seen[name] || "" })}`);
      const content = await response.json();
      ahead = Date.now() - (Date.parse(response.headers.get("Date")) || Date.now());
      seen[name] = (response.headers.get("ETag") || "").replace(/"/g, "");
      return content;
    }
    return {
      live,
      isServer: true,
      ahead: () => ahead,
      first: () => json("data/first.json"),
      index: () => changed("index"),
      metrics: () => changed("metrics"),
      episodes: (wanted) => json(`data/episodes.json?${query(wanted)}`),
      csvOfEpisodes: (wanted) => `data/episodes.csv?${query(wanted)}`,
      diskUse: () => json("data/disk.json"),
      curves: (metric, iqm) => json(`data/curves.json?${query({ metric, iqm: iqm ? "1" : "" })}`),
      configurations: ({ metric, section, mode }) =>
        json(`data/configurations.json?${query({ metric, section, mode })}`),
      trial: (trial) => json(`data/trial.json?${query({ trial: trial.id })}`),
      config: (trial) => json(`data/config.json?${query({ trial: trial.id })}`),
      clip: (clip) => json(`data/clip.json?${query({ trial: clip.trial.id, path: clip.path })}`),
      tape: (wanted) => json(`data/tape.json?${query(wanted)}`),
      play: async (wanted, token) => (await get(`data/play.json?${query(wanted)}`,
        { method: "POST", headers: { "X-Tune-Media": token } })).json(),
      played: (wanted) => json(`data/played.json?${query(wanted)}`),
    };
  }

  /** Data from a gallery's folder. A page from disk cannot fetch, so each file is a script; or all is in the page. */
  function filesSource() {
    const waiting = new Map();
    tm.deliver = (name, content) => waiting.get(name)?.(content);
    const loaded = new Map();
    const inside = document.getElementById("data");
    const { media, ...all } = inside ? JSON.parse(inside.textContent) : {};
    for (const [name, content] of Object.entries(all)) loaded.set(name, Promise.resolve({ ...content, media }));
    function load(name) {
      if (!loaded.has(name)) {
        loaded.set(name, new Promise((resolve, reject) => {
          waiting.set(name, resolve);
          const script = document.createElement("script");
          script.src = `data/${name}.js`;
          script.onerror = () => reject(new Error(`data/${name}.js is missing in this gallery`));
          document.head.append(script);
        }));
      }
      return loaded.get(name);
    }
    const details = (trial) => load(`trial-${trial.id}`);
    /** Return a metric of all trials over training from the files of the trials; null if these are many. */
    async function curvesOf(metric) {
      const { trials } = await load("index");
      if (trials.length > MOST_TRIALS) return null;
      const found = (await Promise.all(trials.map(details))).map(({ curves: { step, metrics } }) => {
        const values = new Map(Object.entries(metrics)).get(metric) || [];
        const rows = values.map((_, row) => row).filter((row) => values[row] != null);
        return { step: rows.map((row) => step[row]), value: rows.map((row) => values[row]) };
      });
      return { trials: trials.map(({ id }) => id), step: found.map(({ step }) => step),
        value: found.map(({ value }) => value), bands: [] };
    }
    return {
      live: false,
      first: () => load("first"),
      index: once(() => load("index")),
      metrics: once(() => load("metrics")),
      curves: async (metric, iqm) => {
        const found = new Map(Object.entries(await load("curves"))).get(metric);
        return found ? { ...found, bands: iqm ? found.iqm : found.bands } : curvesOf(metric);
      },
      configurations: async ({ key }) => new Map(Object.entries(await load("configurations"))).get(key) || null,
      trial: async (trial) => (await details(trial)).curves,
      config: async (trial) => (await details(trial)).config,
      clip: async (clip) => (await details(clip.trial)).clips[clip.path] || { record: {}, series: {} },
    };
  }

  /** Return a function that has a value at the first call, and null afterwards: the files do not change. */
  const once = (read, calls = 0) => async () => (calls++ ? null : read());

  /** Return what an action returns; the fallback if it raises, as storage does that the browser refuses. */
  function attempt(action, fallback) {
    try {
      return action() ?? fallback;
    } catch (error) {
      return fallback;
    }
  }

  /** A page of its own: the link is in the address, the theme is the system's unless the user chose one. */
  function pageHost() {
    return {
      name: "page",
      /** Return the link. The token that plays tapes is taken out of the address: this tab keeps it, no link has it. */
      readLink() {
        const [part, token] = location.hash.match(/^#token=([^&]*)&?/) || [];
        if (part) {
          attempt(() => sessionStorage.setItem("token", token));
          history.replaceState(null, "", `#${location.hash.slice(part.length)}`);
        }
        return location.hash.slice(1);
      },
      token: () => attempt(() => sessionStorage.getItem("token"), ""),
      writeLink(link, replace) {
        const url = `#${link}`;
        if (url === location.hash) return;
        if (replace) history.replaceState(null, "", url);
        else history.pushState(null, "", url);
      },
      onLink(listener) {
        addEventListener("popstate", listener);
      },
      address: () => location.href,
      isDark: () => matchMedia("(prefers-color-scheme: dark)").matches,
      onTheme: (listener) => matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener),
      onReload() {},
      colorOf: () => null,
      isSelected: () => true,
      onSelection() {},
      onShown() {},
    };
  }

  /**
   * TensorBoard. Its plugin API tells of reloads only; everything else is read from its page, each with a fallback,
   * since none of it is promised: the theme is a class of its body, the selected runs stand in the address of the tabs
   * that have a run selector, the colours come from that selector, and links are a parameter of its hash.
   */
  function tensorBoardHost() {
    const PARAMETER = "p.episodes.link";
    const outer = window.parent;
    const hash = () => attempt(() => outer.location.hash.slice(1), "");
    const parts = () => hash().split("&").map((part) => part.split("="));
    const selection = () => attempt(() => {
      const encoded = parts().find(([name]) => name === "runSelectionState");
      return encoded ? JSON.parse(atob(decodeURIComponent(encoded[1]))) : {};
    }, {});
    const coloring = () => attempt(() => outer.document.createElement("tf-runs-selector").coloring, null);
    return {
      name: "tensorboard",
      readLink: () => decodeURIComponent((parts().find(([name]) => name === PARAMETER) || [])[1] || ""),
      writeLink(link, replace) {
        const others = hash().split("&").filter((part) => part && !part.startsWith(`${PARAMETER}=`));
        if (others[0] !== "episodes") return; // another tab is shown
        const url = (own) => `#${[...others, `${PARAMETER}=${encodeURIComponent(own)}`].join("&")}`;
        if (url(link) === outer.location.hash) return;
        const write = (how, own) => attempt(() => outer.history[how](outer.history.state, "", url(own)));
        if (!replace && others.length === parts().length) write("replaceState", ""); // Back returns to the first view
        write(replace ? "replaceState" : "pushState", link);
      },
      onLink: (listener) => attempt(() => outer.addEventListener("hashchange", () => {
        const [[tab]] = parts();
        if (tab === "episodes" && parts().some(([name]) => name === PARAMETER)) listener();
      })),
      address: () => attempt(() => outer.location.href, location.href),
      isDark: () => attempt(() => outer.document.body.classList.contains("dark-mode"), false),
      onTheme: (listener) => attempt(() => {
        new MutationObserver(listener).observe(outer.document.body, { attributes: true, attributeFilter: ["class"] });
      }),
      onReload: (listener) => attempt(() => listenToReloads(listener)),
      colorOf(run) {
        const color = attempt(() => coloring().getColor(run), null);
        return /^(#|rgb)/.test(color || "") ? color : null;
      },
      /** A run is hidden only if the user unticked it; TensorBoard itself selects none of many runs. */
      isSelected(run) {
        return selection()[run] !== false;
      },
      onSelection: (listener) => attempt(() => outer.addEventListener("hashchange", listener)),
      /** Keys reach a frame only if it has the focus. */
      onShown: () => window.focus(),
    };
  }

  /** Listen to TensorBoard's messages to plugins: a port, JSON, and an answer to each message. */
  function listenToReloads(listener) {
    const channel = new MessageChannel();
    channel.port1.onmessage = (event) => {
      const { type, id, isReply } = JSON.parse(event.data);
      if (isReply) return;
      channel.port1.postMessage(JSON.stringify({ type, id, payload: null, error: null, isReply: true }));
      if (type === "experimental.DataReloaded" || type === "experimental.RunsChanged") listener();
    };
    window.parent.postMessage("experimental.bootstrap", "*", [channel.port2]);
    return channel;
  }

  tm.hosts = { attempt, serverSource, filesSource, pageHost, tensorBoardHost };
})((window.tuneMedia = window.tuneMedia || {}));
