// The bar at the top (which trials, in which order) and the bar at the bottom (which step, and playing).
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, Choice } = tm.ui;
  const { Component } = window.htmPreact;
  const model = tm.model;
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const MORE = "\0more"; // no metric's name
  const FILTER_HELP = `Text, or comparisons of hyperparameters, metrics and the clip's return, length, step and seed:
lr>0.001 gamma=0.98 · lr=0.001..0.01 · gamma=None · (lr=0.1 OR lr=0.2) · not PPO
"a name with blanks"=3 · clip.seed=7 · status=error`;
  const SIZES = [180, 220, 280, 360, 480, 640];

  function TopBar({ app }) {
    const { state, data } = app;
    const keys = data.sections[state.section] || [];
    const hasChoice = state.view !== "episodes" && !tm.compare.isFixed(app);
    return html`<header class=${`bar top${state.menu ? " unfolded" : ""}`}>
      <h1 title=${data.title}><button onClick=${() => app.go({ view: "grid", trial: "", clip: "" })}>
        ${lastPart(data.title) || "Episodes"}</button></h1>
      ${hasChoice && html`<${Choice} label="Section" values=${Object.keys(data.sections)} value=${state.section}
        onChange=${(section) => app.set({ section })} />`}
      ${hasChoice && html`<${Choice} label="Clip" values=${keys} value=${state.key} names=${tm.app.keyLabel}
        onChange=${(key) => app.set({ key })} />`}
      <button class="fold" aria-expanded=${state.menu} aria-controls="more-controls"
        onClick=${() => app.setState({ menu: !state.menu })}>${state.view === "grid" ? "☰ Filter" : "☰ More"}</button>
      <div class="folded" id="more-controls">
      ${state.view === "grid" && html`<${GridControls} app=${app} />`}
      ${app.source.episodes && state.view !== "episodes" && html`<button class="to-episodes"
        onClick=${() => app.go({ view: "episodes", trial: "", clip: "" })}
        title="All episodes as a table, with or without a clip">All episodes</button>`}
      <span class="space"></span>
      <button onClick=${() => app.toggleTheme()} aria-label="Light or dark (d)" title="Light or dark (d)">
        ${app.theme === "dark" ? "☀" : "☾"}</button>
      <button onClick=${() => app.show(tm.keys.Help)} aria-label="Keyboard help (?)"
        title="Keyboard help (?)">?</button>
      </div>
    </header>`;
  }

  function GridControls({ app }) {
    const { state, data } = app;
    const scores = model.scoresOf(data, state.section);
    const sorts = [["score", "score"], ["name", "trial name"], ...tm.table.CLIP_FACTS, ["status", "status"]];
    const option = ([value, label]) => html`<option value=${value} selected=${value === state.sort}>${label}</option>`;
    const isOffered = (name) => !data.metricNames.includes(name) || model.knownScores().includes(name);
    const known = scores.filter((name) => name === state.score || isOffered(name));
    const metric = state.sort.startsWith("metric:") ? state.sort.slice(7) : null;
    const hasMore = data.metricNames.length > 0;
    const order = state.descending ? "Largest first" : "Smallest first";
    const choose = (name, value) => {
      if (value === MORE) {
        app.forceUpdate(); // the menu goes back to what it was
        app.pickMetric(name);
      } else app.set({ [name]: value });
    };
    return html`
      <input class="filter" type="search" aria-label="Filter trials" value=${state.filter}
        placeholder="Filter, e.g. lr>0.001" title=${FILTER_HELP}
        onInput=${(event) => app.set({ filter: event.target.value })} />
      ${!app.isTable && html`<label class="field"><span>Sort by</span>
        <select class="sort" value=${state.sort} onChange=${(event) => choose("sort", event.target.value)}>
        ${sorts.map(option)}
        ${data.params.length > 0 && html`<optgroup label="Hyperparameters">
          ${data.params.map((name) => option([`param:${name}`, name]))}</optgroup>`}
        ${hasMore && html`<optgroup label="Metrics">${metric && option([state.sort, model.scoreLabel(metric)])}
          ${option([MORE, "another metric …"])}</optgroup>`}
      </select></label>
      <button class="direction" onClick=${() => app.set({ descending: !state.descending })}
        title=${order} aria-label=${`${order}; change`}>${state.descending ? "↓" : "↑"}</button>`}
      ${(known.length > 0 || hasMore) && html`<label class="field"><span>Winner by</span>
        <select class="score-choice" value=${state.score} onChange=${(event) => choose("score", event.target.value)}>
        ${known.map((name) => html`<option value=${name} selected=${name === state.score}>
          ${model.scoreLabel(name)}</option>`)}
        ${hasMore && html`<option value=${MORE}>another metric …</option>`}
      </select></label>
      <button onClick=${() => app.set({ smaller: !state.smaller,
        ...(state.sort === "score" ? { descending: state.smaller } : {}) })}
        title="Which end of the score wins">${state.smaller ? "min" : "max"}</button>`}
      ${!app.isTable && html`<span class="sizes">
        <button aria-label="Smaller cards ([)" title="Smaller cards ([)" onClick=${() => resize(app, -1)}>−</button>
        <button aria-label="Larger cards (])" title="Larger cards (])"
          onClick=${() => resize(app, 1)}>+</button></span>`}`;
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
    constructor() {
      super();
      this.state = { isOpen: false };
    }

    componentDidMount() {
      this.stop = this.props.app.group.onChange(() => this.forceUpdate());
    }

    componentWillUnmount() {
      this.stop();
    }

    render({ app }, { isOpen }) {
      const { group } = app;
      const frames = Math.round(group.duration * group.fps);
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
        </div>
        ${tm.compare.isFixed(app) ? "" : ["grid", "compare"].includes(app.state.view)
          ? html`<${StepSlider} app=${app} />` : html`<${ClipSteps} app=${app} />`}
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
        ${!isBest && at === last && html`<span class="is-last"> (last)</span>`}</output>
      <button class="best-of-each" aria-pressed=${state.step === "best"}
        onClick=${() => app.set({ step: state.step === "best" ? "last" : "best" })}
        title="Each trial's clip with the highest return (b)">★ best of each</button>`;
  }

  /** The step of the clip that is chosen in a trial. */
  function ClipSteps({ app }) {
    const { state, trial } = app;
    const clips = trial ? model.clipsOf(trial, state.section, state.key) : [];
    const found = clips.findIndex((clip) => clip.path === state.clip);
    const isOther = found < 0 && state.view === "clip"; // a clip of another key, or from a tape
    const shown = isOther ? app.clip?.step : clips.at(found)?.step;
    const at = found < 0 && shown != null ? Math.max(0, clips.filter(({ step }) => step <= shown).length - 1) : found;
    return html`<label class="steps-slider"><span>Training</span>
        <input type="range" min="0" max=${Math.max(0, clips.length - 1)} value=${at} disabled=${clips.length < 2}
          aria-label="Clip of this trial" aria-valuetext=${`step ${shown}`}
          onInput=${(event) => app.set({ clip: clips[Number(event.target.value)].path, frame: 0 })} /></label>
      <output class="step-shown">step ${number(shown)}</output>`;
  }

  tm.bars = { TopBar, Transport, resize, changeSpeed };
})((window.tuneMedia = window.tuneMedia || {}));
