// One trial over training: its clips from first to last side by side, and the return curve under them.
(function (tm) {
  "use strict";

  const { html, Component, number, plural, titleOf, placeOf, captionOf, Player } = tm.ui;
  const model = tm.model;
  const { cssColor } = tm.charts;
  const CURVE_HEIGHT = 280;
  const MOST_LOST = 3; // lost media that are shown unasked

  /** Put several series that have x values of their own on one x axis. */
  function align(lines) {
    const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const place = new Map(x.map((value, index) => [value, index]));
    const series = lines.map((line) => {
      const values = new Array(x.length).fill(null);
      line.x.forEach((value, index) => { values[place.get(value)] = line.y[index]; });
      return { ...line, values };
    });
    return { x, series };
  }

  class TrialView extends Component {
    state = { curves: null, problem: null, metric: null };
    held = model.memo();

    componentDidMount() {
      this.load();
      this.follow();
    }

    componentDidUpdate(before) {
      if (before.trial !== this.props.trial || this.metricsAt !== this.props.app.data.metricsAt) this.load();
      if (before.app.state !== this.props.app.state || before.trial !== this.props.trial) this.follow();
    }

    load() {
      const { app, trial } = this.props;
      this.metricsAt = app.data.metricsAt;
      tm.ui.readInto(this, "curves", app.source.trial(trial), () => trial === this.props.trial);
    }

    /** Bring the chosen clip into view. */
    follow() {
      const chosen = this.base?.querySelector(".film[aria-current=true]");
      if (!chosen || chosen === this.followed) return;
      this.followed = chosen;
      const strip = chosen.parentElement;
      strip.scrollTo({ left: chosen.offsetLeft - strip.offsetLeft - (strip.clientWidth - chosen.clientWidth) / 2,
        behavior: "auto" });
    }

    /** The metric that the chart shows: the chosen one, or else the score, or the first known return. */
    metric() {
      const names = Object.keys(this.state.curves?.metrics || {});
      const { app } = this.props;
      const wanted = [this.state.metric, app.state.score, ...model.scoresOf(app.data)];
      return wanted.find((name) => names.includes(name)) || null;
    }

    /** Lay out the chart. */
    chart(metric) {
      const { app, trial } = this.props;
      const grey = cssColor("--muted"); // a third colour may look like the trial's own
      const keys = app.data.sections[app.state.section] || [];
      const lines = keys.slice(0, 3).map((key, index) => {
        const own = model.clipsOf(trial, app.state.section, key)
          .filter((clip) => clip.return != null && clip.step != null);
        const color = index ? grey : app.colorOf(trial);
        return { label: `return of ${tm.app.keyLabel(key)} clip`, color, points: true,
          x: own.map((clip) => clip.step), y: own.map((clip) => clip.return) };
      });
      const { curves } = this.state;
      if (metric) lines.push({ label: model.scoreLabel(metric), color: cssColor("--second"), dash: [6, 4],
        x: curves.step, y: curves.metrics[metric] });
      return align(lines.filter((line) => line.x.length));
    }

    render({ app, trial }, { curves, problem }) {
      const { state } = app;
      const clips = model.clipsOf(trial, state.section, state.key);
      const metric = this.metric();
      const parts = [trial, clips, metric, curves, app.theme, app.data];
      const { x, series } = this.held(parts, () => this.chart(metric)); // the same objects are not drawn again
      const chosen = clips.find((clip) => clip.path === state.clip) || clips[clips.length - 1];
      const names = Object.keys(curves?.metrics || {});
      return html`<main class="trial-view">
        <${Heading} app=${app} trial=${trial} />
        ${curves?.tracebacks && html`<details class="tracebacks">
          <summary>${model.isFailed(trial) ? "Traceback" : "It failed, and went on: the traceback"}</summary>
          <pre class="command" tabindex="0">${curves.tracebacks}</pre></details>`}
        <${Lost} lost=${curves?.lost} />
        ${app.hasClips && html`<div class="strip" aria-label="Clips from first to last" role="list" tabindex="0">
          ${clips.map((clip) => html`<div class=${`film${tm.compare.isTicked(app, trial, clip.path) ? " ticked" : ""}`}
            role="listitem" key=${clip.path} aria-current=${clip === chosen} data-clip=${clip.path}>
            <${tm.compare.Tick} app=${app} trial=${trial} path=${clip.path} label=${`the clip of ${placeOf(clip)}`} />
            <${Player} clip=${clip} group=${app.group} label=${captionOf(clip)}
              onOpen=${() => app.open(trial, clip)} />
            <button class="film-facts" onClick=${() => app.open(trial, clip)}>
              <span>${placeOf(clip)}</span><b>${number(clip.return)}</b>${clip.rolled_back
                && html`<em title="the trial went back to an earlier checkpoint after this">rolled back</em>`}</button>
          </div>`)}
          ${!clips.length && html`<div class="muted"><${tm.tape.NoClip} app=${app} trial=${trial} /></div>`}
        </div>`}
        ${chosen && html`<${tm.compare.OfTrial} app=${app} trial=${trial} clips=${clips} chosen=${chosen} />`}
        <section class="panel">
          <div class="panel-head"><h3>${app.hasClips ? "Return over training" : "Over training"}</h3>
            ${names.length > 0 && html`<label class="field"><span>with</span>
              <select value=${metric} onChange=${(event) => this.setState({ metric: event.target.value })}>
              ${[...new Set([metric, ...model.scoresOf(app.data).filter((name) => names.includes(name)),
                ...names])].filter(Boolean).map((name) => html`
                  <option value=${name} selected=${name === metric}>${model.scoreLabel(name)}</option>`)}
            </select></label>`}
            ${clips.length > 0 && html`<span class="muted">Click on the curve to go to the clip.</span>`}</div>
          ${problem && html`<p class="problem">The results could not be read: ${problem}</p>`}
          ${x.length > 0 && html`<${tm.charts.Chart} x=${x} series=${series} xLabel="step" height=${CURVE_HEIGHT}
            theme=${app.theme} label=${`Return of ${titleOf(trial)} over training`} mark=${chosen?.step}
            onPick=${(step) => this.pick(clips, step)} />`}
        </section>
        <${tm.config.ConfigPanel} app=${app} trial=${trial} />
      </main>`;
    }

    pick(clips, step) {
      const nearest = clips.reduce((best, clip) => (!best || Math.abs(clip.step - step) < Math.abs(best.step - step)
        ? clip : best), null);
      if (nearest) this.props.app.set({ clip: nearest.path });
    }
  }

  /** The media that were lost, with the reasons: folded if they are many. A gallery has none of them. */
  function Lost({ lost }) {
    if (!lost?.count) return null;
    const { count, newest } = lost;
    return html`<details class="lost" open=${count <= MOST_LOST}>
      <summary>${count === 1 ? "1 medium was" : `${number(count)} media were`} lost${count > newest.length
        && `; the newest ${newest.length}`}</summary>
      <ul>${newest.map(({ step, tag, why }) => html`<li>
        <b>step ${number(step)}</b> ${tag}: <span class="reason">${why}</span></li>`)}</ul></details>`;
  }

  /** The trial's name, rank and hyperparameters, and the way back and on. */
  function Heading({ app, trial, children }) {
    return html`<header class="heading">
      <button onClick=${() => app.up()} title="Back (Esc)">← ${app.above}</button>
      <div class="heading-title">
        <h2 tabindex="-1"><i class="swatch" style=${{ background: app.colorOf(trial) }}></i>
          <${tm.config.Title} key=${trial.id} one=${trial} title=${trial.name} />
          ${trial === app.winner && html`<span class="badge">★ ${tm.configurations.badgeOf(app)}</span>`}
          ${trial.rank && trial !== app.winner && html`<span class="rank">#${trial.rank}</span>`}</h2>
        <p class="muted" title=${trial.name}>${trial.shownName}
          ${trial.abandoned && html` <em class="abandoned" title=${model.ABANDONED}>abandoned</em>`}
          ${trial.reported != null && html` · ${model.scoreLabel(app.state.score)} <b>${number(trial.reported)}</b>`}
          ${app.hasClips && ` · ${plural(trial.clipCount, "clip")}`}</p>
        ${model.isFailed(trial) && html`<p class="problem"><b>Failed</b>${trial.error && `: ${trial.error}`}</p>`}
      </div>
      ${children}
      <button onClick=${() => app.nextTrial(-1)} title="Previous trial (↑)" aria-label="Previous trial">↑</button>
      <button onClick=${() => app.nextTrial(1)} title="Next trial (↓)" aria-label="Next trial">↓</button>
    </header>`;
  }

  tm.trial = { TrialView, Heading, align };
})((window.tuneMedia = window.tuneMedia || {}));
