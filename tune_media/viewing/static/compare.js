// Two or more trials side by side: their clips on one clock, their series in one chart, and where they begin to differ.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, titleOf, captionOf, Player, Choice } = tm.ui;
  const { stepOf, lastStep, seriesOf, firstDifference, SO_FAR } = tm.steps;
  const model = tm.model;
  const MOST = 12;
  const MOST_STRIPS = 6;
  const SHOWN_SERIES = 2;
  const CHART_HEIGHT = 180;
  const [ANY, AUTO] = ["any", ""];

  const tickedOf = (app) => model.listed(app.state.ticked);
  const trialsOf = (app) => tickedOf(app).map((name) => app.data.named.get(name)).filter(Boolean);

  /** Tick a trial for comparing, or untick it. */
  function toggle(app, trial) {
    const ticked = tickedOf(app);
    if (ticked.includes(trial.name) || ticked.length < MOST) app.set({ ticked: model.toggled(ticked, trial.name).join("\n") });
    else app.toast(`At most ${MOST} trials can be compared`);
  }

  /** Tick the trial of the card that has the focus, or of the view. */
  function toggleFocused(app) {
    const name = document.activeElement?.closest?.("[data-trial]")?.dataset.trial || app.state.trial;
    const trial = app.data.named.get(name);
    if (!trial) return;
    toggle(app, trial);
    if (app.state.view !== "grid") app.toast(`${tickedOf(app).includes(name) ? "Not ticked any more" : "Ticked for comparing"}: ${titleOf(trial)}`);
  }

  function open(app) {
    if (tickedOf(app).length > 1) app.go({ view: "compare", trial: "", clip: "" });
    else app.toast("Tick two or more trials to compare them (x ticks the one that has the focus)");
  }

  /** The box on a card. The card itself is the stop of the Tab key, and x ticks it. */
  function Tick({ app, trial }) {
    const isTicked = tickedOf(app).includes(trial.name);
    return html`<label class="tick" title="Compare (x)"><input type="checkbox" tabindex="-1" checked=${isTicked} onChange=${() => toggle(app, trial)} aria-label=${`Compare ${titleOf(trial)}`} /></label>`;
  }

  /** What is ticked, above the bar at the bottom. */
  function Tray({ app }) {
    const trials = trialsOf(app);
    if (!trials.length || app.state.view !== "grid") return null;
    return html`<aside class="tray" aria-label="Ticked trials">
      <span class="ticked">${trials.map((trial) => html`<button class="chip" onClick=${() => toggle(app, trial)} title=${`${trial.shownName}: leave out`}>
        <i class="swatch" style=${{ background: app.colorOf(trial) }}></i><span>${titleOf(trial)}</span> ✕</button>`)}</span>
      <button class="primary" disabled=${trials.length < 2} onClick=${() => open(app)} title="Side by side, on one clock (v)">${trials.length < 2 ? "Tick another to compare" : `Compare ${trials.length}`}</button>
      <button onClick=${() => app.set({ ticked: "" })}>Clear</button></aside>`;
  }

  /** Return the clips of a trial at the step that the view shows, whatever their key: [clip, ...]. */
  function candidates(trial, state) {
    const shown = tm.grid.clipOf(trial, state);
    if (!shown) return [];
    const found = [shown];
    for (const [group, clips] of trial.groups) {
      if (JSON.parse(group)[0] !== state.section || clips.includes(shown)) continue;
      found.push(...clips.filter((clip) => clip.step === shown.step && clip.kind === "video"));
    }
    return found;
  }

  /**
   * Return the clip of each trial that is ticked: {rows: [{trial, clip}], seeds, seed}. If all have clips of an episode
   * with the same seed at this step, it is one of these, unless the user wants any.
   */
  function rowsOf(app) {
    const { state } = app;
    const trials = trialsOf(app);
    const all = trials.map((trial) => candidates(trial, state)).map((clips, at) => ({ trial: trials[at], clips }));
    const some = all.filter(({ clips }) => clips.length);
    const seedsOf = ({ clips }) => new Set(clips.map(({ seed }) => seed).filter((seed) => seed != null));
    const seeds = some.length > 1 ? [...seedsOf(some[0])].filter((seed) => some.every((one) => seedsOf(one).has(seed))).sort((a, b) => a - b) : [];
    const wanted = state.seed === AUTO ? seeds[0] : state.seed === ANY ? null : seeds.find((seed) => String(seed) === state.seed);
    const pick = (clips) => (wanted == null ? clips[0] : clips.find(({ seed }) => seed === wanted));
    return { rows: some.map(({ trial, clips }) => ({ trial, clip: pick(clips) })), without: all.filter(({ clips }) => !clips.length).map(({ trial }) => trial), seeds, seed: wanted ?? null };
  }

  class CompareView extends tm.timeline.Following {
    constructor() {
      super();
      this.state = { details: new Map(), problem: null, step: 0 };
      this.charts = new Map();
      this.heldRows = model.memo();
      this.heldLayout = model.memo();
    }

    componentDidUpdate() {
      this.load();
      this.watch();
    }

    /** Read the episodes of the clips that are shown, each once. */
    load() {
      this.asked = this.asked || new Set();
      for (const { clip } of this.rows) {
        if (this.asked.has(clip.url)) continue;
        this.asked.add(clip.url);
        this.props.app.source.clip(clip).then(
          (found) => this.ended || this.setState(({ details }) => ({ details: new Map(details).set(clip.url, found), problem: null })),
          (error) => this.ended || this.setState({ problem: error.message }),
        );
      }
    }

    /** The rows; the same objects until something changes, so that no chart is drawn again. */
    get found() {
      const { app } = this.props;
      const { ticked, section, key, step, seed } = app.state;
      return this.heldRows([app.data, app.theme, ticked, section, key, step, seed], () => {
        const found = rowsOf(app);
        const { rows } = found;
        const colors = rows.map(({ trial }) => app.colorOf(trial));
        const own = new Set(colors).size === colors.length ? colors : rows.map((_, at) => model.COLORS[at % model.COLORS.length]);
        const labels = labelsOf(rows.map(({ trial }) => trial));
        this.master = rows.reduce((best, { clip }) => (!best || lastStep(clip) > lastStep(best) ? clip : best), null);
        return { ...found, rows: rows.map((row, at) => ({ ...row, color: own[at], label: labels[at] })) };
      });
    }

    get rows() {
      return this.found.rows;
    }

    showFrame(frame) {
      const step = stepOf(this.followed, frame);
      for (const chart of this.charts.values()) chart?.setCursor(step);
      this.props.app.timeline?.setStep(step);
      if (step !== this.state.step) this.setState({ step });
    }

    /** What the episodes have in common, and where they differ. */
    layOut(rows) {
      const { app } = this.props;
      const { details } = this.state;
      const episodes = rows.map(({ clip }) => ({ clip, series: seriesOf(details.get(clip.url), clip) }));
      const isRead = rows.every(({ clip }) => details.has(clip.url));
      const names = [...new Set(episodes.flatMap(({ series }) => series.map(({ name }) => name)))]
        .filter((name) => episodes.filter(({ series }) => series.some((own) => own.name === name)).length > 1);
      const offered = [...names].sort((a, b) => Number(b === SO_FAR) - Number(a === SO_FAR)).slice(0, SHOWN_SERIES);
      const shown = app.state.lines ? names.filter((name) => model.listed(app.state.lines).includes(name)) : offered;
      const charts = shown.map((name) => ({ name, ...tm.trial.align(episodes.flatMap(({ series }, at) => {
        const own = series.find((other) => other.name === name);
        return own ? [{ label: rows[at].label, color: rows[at].color, x: own.x, y: own.y }] : [];
      })) }));
      const difference = isRead && rows.length > 1 ? firstDifference(episodes) : null;
      const ends = rows.map(({ clip, color, label }) => ({ step: lastStep(clip), kind: "end", color, text: `${label}: ${endOf(details.get(clip.url)?.record)}` }));
      const moments = [...(difference ? [{ step: difference.step, kind: "difference", text: differenceText(difference), isSaid: true }] : []), ...ends];
      const strips = rows.length > MOST_STRIPS ? rows.filter(({ clip }) => clip === this.master) : rows;
      return { names, shown, charts, difference, isRead, hasSteps: episodes.some(({ series }) => series.length), moments: moments.sort((a, b) => a.step - b.step), strips };
    }

    toggleLine(name, shown) {
      this.props.app.set({ lines: model.toggled(shown, name).join("\n") });
    }

    render({ app }, { step, problem, details }) {
      const { rows, without, seeds, seed } = this.found;
      const laid = this.heldLayout([rows, details, app.state.lines], () => this.layOut(rows));
      const last = Math.max(1, ...rows.map(({ clip }) => lastStep(clip)));
      const { strips } = laid;
      const best = Math.max(...rows.map(({ clip }) => clip.return ?? -Infinity));
      return html`<main class="compare-view">
        <header class="heading"><button onClick=${() => app.up()} title="Back (Esc)">← All trials</button>
          <div class="heading-title"><h2 tabindex="-1">Compare ${plural(rows.length, "trial")}</h2>
            <p class="muted">${seedText(rows, seeds, seed)}</p></div>
          ${seeds.length > 0 && html`<${Choice} label="Seed" values=${[...seeds.map(String), ANY]} value=${seed == null ? ANY : String(seed)}
            names=${(value) => (value === ANY ? "any seed" : `seed ${value}`)} onChange=${(value) => app.set({ seed: value })} />`}
          <button onClick=${() => app.copyLink()} title="Copy a link to this view (c)">Copy link</button></header>
        ${without.length > 0 && html`<p class="notice">Without a clip under this choice: ${without.map(titleOf).join(", ")}.</p>`}
        <div class="side-by-side" style=${{ "--count": Math.min(rows.length, 4) }}>${rows.map(({ trial, clip, color, label }) => html`
          <section class="side" key=${trial.id} data-trial=${trial.name} style=${{ "--row": color }} aria-label=${label}>
            <div class="side-head"><h3><button class="name" onClick=${() => app.go({ view: "clip", trial: trial.name, clip: clip.path })} title=${`${trial.name}: open the clip`}><i class="swatch" style=${{ background: color }}></i>${label}</button></h3>
              <button class="leave" onClick=${() => toggle(app, trial)} aria-label=${`Leave out ${label}`} title="Leave out">✕</button></div>
            <${Player} clip=${clip} group=${app.group} label=${captionOf(clip)} onOpen=${() => app.group.toggle()} isVisible />
            <dl class="side-facts">
              <div><dt>return</dt><dd class=${`big${clip.return === best && rows.length > 1 ? " top" : ""}`}>${number(clip.return)}</dd></div>
              <div><dt>length</dt><dd>${number(clip.length ?? clip.frames)}</dd></div>
              ${rows.some((own) => own.clip.step !== clip.step) && html`<div><dt>training step</dt><dd>${number(clip.step)}</dd></div>`}
              ${seed == null && clip.seed != null && html`<div><dt>seed</dt><dd>${String(clip.seed)}</dd></div>`}
              <div class="ended"><dt>env step</dt><dd>${number(Math.min(step, lastStep(clip)))}${step >= lastStep(clip) ? html` <em>${endOf(details.get(clip.url)?.record)}</em>` : ""}</dd></div>
            </dl></section>`)}</div>
        <section class="panel inside"><div class="panel-head"><h3>On one time line</h3>
            ${laid.difference && html`<button class="primary" onClick=${() => this.goTo(laid.difference.step)} title="The first env step at which a value differs">◆ First difference: step ${number(laid.difference.step)}</button> <span class="muted">${differenceText(laid.difference)}</span>`}
            ${laid.isRead && laid.hasSteps && !laid.difference && rows.length > 1 && html`<span class="muted">${laid.names.length ? "No value that they have in common differs, as long as both go on." : "They have no recorded values in common."}</span>`}
            <button class="save" onClick=${() => tm.timeline.savePicture(app, this.base, strips, "compare")} title="Save the filmstrips as a picture">Filmstrips as PNG</button></div>
          ${rows.length > 0 && html`<${tm.timeline.Timeline} key=${strips.map(({ clip }) => clip.url).join()} app=${app} clips=${strips} moments=${laid.moments} onGo=${(wanted) => this.goTo(wanted)} />`}
          ${problem && html`<p class="problem">An episode's data could not be read: ${problem}</p>`}
          ${laid.names.length > 0 && html`<div class="panel-head series-head"><h4>Series</h4>${laid.names.map((name) => html`
            <button class="chip" aria-pressed=${laid.shown.includes(name)} onClick=${() => this.toggleLine(name, laid.shown)}>${name}</button>`)}</div>`}
          ${laid.charts.map(({ name, x, series }) => html`<figure class="overlaid" key=${name}><figcaption>${name}</figcaption>
            <${tm.charts.Chart} ref=${(chart) => { if (chart) this.charts.set(name, chart); else this.charts.delete(name); }} x=${x} series=${series} xLabel="env step" height=${CHART_HEIGHT}
              theme=${app.theme} span=${[0, last]} mark=${laid.difference?.step} markColor="--fourth" label=${`${name} of ${plural(rows.length, "trial")}`} onPick=${(wanted) => this.goTo(wanted)} /></figure>`)}
          ${laid.isRead && !laid.hasSteps && html`<${tm.clip.NoSteps} app=${app} />`}
        </section>
      </main>`;
    }
  }

  const differenceText = ({ name, values }) => `${name} ${values.map((value) => number(value)).join(" / ")}`;
  const endOf = (record) => (record?.terminated === true ? "terminated" : record?.terminated === false ? "cut off" : "ended");

  /** Return what tells the trials from each other: the hyperparameters that differ among them, or their names. */
  function labelsOf(trials) {
    const names = Object.keys(trials[0]?.texts || {}).filter((name) => trials.some((trial) => trial.texts[name] !== trials[0].texts[name]));
    const labels = trials.map((trial) => names.map((name) => `${lastPart(name)} ${trial.texts[name]}`).join(" · "));
    return new Set(labels).size === trials.length && names.length ? labels : trials.map((trial) => trial.shownName);
  }

  function seedText(rows, seeds, seed) {
    if (seed != null) return `All play the same evaluation seed, ${seed}: what differs is the policy.`;
    if (seeds.length) return "Each trial shows its own clip; there are clips of equal seeds, too.";
    if (rows.some(({ clip }) => clip.seed == null)) return "The seeds of some episodes are not known, so they may begin differently.";
    return "No clips of equal seeds at this step, so the episodes begin differently. keep=\"first\" with seeded evaluations, or tune-media evaluate, gives such clips.";
  }

  tm.compare = { CompareView, Tick, Tray, toggleFocused, open, rowsOf, tickedOf };
})((window.tuneMedia = window.tuneMedia || {}));
