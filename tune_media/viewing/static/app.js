// The application: its state (which is the link), loading and reloading, and what the views may ask of it.
(function (tm) {
  "use strict";

  const { html } = tm.ui;
  const { render, Component } = window.htmPreact;
  const model = tm.model;
  const { wait } = tm.player;

  const POLL_MS = 5000;
  const READING_MS = 1000; // between two looks at trials that the server still reads; later up to twice as long
  const FIRST_PICTURE_MS = 3000; // the rest of the data waits for the first picture, but not longer
  const SLOW_MS = 8000; // of a long message
  const LEFT_FROM = ".card, .to-episodes, .tray .primary"; // what leads from the grid to another view
  const SETTINGS = "tune_media.viewer";
  const DEFAULTS = {
    view: "grid", section: "", key: "", step: "last", sort: "score", descending: true, score: "", smaller: false,
    filter: "", trial: "", clip: "", frame: 0, size: 280, cards: "", chart: true, brush: "", params: false, axes: "",
    ticked: "", compared: "", seed: "", lines: "", terms: "", where: "", order: "", hidden: "", orderDown: true,
    columns: "", folded: "", iqm: false,
  };
  const LINKED = Object.keys(DEFAULTS).filter((name) => name !== "size");

  class App extends Component {
    constructor(props) {
      super(props);
      this.source = props.source;
      this.host = props.host;
      this.group = new tm.player.Group();
      this.tapes = new tm.tape.Tapes(this);
      this.data = null;
      this.problem = null;
      this.reading = null; // [trials that the server has read, trials that there are], until it has read all
      this.settings = tm.hosts.attempt(() => JSON.parse(localStorage.getItem(SETTINGS)), {});
      this.state = { ...DEFAULTS, size: this.settings.size || DEFAULTS.size, menu: false, more: false,
        dialog: null, toast: "" };
      this.touched = false;
      const held = ["scale", "steps", "ranked", "asked", "curves", "isToldApart", "titles"];
      this.held = Object.fromEntries(held.map((name) => [name, model.memo()]));
      this.curves = null; // the score of all trials over training
      this.judged = null; // the configurations, see model.decodeConfigurations
      this.group.alone = Boolean(this.settings.alone);
      this.group.onSlow = (count) => this.tellSlow(count);
    }

    get theme() {
      return this.settings.theme || (this.host.isDark() ? "dark" : "light");
    }

    async componentDidMount() {
      tm.app.instance = this;
      this.showTheme();
      this.host.onTheme(() => this.showTheme());
      this.host.onLink(() => this.readLink());
      this.host.onReload(() => this.reload());
      this.host.onSelection(() => this.forceUpdate());
      addEventListener("keydown", (event) => tm.keys.onKey(this, event));
      this.watchVisibility();
      await this.load();
      if (this.source.live) setInterval(() => document.hidden || this.reload(), POLL_MS);
    }

    /** Pause while the page is hidden behind another browser tab, or another tab of TensorBoard. */
    watchVisibility() {
      let onScreen = true;
      const tell = () => this.group.suspend(document.hidden || !onScreen);
      document.addEventListener("visibilitychange", tell);
      tm.ui.sight.onPage = (isOnScreen) => {
        if (isOnScreen && !onScreen) this.host.onShown();
        onScreen = isOnScreen;
        tell();
      };
      this.host.onShown();
    }

    /** Show the first view from a part of the data, then read all. A link to something else waits for all. */
    async load() {
      const link = new URLSearchParams(this.host.readLink());
      const inPart = !link.has("view") && link.get("cards") !== "table"
        && ["last", "best"].includes(link.get("step") || "last");
      await this.attempt(() => this.readFirst(inPart, inPart && !link.size));
      this.reading = null;
      if (this.data && this.hasClips) await Promise.race([tm.ui.firstPicture, wait(FIRST_PICTURE_MS)]);
      this.hasPicture = true;
      await this.reload();
      this.forceUpdate();
    }

    /**
     * Read the part of the data for the first view. While the server reads the trials for the first time, show its
     * progress, and the trials that it has read; not for a link, which may name a trial that is not there yet.
     */
    async readFirst(isWanted, mayBePart) {
      for (let pause = READING_MS; ; pause = Math.min(2 * READING_MS, 1.5 * pause)) {
        const found = await this.source.first();
        this.reading = found.reading || null;
        const part = (this.reading ? mayBePart : isWanted) && model.decode(found);
        if (part && this.knowsScore(part)) this.setData(part);
        else this.forceUpdate();
        if (!this.reading) return;
        await wait(pause);
      }
    }

    /** Say whether data have the score that the link names: another one would show other numbers for a moment. */
    knowsScore({ metricNames }) {
      const { score } = this.linkedScore();
      return !score || score === model.CLIP_SCORE || metricNames.includes(score);
    }

    /** Read the clips and the metrics again, if they have changed. */
    reload() {
      this.reloads = this.reloads || this.attempt(() => this.read()).finally(() => { this.reloads = null; });
      return this.reloads;
    }

    async read() {
      const [payload, metrics] = await Promise.all([this.source.index(), this.source.metrics()]);
      if (metrics) this.metrics = metrics;
      if (!payload && !metrics) return;
      const data = payload ? model.decode(payload) : this.data;
      if (this.metrics && (payload || metrics)) model.addMetrics(data, this.metrics);
      this.setData(data);
    }

    /** Do something with the server; if it fails, say so on the page. */
    async attempt(work) {
      const before = this.problem;
      try {
        await work();
        this.problem = null;
      } catch (error) {
        this.problem = error.message;
      }
      if (this.problem !== before) this.forceUpdate();
    }

    setData(data) {
      const isFirst = !this.data;
      if (this.state.view === "clip" && this.clip) this.watched = this.clip; // it stays, even if its files are deleted
      this.data = data;
      if (isFirst) this.begin();
      else this.refresh();
    }

    begin() {
      this.readLink(() => {
        const { state } = this;
        const clip = state.view === "clip" ? this.clip
          : state.view === "compare" ? tm.compare.rowsOf(this).rows[0]?.clip : null;
        if (state.frame && clip) this.group.time = state.frame / (clip.fps || 30);
        else if (!tm.ui.isCalm()) tm.ui.allLoad.then(() => setTimeout(() => this.group.play())); // all together
      });
    }

    /** Take the state from the link; whatever it does not say is as at the start. */
    readLink(then) {
      const found = new URLSearchParams(this.host.readLink());
      const read = (name) => (found.has(name) ? parse(name, found.get(name)) : DEFAULTS[name]);
      const state = Object.fromEntries(LINKED.map((name) => [name, read(name)]));
      this.setState(this.complete(state), then);
    }

    /** Fill in what depends on the data: the section, the key and the score; then rank the trials by it. */
    complete(state) {
      if (!this.data) return state;
      const { sections } = this.data;
      if (!sections[state.section]) state.section = Object.keys(sections)[0] || "";
      const keys = sections[state.section] || [];
      if (!keys.includes(state.key)) state.key = keys[0] || "";
      const scores = model.scoresOf(this.data);
      if (!scores.includes(state.score)) {
        state.score = model.firstScore(scores);
        state.smaller = model.isSmallerBetter(state.score);
        if (state.sort === "score") state.descending = !state.smaller;
      }
      if (state.view === "episodes" && !this.source.episodes) state.view = "grid";
      const isThere = (name) => this.data.named.has(name);
      if (state.view !== "compare") state.compared = ""; // a comparison that a button opened has ended
      if (state.view === "compare" && !tm.compare.picksOf(this, state).length) state.view = "grid";
      if (!["grid", "episodes", "compare"].includes(state.view) && !isThere(state.trial)) state.view = "grid";
      if (this.data.gate && ["grid", "trial"].includes(state.view)) state.view = "gate"; // of no training
      this.rank(state);
      this.readConfigurations(state);
      return state;
    }

    /** Rank the trials, if that was not done for these data and this score already. */
    rank({ score, section, smaller }) {
      const parts = [this.data, this.data.metricsAt, score, section, smaller];
      this.held.ranked(parts, () => model.rank(this.data.trials, score, section, smaller) || parts);
    }

    /** Let titles begin with what differs most among the trials that the filter lets through. */
    arrange() {
      const { data, judged, curves, state: { filter, brush } } = this;
      this.held.titles([data, data.metricsAt, judged, curves, filter, brush], () => {
        const shown = new Set(tm.grid.gridRows(this).rows.map(({ trial }) => trial));
        const isShown = (one) => one.trials.some((trial) => shown.has(trial));
        model.arrange(data.trials, [...shown], data.params, judged?.names);
        if (judged) model.arrange(judged.all, judged.all.filter(isShown), judged.names);
      });
    }

    /** The run that stands for the best configuration, as the server says; null if there is none, or not yet. */
    get winner() {
      const { judged, judgedAs, data, state } = this;
      if (!judged || data.trials.length < 2 || judgedAs.key !== this.comparison(state).key) return null;
      return judged.all.find((one) => one.rank === 1)?.typical || null;
    }

    refresh() {
      const chosen = this.touched ? {} : this.linkedScore();
      this.setState((state) => this.complete({ ...state, ...chosen }));
    }

    /** The score of the link and its better end; without one, the best score is chosen again as metrics come in. */
    linkedScore() {
      const link = new URLSearchParams(this.host.readLink());
      if (!link.has("score")) return { score: "" };
      return { score: link.get("score"), smaller: parse("smaller", link.get("smaller")) };
    }

    /** Change the state; a new view is a step in the browser's history, anything else replaces the address. */
    set(patch, push = false) {
      if ("score" in patch) this.touched = true;
      if (("key" in patch || "section" in patch) && !("seed" in patch)) patch.seed = ""; // it was one of the former key
      if (patch.view && patch.view !== "grid" && this.state.view === "grid") {
        this.scrolled = scrollY;
        this.leftFrom = [...document.querySelectorAll(LEFT_FROM)].indexOf(document.activeElement.closest(LEFT_FROM));
      }
      if (patch.score && patch.score !== this.state.score) patch.brush = "";
      if (patch.score && patch.score !== this.state.score && !("smaller" in patch)) {
        patch.smaller = model.isSmallerBetter(patch.score);
        if (this.state.sort === "score") patch.descending = !patch.smaller;
      }
      this.setState((state) => this.complete({ ...state, ...patch }), () => {
        this.host.writeLink(this.link(), !push);
        if ("size" in patch) this.save({ size: patch.size });
      });
    }

    go(patch) {
      this.set({ frame: 0, menu: false, ...patch }, true);
    }

    /** Open a clip of a trial, or the trial if there is none. */
    open(trial, clip) {
      this.go({ view: clip ? "clip" : "trial", trial: trial.name, clip: clip ? clip.path : "" });
    }

    /** Another view begins at its top, with the focus on its heading; the grid is as it was left. */
    enter(left) {
      const isGrid = this.state.view === "grid";
      const place = isGrid ? this.scrolled || 0 : 0;
      scrollTo(0, place);
      if (isGrid) requestAnimationFrame(() => scrollTo(0, place)); // the chart may have grown in between
      const former = isGrid ? tm.ui.cardOf(left.trial) || document.querySelectorAll(LEFT_FROM)[this.leftFrom]
        : this.state.view === "trial"
          && document.querySelector(`.film[data-clip=${JSON.stringify(left.clip)}] .film-facts`);
      (former || document.querySelector("main h2"))?.focus({ preventScroll: true });
    }

    componentDidUpdate(props, before) {
      if (before.view !== this.state.view) this.enter(before);
      this.readCurves();
    }

    /** What configurations are compared by: the score and its better end. */
    comparison({ score, section, smaller }) {
      const mode = smaller ? "min" : "max";
      const own = score === model.CLIP_SCORE ? section : "";
      return { metric: score, section: own, mode, key: `${score}|${own}|${mode}` };
    }

    /** Read the configurations again if the score or the data have changed. The first ones came with the first view. */
    async readConfigurations({ score, section, smaller }) {
      const { data } = this;
      if (!score || this.reading) return; // of all trials only
      const wanted = this.comparison({ score, section, smaller });
      const asked = this.held.asked([data, data.metricsAt, wanted.key], () => ({}));
      if (this.asked === asked) return;
      this.asked = asked;
      const take = (found) => {
        if (this.asked !== asked) return;
        this.judgedAs = { key: wanted.key, found };
        this.judged = found && model.decodeConfigurations(found, data);
      };
      const held = this.judgedAs;
      if (data.judged?.[wanted.key]) {
        take(data.judged[wanted.key]);
        return;
      }
      if (held?.key === wanted.key) take(held.found); // with the new trials, until it is read again
      await this.attempt(async () => take(await this.source.configurations(wanted)));
      this.forceUpdate();
    }

    get hasClips() {
      return Object.keys(this.data.sections).length > 0;
    }

    /** Whether the trials are a table instead of cards. */
    get isTable() {
      return this.state.cards === "table" || !this.hasClips;
    }

    /** The configurations if the grid shows them: they are there, and have several runs unless somebody chose them. */
    get configurations() {
      const { cards } = this.state;
      if (!this.judged || cards === "trials") return null;
      return (this.judged.hasRuns && this.judged.all.length > 1) || cards === "configurations" ? this.judged : null;
    }

    /** Show the trials of a configuration, each on a card of its own. */
    showRuns({ names, trials, called }) {
      const tokens = names.map((name) => tm.filter.token(name, trials[0].params[name]));
      const words = trials.map(({ shownName }) => `"${shownName}"`).join(" or ");
      this.set({ cards: "trials", filter: called ? words : tokens.join(" ") }, true);
      scrollTo(0, 0);
    }

    /** Read the score of all trials over training once it is shown, and again if it may have changed. */
    readCurves() {
      const { state, data } = this;
      if (!data || state.view !== "grid" || !data.metricNames.includes(state.score)) return;
      if (typeof state.step !== "number" && !(this.expectsCurves && this.hasPicture)) return;
      this.held.curves([state.score, state.iqm, data.metricsAt], () => this.attempt(async () => {
        const found = await this.source.curves(state.score, state.iqm);
        this.withoutCurves = found ? "" : state.score; // a gallery has some only
        const curveOf = (id, at) => [id,
          { step: found.step[at], value: found.value[at], from: found.from?.[at], unit: found.unit?.[at] }];
        const bands = found && new Map(found.bands.map((band) => [[...band.trials].sort().join(), band]));
        this.curves = found && { metric: state.score, iqm: state.iqm, of: new Map(found.trials.map(curveOf)), bands };
      }).then(() => this.forceUpdate()));
    }

    /** Whether there is a chart of all curves, or room for it: it is read after the first picture. */
    get expectsCurves() {
      const { chart, score } = this.state;
      return chart && this.data.trials.length > 1 && this.data.metricNames.includes(score)
        && this.withoutCurves !== score;
    }

    /** Whether cards show the score at an earlier step: the slider is there, and the curves have been read. */
    get isEarlier() {
      return typeof this.state.step === "number" && this.curves?.metric === this.state.score;
    }

    /** Return the score that a trial's card shows: its last one, or the one at the slider's step, with its own step. */
    scoreAt(trial) {
      if (!this.isEarlier) return { score: trial.reported, scoreStep: null };
      const { step, value } = this.curves.of.get(trial.id) || { step: [] };
      const at = model.countUpTo(step, this.state.step) - 1;
      return at < 0 ? { score: null, scoreStep: null } : { score: value[at], scoreStep: step[at] };
    }

    /** Return the score that a configuration's card shows: the mean, at the slider's step if that is an earlier one. */
    meanAt(one) {
      if (!this.isEarlier) return { score: one.mean[0], scoreStep: null };
      const found = one.counting.map((trial) => this.scoreAt(trial)).filter(({ score }) => score != null);
      if (!found.length) return { score: null, scoreStep: this.state.step };
      return { score: found.reduce((sum, { score }) => sum + score, 0) / found.length, scoreStep: this.state.step };
    }

    /** The range of steps and returns of the clips of all trials, for their sparklines. */
    get scale() {
      const { section, key } = this.state;
      return this.held.scale([this.data, section, key], () => model.scaleOf(this.data.trials, section, key));
    }

    /** What `up` leads to. */
    get above() {
      return this.data.gate ? "Gate" : this.state.view === "clip" ? "Trial" : "All trials";
    }

    up() {
      if (this.state.view === "clip") this.go({ view: "trial" });
      else if (this.state.view !== "grid") this.go({ view: "grid", trial: "", clip: "" });
    }

    link() {
      const found = new URLSearchParams();
      for (const name of LINKED) if (this.state[name] !== DEFAULTS[name]) found.set(name, this.state[name]);
      return found.toString();
    }

    async copyLink() {
      if (!this.host.address()) {
        this.toast("A notebook's page has no address. tune-media watch shows the experiment at one.", 6000);
        return;
      }
      this.set({ frame: ["clip", "compare"].includes(this.state.view) ? this.group.frame : 0 });
      await wait(50);
      this.copy(this.host.address(), "Link");
    }

    async copy(text, what) {
      if (await copyText(text)) this.toast(`${what} copied`);
      else this.toast(`The browser did not allow it: ${text}`, SLOW_MS);
    }

    toast(text, ms = 2500) {
      this.setState({ toast: text });
      clearTimeout(this.toastTimer);
      this.toastTimer = setTimeout(() => this.setState({ toast: "" }), ms);
    }

    /** Play all clips, or only the one under the pointer; the choice is kept. */
    setAlone(alone) {
      this.save({ alone });
      return this.group.setAlone(alone);
    }

    /** Say once that there are too many clips for this machine. */
    tellSlow(count) {
      if (this.settings.alone != null) return; // the user knows the key
      this.save({ alone: false });
      this.toast(`${count} clips at once are slow on this machine. Press h to play only the one under the pointer.`,
        SLOW_MS);
    }

    get trial() {
      return this.data?.named.get(this.state.trial) || null;
    }

    get steps() {
      const { section, key } = this.state;
      return this.held.steps([this.data, section, key], () => model.stepsOf(this.data.trials, section, key));
    }

    /** Move the step slider, or in a trial to the clip before or after. */
    moveStep(by) {
      const { state } = this;
      if (["grid", "compare"].includes(state.view)) {
        const at = typeof state.step === "number" ? this.steps.indexOf(state.step) : this.steps.length - 1;
        const next = Math.min(Math.max(0, at + by), this.steps.length - 1);
        if (this.steps.length) this.set({ step: next === this.steps.length - 1 ? "last" : this.steps[next] });
        return;
      }
      const clips = model.clipsOf(this.trial, state.section, state.key);
      const at = clips.findIndex((clip) => clip.path === state.clip);
      const { clip: shown } = this;
      // the shown clip may be of another key, or from a tape
      const isOther = at < 0 && state.view === "clip" && shown?.step != null;
      const before = isOther ? clips.filter(({ step }) => step <= shown.step).length - (by < 0 ? 0 : 1)
        : at < 0 ? clips.length - 1 : at;
      const clip = clips[Math.min(Math.max(0, before + by), clips.length - 1)];
      if (clip) this.set({ clip: clip.path, frame: 0 });
    }

    /** Go to the next trial in the grid's order, at the same step. */
    nextTrial(by) {
      const { rows } = tm.grid.gridRows(this);
      const at = rows.findIndex(({ trial }) => trial.name === this.state.trial);
      const next = rows[(at + by + rows.length) % rows.length]?.trial;
      if (!next) return;
      const step = this.clip?.step ?? Infinity;
      this.set({ trial: next.name,
        clip: model.clipAt(next, this.state.section, this.state.key, step)?.path || "", frame: 0 });
    }

    /** The clip that the clip view shows: the link's, or the newest; one that is deleted while it is watched stays. */
    get clip() {
      const { trial, state } = this;
      if (!trial) return null;
      if (!state.clip) return model.clipAt(trial, state.section, state.key, Infinity);
      return this.clipNamed(trial, state.clip) || (this.isGone ? this.watched : null);
    }

    /** Return the clip that a link names: one of the trial's files, or of a tape's episode. */
    clipNamed(trial, path) {
      return tm.tape.isTape(path) ? this.tapes.clipOf(trial, path) : model.clipNamed(trial, path);
    }

    /** Whether the clip that is watched is no longer listed. */
    get isGone() {
      const { trial, state, watched } = this;
      return watched?.path === state.clip && !watched.tape && watched.trial.name === trial?.name
        && watched.trial !== trial && !model.clipNamed(trial, state.clip);
    }

    cycle(name) {
      const { sections } = this.data;
      const values = name === "section" ? Object.keys(sections) : sections[this.state.section] || [];
      const next = values[(values.indexOf(this.state[name]) + 1) % values.length];
      if (next) this.set({ [name]: next });
    }

    /** Show a dialog, a component that gets the app and these props. */
    show(view, props = {}) {
      this.setState({ dialog: { view, props } });
    }

    close() {
      this.setState({ dialog: null });
    }

    addFilter(name, value) {
      const token = tm.filter.token(name, value);
      if (!this.state.filter.includes(token)) this.set({ filter: `${this.state.filter} ${token}`.trim() });
    }

    /** Return a trial's color, or that of a configuration, whose first trial it is: TensorBoard's if it tells them. */
    colorOf(trial, color = trial.color) {
      const { trials } = this.data;
      const isToldApart = this.held.isToldApart([trials],
        () => new Set(trials.map(({ name }) => this.host.colorOf(name))).size === trials.length);
      return (isToldApart && this.host.colorOf(trial.name)) || color;
    }

    toggleTheme() {
      this.save({ theme: this.theme === "dark" ? "light" : "dark" });
      this.showTheme();
    }

    showTheme() {
      document.documentElement.dataset.theme = this.theme;
      this.forceUpdate();
    }

    save(patch) {
      Object.assign(this.settings, patch);
      tm.hosts.attempt(() => localStorage.setItem(SETTINGS, JSON.stringify(this.settings))); // else it forgets them
    }

    render() {
      if (!this.data) {
        return html`<div class="message">
          ${this.problem ? html`<h2>The trials could not be read</h2><p>${this.problem}</p>`
            : html`<p role="status">Reading the trials${this.reading && `: ${readText(this.reading)}`} …</p>`}</div>`;
      }
      this.arrange();
      const { state, trial, clip } = this;
      const view = state.view === "episodes" && this.data.trials.length
        ? html`<${tm.episodes.AllEpisodes} app=${this} />`
        : !this.data.trials.length ? html`<${Nothing} app=${this} />`
        : state.view === "gate" ? html`<${tm.gate.GateView} app=${this} gate=${this.data.gate} />`
        : state.view === "compare" ? html`<${tm.compare.CompareView} app=${this} />`
        : state.view === "trial" && trial ? html`<${tm.trial.TrialView} app=${this} trial=${trial} />`
        : state.view === "clip" && clip
          ? html`<${tm.clip.ClipView} app=${this} trial=${trial} clip=${clip} isGone=${this.isGone} />`
        : state.view === "clip" && trial ? html`<${Deleted} app=${this} trial=${trial} />`
        : html`<${tm.grid.GridView} app=${this} />`;
      const isCards = state.view === "grid" && !this.isTable;
      const hasClock = ["clip", "compare"].includes(state.view)
        || (state.view !== "episodes" && this.hasClips && (state.view !== "grid" || isCards));
      return html`<div class=${`app on-${state.view}`}>
        ${state.view === "grid" && html`<button class="skip"
          onClick=${() => document.querySelector(".card, .run-table .name")?.focus()}>
            ${isCards ? "Skip to the cards" : "Skip to the table"}</button>`}
        <${tm.bars.TopBar} app=${this} />
        ${this.reading && html`<p class="banner reading" role="status">
          <progress max=${this.reading[1]} value=${this.reading[0]} aria-label="Trials that are read"></progress>
          ${" "}${readText(this.reading)} are read, the newest first …</p>`}
        ${this.problem && html`<p class="problem banner" role="alert">
          The trials could not be read again: ${this.problem}</p>`}
        ${this.data.unreadable.length > 0 && html`<details class="problem banner">
          <summary>${tm.ui.plural(this.data.unreadable.length, "file")} could not be read</summary>
          <ul>${this.data.unreadable.map(([path, why]) => html`<li><code>${path}</code>: ${why}</li>`)}</ul></details>`}
        ${view}
        <div class="dock">
          <${tm.compare.Tray} app=${this} />${hasClock && html`<${tm.bars.Transport} app=${this} />`}</div>
        ${state.dialog && html`<${state.dialog.view} app=${this} ...${state.dialog.props} />`}
        <div class="toast" role="status">${state.toast}</div>
      </div>`;
    }
  }

  /** What a link shows if its clip is no longer there. */
  function Deleted({ app, trial }) {
    return html`<main class="message"><h2 tabindex="-1">This clip is no longer there</h2>
      <p>${trial.shownName} has no clip at this link. It may have been deleted.</p>
      <p><button class="primary" onClick=${() => app.go({ clip: "" })}>Show the trial's newest clip</button>${" "}
        <button onClick=${() => app.go({ view: "trial", clip: "" })}>All clips of the trial</button></p></main>`;
  }

  /** What is shown before the first trial. */
  function Nothing({ app }) {
    return html`<div class="message"><h2>No trials yet</h2>
      <p>There are no trials in this folder.
        ${(app.source.live || app.host.name === "tensorboard") && " This page shows them as they come."}</p></div>`;
  }

  const readText = ([done, all]) => `${tm.ui.number(done)} of ${tm.ui.plural(all, "trial")}`;

  function parse(name, text) {
    if (name === "step") return text === "last" || text === "best" ? text : Number(text);
    if (typeof DEFAULTS[name] === "boolean") return text === "true";
    return typeof DEFAULTS[name] === "number" ? Number(text) || 0 : text;
  }

  /** Copy a text; over plain http from another machine browsers have no clipboard, but the old command. */
  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  const keyLabel = (key) => key.replace(/^episodes\//, "");

  function start(element, source, host) {
    render(html`<${App} source=${source} host=${host} />`, element);
  }

  tm.app = { start, keyLabel, instance: null };
})((window.tuneMedia = window.tuneMedia || {}));
