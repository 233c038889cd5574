// One clip, large: its episode's time line, reward terms and series with a cursor that follows the video both ways, its
// record, its steps.
(function (tm) {
  "use strict";

  const { html, number, placeOf, captionOf, downloadName, Player } = tm.ui;
  const { align, Heading } = tm.trial;
  const { stepOf, lastStep, seriesOf, rewardTerms, termCandidates, momentsOf } = tm.steps;
  const CHART_HEIGHT = 190;
  const SHOWN_SERIES = 3;
  const SERIES_COLORS = ["--accent", "--second", "--third", "--fourth"];
  const RECORD = ["episode_return", "episode_length", "step", "training_iteration", "terminated", "success", "seed",
    "task", "agent", "view", "note", "success_once", "success_at_end"];
  const PLUMBING = ["explored", "weights_version", "rendered", "env_steps", "env_runner", "env_index", "frames", "fps",
    "frame_stride", "width", "height", "bytes", "compared", "episode_id", "trial_id", "path"]; // behind a fold
  const UNLESS_SAME = { success_once: "success_at_end", success_at_end: "success_once" }; // shown if they differ
  const NAMES = new Set(["seed", "env runner", "env index", "weights version"]); // numbers that are names, not amounts

  class ClipView extends tm.timeline.Following {
    state = { details: null, problem: null, frame: 0, toggled: new Set() };
    chart = null;
    held = tm.model.memo();
    insideHeld = tm.model.memo();

    get master() {
      return this.props.clip;
    }

    /** What is known of the clip's episode, once it has been read. */
    get details() {
      const { clip } = this.props;
      return clip.tape ? clip.details : this.state.details;
    }

    componentDidUpdate(before) {
      const { clip } = this.props;
      if (before.clip.url !== clip.url) this.load(); // the same clip, read again, keeps its frame
    }

    load() {
      const { app, clip } = this.props;
      this.setState({ details: null, problem: null, frame: 0 });
      const isShown = () => clip.url === this.props.clip.url;
      if (!clip.tape) tm.ui.readInto(this, "details", app.source.clip(clip), isShown);
    }

    showFrame(frame) {
      const { app, clip } = this.props;
      const step = stepOf(clip, frame);
      this.chart?.setCursor(step);
      this.terms?.setCursor(step);
      app.timeline?.setStep(step);
      if (frame !== this.state.frame) this.setState({ frame });
    }

    /** Lay out the series; the same objects are returned until something changes, so that no chart is drawn again. */
    get plotted() {
      const { details, props: { app, clip }, state: { toggled } } = this;
      return this.held([clip.url, details, toggled, app.theme, app.state.terms], () => this.layOut());
    }

    layOut() {
      const { details, props: { app, clip }, state: { toggled } } = this;
      const inside = this.insideHeld([details], () => insideOf(details, clip)); // it is searched for once
      const all = inside.series;
      const terms = app.state.terms ? tm.model.listed(app.state.terms) : inside.terms;
      const isStacked = ({ name, kind, y }) => inside.terms.includes(name) || kind === "reward" || !y.some(Boolean);
      const others = inside.terms.length ? all.filter((own) => !isStacked(own)) : all;
      const offered = others.slice(0, SHOWN_SERIES).map(({ name }) => name);
      const shown = all.filter(({ name }) => toggled.has(name) !== offered.includes(name));
      const lines = shown.map(({ name, x, y }, index) => ({ label: name,
        color: tm.charts.cssColor(SERIES_COLORS[index % SERIES_COLORS.length]), x, y }));
      const parts = all.filter(({ name }) => terms.includes(name));
      const stacked = parts.map(({ name, x, y }) => ({ label: name, color: colorOfTerm(inside, name), x, y }));
      const clips = [{ clip }];
      return { ...inside, all, terms, clips, shown: new Set(shown.map(({ name }) => name)), chart: align(lines),
        stack: align(stacked) };
    }

    /** Stack the terms that the user chooses, instead of those that add up to the reward. */
    toggleTerm(name, terms) {
      this.props.app.set({ terms: tm.model.toggled(terms, name).join("\n") });
    }

    toggle(name) {
      const toggled = new Set(this.state.toggled);
      if (!toggled.delete(name)) toggled.add(name);
      this.setState({ toggled });
    }

    render({ app, trial, clip, isGone }, { problem, frame }) {
      const { details, plotted } = this;
      const hasStrip = !clip.isPicture && !clip.isUnplayed;
      const episode = clip.kind === "video" && details?.record?.episode_id;
      return html`<main class="clip-view">
        <${Heading} app=${app} trial=${trial}>
          <${tm.tape.Views} app=${app} clip=${clip} />
          <${tm.compare.ClipTick} app=${app} clip=${clip} />
          ${episode && html`<${tm.commands.Button} app=${app} label="Fork here …"
            title="The commands that let another policy go on from this step"
            found=${tm.commands.forking(app, trial, episode,
              Math.max(0, Math.min(stepOf(clip, frame), clip.length - 1)))} />`}
          <button onClick=${() => app.copyLink()} title="Copy a link to this view (c)">Copy link</button>
          ${details?.file && html`<button title=${details.file} onClick=${() => app.copy(details.file, "Path")}>
            Copy path</button>`}
          ${!clip.isUnplayed && html`<a class="button" href=${clip.url}
            download=${downloadName(app, clip) + clip.suffix}>Download</a>`}
        <//>
        ${isGone && html`<p class="notice" role="status">
          The files of this clip have been deleted since you opened it.${" "}
          <button class="link" onClick=${() => app.set({ clip: "", frame: 0 })}>
            Show the trial's newest clip</button></p>`}
        <div class="clip-columns"><div class="clip-column">
          <section class="stage" key=${clip.path}>
            ${clip.isUnplayed ? html`<${tm.tape.Stage} app=${app} clip=${clip} />` : html`<${Player} clip=${clip}
              group=${app.group} label=${captionOf(clip)} onOpen=${() => app.group.toggle()} />`}
            <p class="under" aria-live="off">${clip.isUnplayed ? html`<span>steps <b>${number(clip.length)}</b></span>`
              : clip.isPicture ? html`<span>${placeOf(clip)}</span>`
              : html`<span>frame <b class="frame">${frame + 1}</b> of ${number(clip.frames)}</span>
                <span>env step <b>${number(stepOf(clip, frame))}</b></span>`}
              <span>return <b>${number(clip.return)}</b></span>
              ${clip.tape && html`<span>from its tape</span>`}
              ${clip.note && html`<em>${clip.note}</em>`}</p>
          </section>
          <section class="panel record" tabindex="0" aria-label="Record"><h3>Record</h3>
            <${Record} record=${details?.record || fallbackRecord(clip)}
              more=${{ ...details?.metrics, ...details?.values }} /></section>
        </div><div class="clip-column">
        <section class="panel inside"><div class="panel-head"><h3>Over the episode</h3>
            ${hasStrip && html`<button class="save" title="Save the filmstrip as a picture"
              onClick=${() => tm.timeline.savePicture(app, this.base, [{ clip }], downloadName(app, clip))}>
              Filmstrip as PNG</button>`}</div>
          ${hasStrip && html`<${tm.timeline.Timeline} key=${clip.url} app=${app} clips=${plotted.clips}
            moments=${plotted.moments} onGo=${(step) => this.goTo(step)} />`}
          ${problem && html`<p class="problem">The episode's data could not be read: ${problem}</p>`}
          ${details && html`<${Terms} view=${this} plotted=${plotted} app=${app} clip=${clip} />`}
          ${plotted.all.length > 0 && html`<div class="panel-head series-head"><h4>Series</h4>
            ${plotted.all.map(({ name }) => html`<button class="chip" aria-pressed=${plotted.shown.has(name)}
              onClick=${() => this.toggle(name)}>${name}</button>`)}</div>`}
          ${plotted.chart.x.length > 0 && html`<${tm.charts.Chart} ref=${(chart) => { this.chart = chart; }}
            ...${plotted.chart} xLabel="env step" height=${CHART_HEIGHT} theme=${app.theme} span=${[0, lastStep(clip)]}
            label="Series of the episode" onPick=${(step) => this.goTo(step)} />`}
          ${details && !plotted.all.length && html`<${NoSteps} app=${app} />`}
        </section>
        ${details?.steps && html`<${Steps} details=${details} row=${stepOf(clip, frame)} />`}</div></div>
        <${tm.config.ConfigPanel} app=${app} trial=${trial} />
      </main>`;
    }
  }

  /** What is found in the episode's steps. */
  function insideOf(details, clip) {
    const series = seriesOf(details, clip);
    const terms = rewardTerms(series);
    const moments = details
      ? [...momentsOf(series, terms, clip, details.record), ...tm.forks.forkMoments(clip)] : NOTHING;
    return { series, terms, candidates: termCandidates(series), moments: moments.sort((a, b) => a.step - b.step) };
  }

  const NOTHING = [];
  const colorOfTerm = ({ candidates }, name) =>
    tm.model.COLORS[candidates.findIndex((own) => own.name === name) % tm.model.COLORS.length];

  /** The terms of the reward, stacked: those that add up to it, or those that the user chooses. */
  function Terms({ view, plotted, app, clip }) {
    const { candidates, terms, stack } = plotted;
    const reward = plotted.all.some(({ kind }) => kind === "reward");
    if (candidates.length < 2) return null;
    const told = app.state.terms ? "chosen by you" : terms.length ? "they add up to the reward at each step"
      : reward ? "no recorded values add up to the reward; choose some" : "choose values to stack";
    return html`<div class="panel-head series-head"><h4>Reward terms</h4>
        ${candidates.map(({ name }) => html`<button class="chip" aria-pressed=${terms.includes(name)}
          onClick=${() => view.toggleTerm(name, terms)}>
          <i class="swatch" style=${{ background: colorOfTerm(plotted, name) }}></i>${name}</button>`)}
        <span class="muted">${told}${app.state.terms
          && html` · <button class="link" onClick=${() => app.set({ terms: "" })}>choose for me</button>`}</span></div>
      ${stack.x.length > 0 && html`<${tm.charts.Chart} ref=${(chart) => { view.terms = chart; }} ...${stack} stacked
        xLabel="env step" height=${CHART_HEIGHT} theme=${app.theme} span=${[0, lastStep(clip)]}
        label="Terms of the reward" onPick=${(step) => view.goTo(step)} />`}`;
  }

  /** What is said of an episode without data of its steps. */
  function NoSteps({ app }) {
    return html`<p class="muted no-steps">No values of this episode's steps were recorded, so there are no curves and no
      reward terms. To get them, record with${" "}
      <code>collect=["reward_terms/*"]</code> (paths in the env's info), or
      <code>trajectories=True</code> for observations, actions and rewards${app.source.isServer ? ""
        : html` (a gallery has these with <code>--steps</code>)`}.</p>`;
  }

  const fallbackRecord = (clip) => ({
    episode_return: clip.return, episode_length: clip.length, step: clip.step, training_iteration: clip.iteration,
    frames: clip.frames, fps: clip.fps, note: clip.note, path: clip.path,
  });

  /** The user's own values of an episode, then what it is; how it was made is behind a fold. */
  function Record({ record, more }) {
    const isTold = (name, same = record[UNLESS_SAME[name]]) => (record[name] ?? same) !== same;
    const named = (names) => names.filter((name) => isTold(name))
      .map((name) => [name.replace(/_/g, " "), record[name]]);
    return html`<${Facts} rows=${[...Object.entries(more), ...named(RECORD)]} />
      <details><summary>How it was recorded</summary><${Facts} rows=${named(PLUMBING)} /></details>`;
  }

  /** Values by name, [[name, value], ...]. */
  function Facts({ rows }) {
    const text = (name, value) => (Array.isArray(value) ? `[${value.map(number).join(", ")}]`
      : value && typeof value === "object" ? JSON.stringify(value) : NAMES.has(name) ? String(value) : number(value));
    return html`<table><tbody>${rows.map(([name, value]) => html`
      <tr><th scope="row">${name}</th><td>${text(name, value)}</td></tr>`)}</tbody></table>`;
  }

  /** The trajectory's row of the frame that is shown. */
  function Steps({ details, row }) {
    const { episode_step: _, ...columns } = details.steps;
    const at = Math.min(row, details.steps.episode_step.length - 1);
    return html`<section class="panel steps"><h3>Step ${number(at)} of the trajectory</h3>
      <${Facts} rows=${Object.entries(columns).map(([name, values]) => [name, values[at]])} />
      ${details.steps_note && html`<p class="muted">${details.steps_note}</p>`}
    </section>`;
  }

  tm.clip = { ClipView, NoSteps };
})((window.tuneMedia = window.tuneMedia || {}));
