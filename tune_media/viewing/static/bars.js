// The bar at the top (which trials, in which order) and the bar at the bottom (which step, and playing).
(function (tm) {
  "use strict";

  const { html, Component, number, placeOf, plural, lastPart, Choice } = tm.ui;
  const model = tm.model;
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const FILTER_HELP = `Text, or comparisons of hyperparameters, metrics and the clip's return, length, step and seed:
lr>0.001 gamma=0.98 · lr=0.001..0.01 · gamma=None · (lr=0.1 OR lr=0.2) · not PPO
"a name with blanks"=3 · clip.seed=7 · status=error`;
  const SIZES = [180, 220, 280, 360, 480, 640];

  function TopBar({ app }) {
    const { state, data } = app;
    const isGrid = state.view === "grid";
    const title = lastPart(data.title) || "Episodes";
    return html`<header class=${`bar top${state.menu ? " unfolded" : ""}`}>
      <h1 title=${data.title}>${isGrid ? title : html`
        <button onClick=${() => app.go({ view: "grid", trial: "", clip: "" })}>${title}</button>`}</h1>
      ${state.view !== "episodes" && !tm.compare.isFixed(app) && html`<${ClipChoice} app=${app} />`}
      <button class="fold" aria-expanded=${state.menu} aria-controls="more-controls"
        onClick=${() => app.setState({ menu: !state.menu })}>${isGrid ? "☰ Filter" : "☰ More"}</button>
      <div class="folded" id="more-controls">
      ${isGrid && html`<${GridControls} app=${app} />`}
      ${app.source.episodes && state.view !== "episodes" && html`<button class="to-episodes"
        onClick=${() => app.go({ view: "episodes", trial: "", clip: "" })}
        title="All episodes as a table, with or without a clip">All episodes</button>`}
      <span class="space"></span>
      <button onClick=${() => app.show(tm.keys.Help)} aria-label="Keys, signs, disk use, light or dark (?)"
        title="Keys, signs, disk use, light or dark (?)">?</button>
      </div>
    </header>`;
  }

  /** The menu of the clips that are shown, such as the best ones of the evaluation. */
  function ClipChoice({ app }) {
    const { state, data: { sections } } = app;
    const names = Object.keys(sections);
    const kinds = names.flatMap((section) => sections[section].map((key) => ({ section, key })));
    if (kinds.length < 2) return null;
    const label = ({ section, key }) => (names.length > 1 ? `${section}: ` : "") + tm.app.keyLabel(key);
    return html`<label class="field"><span>Clip</span><select class="clip-choice" aria-label="Clip"
      title="Which clips are shown (k and s)" onChange=${(event) => app.set(kinds[event.target.value])}>
      ${kinds.map((kind, at) => html`<option value=${at}
        selected=${kind.section === state.section && kind.key === state.key}>${label(kind)}</option>`)}
    </select></label>`;
  }

  /** The orders of the cards: [name, label]. */
  const ordersOf = ({ state, data }) => [["score", "the metric"], ["name", "trial name"], ...tm.table.CLIP_FACTS,
    ["status", "status"], ...data.params.map((name) => [`param:${name}`, name]),
    ...(state.sort.startsWith("metric:") ? [[state.sort, model.scoreLabel(state.sort.slice(7))]] : [])];

  function GridControls({ app }) {
    const { state, data } = app;
    const order = !app.isTable && state.sort !== "score" && ordersOf(app).find(([name]) => name === state.sort)?.[1];
    return html`
      <input class="filter" type="search" aria-label="Filter trials" value=${state.filter}
        placeholder="Filter, e.g. lr>0.001" title=${FILTER_HELP}
        onInput=${(event) => app.set({ filter: event.target.value })} />
      ${model.scoresOf(data).length > 0 && html`<button class="score-choice" aria-haspopup="dialog"
        title="The metric that tells how good a trial is, and the order of the cards"
        onClick=${() => app.show(Ranking)}><span class="muted">Winner by</span>${" "}
        ${state.score ? `${model.scoreLabel(state.score)}, ${state.smaller ? "min" : "max"}` : "…"}
        ${order && `; sorted by ${lastPart(order)} ${state.descending ? "↓" : "↑"}`}</button>`}`;
  }

  /** The dialog in which the metric of the winner is chosen, with its better end and the order of the cards. */
  function Ranking({ app }) {
    const { state, data } = app;
    const take = (end) => app.set({ smaller: end === "min",
      ...(state.sort === "score" ? { descending: end === "max" } : {}) });
    const order = state.descending ? "Largest first" : "Smallest first";
    return html`<${tm.ui.Picker} app=${app} title="Winner by" names=${model.scoresOf(data)}
      label=${model.scoreLabel} chosen=${state.score} onPick=${(score) => app.set({ score, dialog: null })}>
      <p class="ranking"><${Choice} label="The end that wins" values=${["max", "min"]}
          value=${state.smaller ? "min" : "max"} onChange=${take} />
        ${!app.isTable && html`<label class="field"><span>Sort cards by</span>
          <select class="sort" value=${state.sort} onChange=${(event) => app.set({ sort: event.target.value })}>
          ${ordersOf(app).map(([name, label]) => html`<option value=${name} selected=${name === state.sort}>
            ${label}</option>`)}</select></label>
        <button class="direction" onClick=${() => app.set({ descending: !state.descending })}
          title=${order} aria-label=${`${order}; change (r)`}>${state.descending ? "↓" : "↑"}</button>`}</p>
    <//>`;
  }

  function resize(app, by) {
    const at = SIZES.findIndex((size) => size >= app.state.size);
    app.set({ size: SIZES[Math.min(Math.max(0, at + by), SIZES.length - 1)] });
  }

  function changeSpeed(app, by) {
    const at = SPEEDS.indexOf(app.group.speed);
    app.group.setSpeed(SPEEDS[Math.min(Math.max(0, at + by), SPEEDS.length - 1)]);
  }

  /** Play, pause, frames, speed, loop. It follows the clock by itself, so that the views are not drawn again. */
  class Transport extends Component {
    state = { isOpen: false };

    componentDidMount() {
      this.stop = this.props.app.group.onChange(() => this.forceUpdate());
    }

    componentWillUnmount() {
      this.stop();
    }

    render({ app }, { isOpen }) {
      const { group } = app;
      const frames = Math.round(group.duration * group.fps);
      const isStepOfAll = ["grid", "compare"].includes(app.state.view) && !tm.compare.isFixed(app);
      return html`<footer class=${`bar transport${isOpen ? " unfolded" : ""}`} aria-label="Playing">
        <button class="play primary" onClick=${() => group.toggle()} title="Play or pause (space)"
          aria-label=${group.playing ? "Pause" : "Play"}>${group.playing ? "❚❚" : "▶"}</button>
        <button class="fold" aria-expanded=${isOpen} aria-controls="more-playing" aria-label="Frames, speed and loop"
          onClick=${() => this.setState({ isOpen: !isOpen })}>⋯</button>
        <div class="folded" id="more-playing">
        <button onClick=${() => group.stepFrame(-1)} title="One frame back (,)" aria-label="One frame back">❘◀</button>
        <button onClick=${() => group.stepFrame(1)} title="One frame on (.)" aria-label="One frame on">▶❘</button>
        <button onClick=${() => group.setLoop(!group.loop)} aria-pressed=${group.loop}
          title="Start again at the end, or hold the last frame (l)">
          ${group.loop ? "loop" : "hold"}</button>
        ${!["clip", "compare"].includes(app.state.view) && html`<button class="alone"
          onClick=${() => app.setAlone(!group.alone)} aria-pressed=${group.alone}
          title="Play all clips, or only the one under the pointer (h)">${group.alone ? "one" : "all"}</button>`}
        <label class="field"><select class="speed" aria-label="Speed (< and >)" title="Speed (< and >)"
          onChange=${(event) => group.setSpeed(Number(event.target.value))}>
          ${SPEEDS.map((speed) =>
            html`<option value=${speed} selected=${speed === group.speed}>${speed}×</option>`)}</select></label>
        <span class="clock" title="frame of the longest clip on the screen">
          ${number(Math.min(group.frame + 1, frames))} / ${number(frames)}</span>
        ${isStepOfAll && html`<button class="best-of-each" aria-pressed=${app.state.step === "best"}
          onClick=${() => app.set({ step: app.state.step === "best" ? "last" : "best" })}
          title="Each trial's clip with the highest return (b)">★ best of each</button>`}
        </div>
        ${tm.compare.isFixed(app) ? "" : html`<${isStepOfAll ? StepSlider : ClipSteps} app=${app} />`}
      </footer>`;
    }
  }

  /** The step of training that all trials show. */
  function StepSlider({ app }) {
    const { state, steps } = app;
    const last = steps.length - 1;
    const at = typeof state.step === "number" ? Math.max(0, steps.indexOf(state.step)) : last;
    const isBest = state.step === "best";
    const shown = isBest ? "each trial's best" : `step ${number(steps[at])}`;
    const move = (event) => {
      const value = Number(event.target.value);
      app.set({ step: value === last ? "last" : steps[value] });
    };
    return html`<label class="steps-slider"><span>Training</span>
        <input type="range" min="0" max=${Math.max(0, last)} value=${at} disabled=${last < 1}
          aria-label="Training step of all trials"
          aria-valuetext=${`${shown}${!isBest && at === last ? " (last)" : ""}`} onInput=${move} /></label>
      <output class="step-shown" title=${plural(steps.length, "step")}>${shown}
        ${!isBest && at === last && html`<span class="is-last"> (last)</span>`}</output>`;
  }

  /** The step of the clip that is chosen in a trial. */
  function ClipSteps({ app }) {
    const { state, trial } = app;
    const clips = trial ? model.clipsOf(trial, state.section, state.key) : [];
    const found = clips.findIndex((clip) => clip.path === state.clip);
    const isOther = found < 0 && state.view === "clip"; // a clip of another key, or from a tape
    const clip = isOther ? app.clip : clips.at(found);
    const shown = clip?.step;
    const at = found < 0 && shown != null ? Math.max(0, clips.filter(({ step }) => step <= shown).length - 1) : found;
    return html`<label class="steps-slider"><span>Training</span>
        <input type="range" min="0" max=${Math.max(0, clips.length - 1)} value=${at} disabled=${clips.length < 2}
          aria-label="Clip of this trial" aria-valuetext=${clip ? placeOf(clip) : ""}
          onInput=${(event) => app.set({ clip: clips[Number(event.target.value)].path, frame: 0 })} /></label>
      <output class="step-shown">${clip ? placeOf(clip) : ""}</output>`;
  }

  tm.bars = { TopBar, Transport, Ranking, resize, changeSpeed };
})((window.tuneMedia = window.tuneMedia || {}));
