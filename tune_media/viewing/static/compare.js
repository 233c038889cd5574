// Two or more clips side by side, of trials or of steps and episodes of one: on one clock, with their series in one
// chart, and where they begin to differ.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, titleOf, captionOf, Player, Choice } = tm.ui;
  const { stepOf, lastStep, seriesOf, firstDifference, SO_FAR } = tm.steps;
  const { seedOf, startOf, forkedAt } = tm.forks;
  const model = tm.model;
  const MOST = 12;
  const MOST_STRIPS = 6;
  const SHOWN_SERIES = 2;
  const CHART_HEIGHT = 180;
  const [ANY, AUTO, EQUAL] = ["any", "", "equal"]; // a seed that clips of the chosen key have in common; of any key

  const tickedOf = (app) => model.listed(app.state.ticked);
  const textOf = (trial, path, label) => [trial.name, path, label].filter(Boolean).join("\t");

  /** Return what is compared, or ticked: [{text, trial, path}]. Without a path, the choice above says which clip. */
  function picksOf(app, state = app.state) {
    return [...new Set(model.listed(state.compared || state.ticked))].map((text) => {
      const [name, path = ""] = text.split("\t");
      return { text, trial: app.data.named.get(name), path };
    }).filter(({ trial }) => trial);
  }

  /** Whether ticked clips are compared, not trials, or a gate's: a choice of a section, key or step changes none. */
  const isFixed = (app) => app.data.gate || (app.state.view === "compare" && picksOf(app).every(({ path }) => path));

  /** Tick a trial, or one of its clips, for comparing; or untick it. */
  function toggle(app, text) {
    const ticked = tickedOf(app);
    if (ticked.includes(text) || ticked.length < MOST) app.set({ ticked: model.toggled(ticked, text).join("\n") });
    else app.toast(`At most ${MOST} can be compared`);
  }

  /** Tick the trial of the card that has the focus, or what the view shows. */
  function toggleFocused(app) {
    const { state, clip } = app;
    const film = document.activeElement?.closest?.(".film")?.dataset.clip;
    const name = document.activeElement?.closest?.("[data-trial]")?.dataset.trial || state.trial;
    const trial = app.data.named.get(name);
    if (!trial) return;
    const text = textOf(trial, film || (state.view === "clip" && clip ? clip.path : ""));
    toggle(app, text);
    const change = tickedOf(app).includes(text) ? "Not ticked any more" : "Ticked for comparing";
    if (state.view !== "grid") app.toast(`${change}: ${titleOf(trial)}`);
  }

  function open(app) {
    if (tickedOf(app).length > 1) show(app, [], EQUAL);
    else app.toast("Tick two or more trials or clips to compare them (x ticks the one that has the focus)");
  }

  /** Compare trials, [trial], or clips, [trial, path] or [trial, path, label], and tick none; if none, the ticked. */
  function show(app, picks, seed = AUTO) {
    app.go({ view: "compare", trial: "", clip: "", seed,
      compared: picks.map((pick) => textOf(...pick)).join("\n") });
  }

  /** Leave one out of what is compared, or untick it; without the last one, there is nothing to compare. */
  function leaveOut(app, text) {
    const name = app.state.compared ? "compared" : "ticked";
    const left = model.toggled(model.listed(app.state[name]), text).join("\n");
    app.set({ [name]: left, ...(left ? {} : { view: "grid" }) });
  }

  const isTicked = (app, trial, path) => tickedOf(app).includes(textOf(trial, path));

  /** The box of a trial, or a clip. A card is itself the stop of the Tab key; x ticks what has the focus. */
  function Tick({ app, trial, path, label = titleOf(trial), isStop }) {
    return html`<label class="tick" title="Compare (x)">
      <input type="checkbox" tabindex=${isStop ? 0 : -1} checked=${isTicked(app, trial, path)}
        onChange=${() => toggle(app, textOf(trial, path))} aria-label=${`Compare ${label}`} /></label>`;
  }

  /** Under a trial's clips: its first and last clip, and at the chosen step its clips of each kind. */
  function OfTrial({ app, trial, clips, chosen }) {
    const [first, last] = [clips[0], clips[clips.length - 1]];
    const keys = app.data.sections[app.state.section] || [];
    const clipOf = (key) => model.clipsOf(trial, app.state.section, key).find(({ step }) => step === chosen.step);
    const kinds = keys.map(clipOf) // of equal paths once: the first episode may be the best
      .filter((clip, at, all) => clip && all.findIndex((other) => other?.path === clip.path) === at);
    if (first === last && kinds.length < 2) return null;
    const names = kinds.map(({ key }) => tm.app.keyLabel(key)).join(", ");
    return html`<p class="compare-these"><span class="muted">Compare</span>
      ${first !== last && html`<button onClick=${() => show(app, [[trial, first.path], [trial, last.path]])}>
        first and last step</button>`}
      ${kinds.length > 1 && html`<button onClick=${() => show(app, kinds.map((clip) => [trial, clip.path]))}>
        ${names} at step ${number(chosen.step)}</button>`}
      <span class="muted">or tick any clips (x).</span></p>`;
  }

  /** Return the clips of a trial, of every key, at the last step that the grid shows. */
  function newestOf({ data, state: { section, step } }, trial) {
    const clips = (data.sections[section] || []).flatMap((key) => model.clipsOf(trial, section, key))
      .filter((clip) => clip.return != null && !clip.rolled_back && !(clip.step > step)); // "last" is no number
    const newest = Math.max(...clips.map((clip) => clip.step));
    return [...new Map(clips.filter((clip) => clip.step === newest).map((clip) => [clip.path, clip])).values()];
  }

  /** Return the number of the newest clips of a configuration's runs, and its worst, its median and its best. */
  function kindsOf(app, one) {
    const clips = one.counting.flatMap((trial) => newestOf(app, trial)).sort((a, b) => a.return - b.return);
    const [worst, median, best] = [clips[0], clips[(clips.length - 1) >> 1], clips[clips.length - 1]];
    return { count: clips.length, ...(clips.length > 1 && { worst }), ...(clips.length > 2 && { median }),
      ...(clips.length && { best }) };
  }

  /** The link on a configuration's card to its worst, its median and its best clip: of the newest of all its runs. */
  function BestAndWorst({ app, one }) {
    const { count, ...kinds } = kindsOf(app, one);
    if (one.counting.length < 2 || count < 2) return null;
    const shown = Object.entries(kinds).map(([label, clip]) => [clip, label]);
    return html`<button class="link best-worst" tabindex="-1"
      title=${`The worst, the median and the best of the ${count} newest clips of its runs, side by side (m)`}
      onClick=${() => show(app, shown.map(([clip, label]) => [clip.trial, clip.path, label]))}>worst … best</button>`;
  }

  /** The button of the clip's view that ticks it. */
  function ClipTick({ app, clip }) {
    return html`<button aria-pressed=${isTicked(app, clip.trial, clip.path)}
      onClick=${() => toggle(app, textOf(clip.trial, clip.path))}
      title="Tick this clip, and then others, to compare them (x)">Compare …</button>`;
  }

  /** What is ticked, above the bar at the bottom. */
  function Tray({ app }) {
    const picks = picksOf(app);
    const told = (trial, clip) => clip ? captionOf(clip) : titleOf(trial) + (clip == null ? ": its clip is gone" : "");
    if (!picks.length || ["compare", "gate"].includes(app.state.view)) return null;
    return html`<aside class="tray" aria-label="Ticked for comparing">
      <span class="ticked">${picks.map(({ text, trial, path }) => html`<button class="chip"
        onClick=${() => toggle(app, text)} title=${`${trial.shownName}: leave out`}>
        <i class="swatch" style=${{ background: app.colorOf(trial) }}></i>
        <span>${told(trial, path && app.clipNamed(trial, path))}</span> ✕</button>`)}</span>
      <button class="primary" disabled=${picks.length < 2} onClick=${() => open(app)}
        title="Side by side, on one clock (v)">
          ${picks.length < 2 ? "Tick another to compare" : `Compare ${picks.length}`}</button>
      <button onClick=${() => app.set({ ticked: "" })}>Clear</button></aside>`;
  }

  /** Return the clips among which a pick has its own, first the one that it shows without a wish for a seed. */
  function candidates(app, { trial, path }) {
    const { state } = app;
    const shown = path ? app.clipNamed(trial, path) : tm.grid.clipOf(trial, state);
    if (!shown) return [];
    const others = [...trial.groups].filter(([group]) => JSON.parse(group)[0] === shown.section)
      .flatMap(([, clips]) => clips)
      .filter((clip) => clip !== shown && clip.step === shown.step && clip.kind === "video" && !clip.rolled_back);
    return [shown, ...others];
  }

  /** Return the seeds that some lists of clips have in common. */
  function commonSeeds(lists) {
    if (lists.length < 2) return [];
    const [first, ...others] = lists.map((clips) => new Set(clips.map(seedOf).filter((seed) => seed != null)));
    return [...first].filter((seed) => others.every((own) => own.has(seed))).sort((a, b) => a - b);
  }

  /**
   * Return the clip of each pick: {rows: [{trial, path, text, clip}], without, seeds: [{seed, name}], seed}. If the
   * clips of the chosen key and the ticked clips have a seed in common, each pick shows its clip of that seed; of
   * trials, a comparison may begin with one that only clips of other keys have in common, if possible of one key.
   */
  function rowsOf(app) {
    const { state } = app;
    const all = picksOf(app).map((pick) => {
      const clips = candidates(app, pick);
      return { ...pick, clips, own: pick.path ? clips.slice(0, 1) : clips.filter(({ key }) => key === state.key) };
    });
    const some = all.filter(({ clips }) => clips.length);
    const wish = (seed) => some.map(({ clips, own }) => own.find((clip) => seedOf(clip) === seed)
      || clips.find((clip) => seedOf(clip) === seed));
    const own = commonSeeds(some.map((one) => one.own));
    const keysOf = (seed) => [...new Set(wish(seed).map(({ key }) => tm.app.keyLabel(key)))];
    const others = commonSeeds(some.map(({ clips }) => clips))
      .filter((seed) => !own.includes(seed) && new Set(wish(seed)).size === some.length)
      .sort((a, b) => keysOf(a).length - keysOf(b).length);
    const seeds = [...own.map((seed) => ({ seed, name: `seed ${seed}` })),
      ...others.map((seed) => ({ seed, name: `seed ${seed} (${keysOf(seed).join(", ")})` }))];
    const isOfTrials = some.every(({ path }) => !path);
    const wanted = state.seed === EQUAL && isOfTrials ? seeds[0]?.seed : [AUTO, EQUAL].includes(state.seed) ? own[0]
      : seeds.find(({ seed }) => String(seed) === state.seed)?.seed;
    const clips = wanted == null ? some.map((one) => one.clips[0]) : wish(wanted);
    return { rows: some.map(({ trial, path, text }, at) => ({ trial, path, text, clip: clips[at] })),
      without: all.filter((one) => !one.clips.length), seeds, seed: wanted ?? null };
  }

  class CompareView extends tm.timeline.Following {
    state = { details: new Map(), problem: null, step: 0 };
    charts = new Map();
    heldRows = model.memo();
    heldLayout = model.memo();

    componentDidUpdate() {
      this.load();
      this.watch();
    }

    /** Read the episodes of the clips that are shown, each once. */
    load() {
      this.asked = this.asked || new Set();
      for (const { clip } of this.rows) {
        if (clip.tape || this.asked.has(clip.url)) continue;
        this.asked.add(clip.url);
        this.props.app.source.clip(clip).then(
          (found) => this.keep(({ details }) => ({ details: new Map(details).set(clip.url, found), problem: null })),
          (error) => this.keep({ problem: error.message }),
        );
      }
    }

    keep(patch) {
      if (!this.ended) this.setState(patch);
    }

    /** The rows; the same objects until something changes, so that no chart is drawn again. */
    get found() {
      const { app } = this.props;
      const { ticked, compared, section, key, step, seed } = app.state;
      return this.heldRows([app.data, app.theme, app.tapes.version, ticked, compared, section, key, step, seed], () => {
        const found = rowsOf(app);
        const { rows } = found;
        const colors = rows.map(({ trial }) => app.colorOf(trial));
        const own = new Set(colors).size === colors.length ? colors
          : rows.map((_, at) => model.COLORS[at % model.COLORS.length]);
        const labels = labelsOf(rows);
        this.master = tm.timeline.masterOf(rows.filter(({ clip }) => !clip.isUnplayed));
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

    /** What is known of a clip's episode, once it has been read. */
    detailsOf(clip) {
      return clip.tape ? clip.details : this.state.details.get(clip.url);
    }

    /** What the episodes have in common, and where they differ. */
    layOut(rows) {
      const { app } = this.props;
      const episodes = rows.map(({ clip }) => ({ clip, series: seriesOf(this.detailsOf(clip), clip) }));
      const isRead = rows.every(({ clip }) => this.detailsOf(clip));
      const names = [...new Set(episodes.flatMap(({ series }) => series.map(({ name }) => name)))]
        .filter((name) => episodes.filter(({ series }) => series.some((own) => own.name === name)).length > 1);
      const offered = [...names].sort((a, b) => Number(b === SO_FAR) - Number(a === SO_FAR)).slice(0, SHOWN_SERIES);
      const shown = app.state.lines ? names.filter((name) => model.listed(app.state.lines).includes(name)) : offered;
      const charts = shown.map((name) => ({ name, ...tm.trial.align(episodes.flatMap(({ series }, at) => {
        const own = series.find((other) => other.name === name);
        return own ? [{ label: rows[at].label, color: rows[at].color, x: own.x, y: own.y }] : [];
      })) }));
      const starts = rows.map(({ clip }) => startOf(clip, this.detailsOf(clip)));
      const isOneStart = starts.every((start) => start != null && start === starts[0]);
      const areTold = starts.every(Number.isFinite); // by tapes
      const difference = isRead && isOneStart && rows.length > 1 ? firstDifference(episodes) : null;
      const ends = rows.map(({ clip, color, label }) => ({ step: lastStep(clip), kind: "end", color,
        text: `${label}: ${endOf(this.detailsOf(clip)?.record)}` }));
      const forks = rows.flatMap(({ clip, color }) => tm.forks.forkMoments(clip)
        .map((moment) => ({ ...moment, color })));
      const moments = [...forks, ...ends];
      if (difference) {
        const text = differenceText(difference);
        moments.unshift({ step: difference.step, kind: "difference", text, isSaid: true });
      }
      const strips = rows.filter(({ clip }) => (rows.length > MOST_STRIPS ? clip === this.master : !clip.isUnplayed));
      return { names, shown, charts, difference, isRead, isOneStart, areTold,
        hasSteps: episodes.some(({ series }) => series.length),
        hasActions: episodes.every(({ series }) => series.some(({ role }) => role === "action")),
        moments: moments.sort((a, b) => a.step - b.step), strips };
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
      const policies = [...new Set(rows.map(({ trial }) => trial))];
      return html`<main class="compare-view">
        <header class="heading"><button onClick=${() => app.up()} title="Back (Esc)">← ${app.above}</button>
          <div class="heading-title">
            <h2 tabindex="-1">Compare ${plural(rows.length, rows.some(({ path }) => path) ? "clip" : "trial")}</h2>
            <p class="muted">${seedText(rows, seeds, seed, laid.areTold && !laid.isOneStart)}</p></div>
          ${seeds.length > 0 && html`<${Choice} label="Seed" values=${[...seeds.map((one) => String(one.seed)), ANY]}
            value=${seed == null ? ANY : String(seed)}
            names=${(value) => seeds.find((one) => String(one.seed) === value)?.name || "any seed"}
            onChange=${(value) => app.set({ seed: value })} />`}
          ${policies.length === 2 && !app.data.gate && !policies.some(({ fork }) => fork) && html`
            <${tm.commands.Button} app=${app} label="Decide …"
              title="Commands that play both policies on equal seeds" found=${tm.commands.comparing(app, policies)} />`}
          <button onClick=${() => app.copyLink()} title="Copy a link to this view (c)">Copy link</button></header>
        ${without.length > 0 && html`<p class="notice">
          Without a clip under this choice: ${without.map(({ trial }) => titleOf(trial)).join(", ")}.</p>`}
        <div class="side-by-side" style=${{ "--count": Math.min(rows.length, 4) }}>
          ${rows.map(({ trial, clip, text, color, label }) => html`
            <section class="side" key=${text} data-trial=${trial.name} style=${{ "--row": color }} aria-label=${label}>
              <div class="side-head">
                <h3><button class="name" onClick=${() => app.open(trial, clip)} title=${`${trial.name}: open the clip`}>
                  <i class="swatch" style=${{ background: color }}></i>${label}</button></h3>
                <button class="leave" onClick=${() => leaveOut(app, text)} aria-label=${`Leave out ${label}`}
                  title="Leave out">✕</button></div>
              ${clip.isUnplayed ? html`<${tm.tape.Stage} app=${app} clip=${clip} />` : html`<${Player} clip=${clip}
                group=${app.group} label=${captionOf(clip)} onOpen=${() => app.group.toggle()} isVisible />`}
              <dl class="side-facts">
                <div><dt>return</dt><dd class=${`big${clip.return === best && rows.length > 1 ? " top" : ""}`}>
                  ${number(clip.return)}</dd></div>
                <div><dt>length</dt><dd>${number(clip.length ?? clip.frames)}</dd></div>
                ${rows.some((own) => own.clip.step !== clip.step) && html`<div><dt>training step</dt>
                  <dd>${number(clip.step)}</dd></div>`}
                ${(clip.key !== app.state.key || rows.some((own) => own.clip.key !== clip.key)) && html`<div>
                  <dt>clip</dt><dd class="side-key">
                    ${clip.tape ? "from its tape" : tm.app.keyLabel(clip.key)}</dd></div>`}
                ${seed == null && clip.seed != null && html`<div>
                  <dt>${seedOf(clip) == null ? "continuation" : "episode seed"}</dt>
                  <dd>${String(clip.seed)}</dd></div>`}
                <div class="ended"><dt>env step</dt><dd>${number(Math.min(step, lastStep(clip)))}
                  ${step >= lastStep(clip) ? html` <em>${endOf(this.detailsOf(clip)?.record)}</em>` : ""}</dd></div>
              </dl></section>`)}</div>
        <section class="panel inside"><div class="panel-head"><h3>On one time line</h3>
            ${laid.difference && html`<button class="primary" onClick=${() => this.goTo(laid.difference.step)}
              title="The first env step at which an action differs; if none does, an observation, a reward, or a value">
                ◆ First difference: step ${number(laid.difference.step)}</button>${" "}
              <span class="muted">${differenceText(laid.difference)}</span>`}
            ${laid.isRead && laid.hasSteps && !laid.difference && rows.length > 1 && html`<span class="muted">
              ${!laid.isOneStart ? "A first difference needs episodes that are known to begin alike."
                : laid.names.length ? "No value that they have in common differs, as long as both go on."
                : "They have no recorded values in common."}
              ${laid.isOneStart && !laid.hasActions
                && " To see where actions differ, record with trajectories=True."}</span>`}
            ${strips.length > 0 && html`<button class="save" title="Save the filmstrips as a picture"
              onClick=${() => tm.timeline.savePicture(app, this.base, strips, "compare")}>
              Filmstrips as PNG</button>`}</div>
          ${strips.length > 0 && html`<${tm.timeline.Timeline} key=${strips.map(({ clip }) => clip.url).join()}
            app=${app} clips=${strips} moments=${laid.moments} onGo=${(wanted) => this.goTo(wanted)} />`}
          ${problem && html`<p class="problem">An episode's data could not be read: ${problem}</p>`}
          ${laid.names.length > 0 && html`<div class="panel-head series-head">
            <h4>Series</h4>${laid.names.map((name) => html`
              <button class="chip" aria-pressed=${laid.shown.includes(name)}
                onClick=${() => this.toggleLine(name, laid.shown)}>${name}</button>`)}</div>`}
          ${laid.charts.map(({ name, x, series }) => html`<figure class="overlaid" key=${name}>
            <figcaption>${name}</figcaption>
            <${tm.charts.Chart} ref=${(chart) => this.charts.set(name, chart)} x=${x} series=${series} xLabel="env step"
              height=${CHART_HEIGHT} theme=${app.theme} span=${[0, last]} mark=${laid.difference?.step}
              markColor="--fourth" label=${`${name} of ${plural(rows.length, "episode")}`}
              onPick=${(wanted) => this.goTo(wanted)} /></figure>`)}
          ${laid.isRead && !laid.hasSteps && html`<${tm.clip.NoSteps} app=${app} />`}
        </section>
      </main>`;
    }
  }

  const differenceText = ({ name, values }) => `${name} ${values.map((value) => number(value)).join(" / ")}`;
  const endOf = (record) => (record?.terminated === true ? "terminated"
    : record?.terminated === false ? "cut off" : "ended");

  /** Return labels that differ: hyperparameters or names of the trials, then the step, the kind of clip, the seed. */
  function labelsOf(rows) {
    const trials = [...new Set(rows.map(({ trial }) => trial))];
    const names = (trials[0]?.order.names || [])
      .filter((name) => trials.some((trial) => trial.texts[name] !== trials[0].texts[name]));
    const texts = trials.map((trial) => names.map((name) => `${lastPart(name)} ${trial.texts[name]}`).join(" · "));
    const own = new Set(texts).size === trials.length && names.length ? texts : trials.map((trial) => trial.shownName);
    const nameOf = (trial) => tm.forks.titleOf(trial) || own[trials.indexOf(trial)];
    let labels = rows.map(({ trial, text }) =>
      [text.split("\t")[2], trials.length > 1 && nameOf(trial)].filter(Boolean).join(" · "));
    const facts = [({ clip }) => `step ${number(clip.step)}`,
      ({ clip }) => (clip.tape ? "from a tape" : tm.app.keyLabel(clip.key)),
      ({ clip }) => `${seedOf(clip) === clip.seed ? "seed" : "continuation"} ${clip.seed ?? "unknown"}`,
      ({ clip }) => `return ${number(clip.return)}`,
      ({ clip }) => (clip.tape ? `episode ${clip.tape.wanted.episode.slice(0, 8)}` : clip.file)];
    for (const fact of facts) {
      const found = rows.map(fact);
      if (new Set(labels).size === rows.length || new Set(found).size < 2) continue;
      labels = labels.map((label, at) => [label, found[at]].filter(Boolean).join(" · "));
    }
    return labels.map((label) => label || titleOf(rows[0].trial)); // one clip of one trial is left
  }

  function seedText(rows, seeds, seed, isOther) {
    const isOfOne = new Set(rows.map(({ trial }) => trial)).size < 2;
    if (seed != null) return isOther
      ? `All have the seed ${seed}, and yet begin differently: the env ignores it.`
      : `All play the same evaluation seed, ${seed}: what differs is the policy.`;
    if (seeds.length) return `Each ${isOfOne ? "" : "trial "}shows its own clip; there are clips of equal seeds, too.`;
    if (rows.some(({ trial }) => forkedAt(trial) != null)) {
      const isSame = new Set(rows.map(({ trial }) => trial.fork?.from)).size === 1;
      return isSame ? "All are one episode up to the fork: what differs is who acts after it."
        : "A continuation begins as the episode that it continues, not by a seed of its own.";
    }
    const isUnknown = rows.some(({ clip }) => clip.seed == null);
    if (isUnknown) return "The seeds of some episodes are not known, so they may begin differently.";
    if (rows.some(({ path }) => path)) return "These episodes have different seeds, so they begin differently.";
    return "No clips of equal seeds at this step, so the episodes begin differently. " +
      "keep=\"first\" with seeded evaluations, or tune-media evaluate, gives such clips.";
  }

  tm.compare = { CompareView, Tick, ClipTick, OfTrial, BestAndWorst, kindsOf, show, Tray, isTicked, toggleFocused,
    open, rowsOf, picksOf, isFixed };
})((window.tuneMedia = window.tuneMedia || {}));
