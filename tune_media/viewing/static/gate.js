// A gate: its verdicts, how far the candidate is ahead on each seed and on average, and both clips of decisive seeds.
(function (tm) {
  "use strict";

  const { html, Component, number, plural, lastPart, captionOf, Player } = tm.ui;
  const { At, Axis, Bar, Plot, placeOn } = tm.verdict;
  const { percent, roundNumbers } = tm.scatter;
  const { stepOf } = tm.steps;
  const APART = 0.02; // of a plot: dots that are as far from each other do not lie above each other
  const [HEIGHT, DOT] = [84, 8]; // pixels
  const MARK = { kind: "difference", text: "the first difference", isSaid: true };

  /** Return the seeds by number: {seed, base, candidate, value, kind}; `value` is how much better the candidate is. */
  function seedsOf({ scores: { seeds, base, candidate }, at_least: floor, margin }, sign) {
    const [least, most] = floor == null ? [-margin, margin] : [floor, floor];
    return seeds.map((seed, at) => {
      const value = floor == null ? sign * (candidate[at] - base[at]) : candidate[at];
      const kind = value < least ? "lost" : value > most ? "won" : "within";
      return { seed, base: base?.[at], candidate: candidate[at], value, kind };
    }).sort((a, b) => a.seed - b.seed);
  }

  /** A plot with its axis, on which all of `ends` are; what is left of `least` is too low. */
  function Figure({ text, told, ends, least, children }) {
    const axis = [Math.min(...ends, least), Math.max(...ends, least)];
    if (axis[0] === axis[1]) axis[1] += Math.abs(axis[1]) || 1;
    const ticks = roundNumbers(...axis, (value) => value);
    const x = percent(placeOn(axis)(least));
    return html`<div class="figure"><${Axis} text=${text} axis=${axis} ticks=${ticks} />
      <div class="drawn" role="img" aria-label=${told} style=${{ height: `${HEIGHT}px` }}>
        <${Plot} axis=${axis} ticks=${ticks}><rect class="too-low" width=${x} height="100%" />
          <line class="least" x1=${x} x2=${x} y1="0" y2="100%" />${children(axis)}<//></div></div>`;
  }

  /** The seeds as dots, those with about the same value above each other. */
  function Dots({ seeds, axis }) {
    const free = []; // where each row of dots has room
    const dots = [...seeds].sort((a, b) => a.value - b.value).map((one) => {
      const x = placeOn(axis)(one.value);
      const row = [...free, -Infinity].findIndex((from) => from <= x);
      free[row] = x + APART;
      return { ...one, x, row };
    });
    const step = Math.min(DOT, (HEIGHT - DOT) / free.length);
    return dots.map(({ seed, value, kind, x, row }) => html`<circle class=${kind} r="4" cx=${percent(x)}
      cy=${HEIGHT - DOT / 2 - step * row}><title>seed ${seed}: ${number(value)}</title></circle>`);
  }

  /** The seeds won and lost, and the mean with its interval; all of that must be right of the dashed line to pass. */
  function Picture({ facts: { at_least: floor, difference, low, high, won, lost, margin }, seeds, allowed }) {
    const values = [difference, low ?? -Infinity, high ?? Infinity].map((value) => value + (floor ?? 0));
    const ends = values.slice(1).map((end) => (Number.isFinite(end) ? number(end) : "not yet"));
    const [line, name, least, zero, counted] = floor == null
      ? ["margin", "the candidate is ahead by", -margin, [0],
        `won ${won}, lost ${lost}, within the margin ${seeds.length - won - lost}`]
      : ["floor", "the candidate", floor, [], `below the floor ${lost}, not below it ${seeds.length - lost}`];
    const all = plural(seeds.length, "seed");
    return html`<div class="figures">
        <${Figure} text=${`${name}, on each seed`} told=${`${all}: ${counted}`} least=${least}
          ends=${[...zero, ...seeds.map(({ value }) => value)]}>${(axis) => html`
            <${Dots} seeds=${seeds} axis=${axis} />`}<//>
        <${Figure} text=${`${name}, on average`} least=${least} ends=${[...zero, ...values.filter(Number.isFinite)]}
          told=${`${number(values[0])}, interval ${ends.join(" to ")}, ${line} ${number(least)}`}>${(axis) => html`
            <${Bar} axis=${axis} ends=${values.slice(1)} name="interval" />
            <${At} x=${placeOn(axis)(values[0])}><path class="middle" d="M0-10v20" /><//>`}<//></div>
      <p class="muted legend">A dot is a seed: ${counted}, of ${all}; at most ${allowed} were allowed.
        Dashed: the ${line}, ${number(least)}. All of the interval must be right of it to pass.</p>`;
  }

  /** Both clips of a seed, or the candidate's, on one time line with the first step at which they differ. */
  class Seed extends tm.timeline.Following {
    held = tm.model.memo();

    load() {}

    get master() {
      return tm.timeline.masterOf(this.props.clips);
    }

    showFrame(frame) {
      this.line?.setStep(stepOf(this.followed, frame));
    }

    render({ app, clips, title, differs }) {
      const moments = this.held([differs], () => (differs == null ? [] : [{ ...MARK, step: differs }]));
      return html`<section class="seed" aria-label=${title}><div class="panel-head"><h4>${title}</h4>
          ${clips.length > 1 && html`<span class="differ">${differs == null ? "Where they begin to differ is not known."
            : `They first differ at step ${number(differs)}.`}</span>
          <button class="link" onClick=${() => tm.compare.show(app,
            clips.map(({ clip }) => [clip.trial, clip.path]))}>Compare</button>`}</div>
        <div class="side-by-side" style=${{ "--count": 2 }}>${clips.map(({ role, clip, text }) => html`
          <div class="side" key=${role} style=${{ "--row": app.colorOf(clip.trial) }}>
            <p class="side-head"><button class="name" onClick=${() => app.open(clip.trial, clip)}>${role}</button>
              <span>${text}, ${plural(clip.length ?? clip.frames, "step")}</span></p>
            <${Player} clip=${clip} group=${app.group} label=${`${role}: ${captionOf(clip)}`}
              onOpen=${() => app.group.toggle()} /></div>`)}</div>
        <${tm.timeline.Timeline} ref=${(line) => { this.line = line; }} app=${app} clips=${clips} moments=${moments}
          isBare onGo=${(step) => this.goTo(step)} /></section>`;
    }
  }

  const clipOf = (trial, seed) => trial && [...trial.groups.values()].flat().find((clip) => clip.seed === seed);

  /** A verdict: against the base or a floor, under a condition of the env. */
  class Verdict extends Component {
    held = tm.model.memo();

    /** The clips of the decisive seeds; the same objects until the data change. */
    decisive(seeds) {
      const { app, facts: { decisive, trials, at_least: floor }, gate } = this.props;
      return this.held([app.data], () => decisive.map(({ seed, differs_at: differs }) => {
        const own = seeds.find((one) => one.seed === seed);
        const by = number(Math.abs(own.value - (floor ?? 0)));
        const clips = Object.entries(trials).map(([role, id]) => ({ role, text: `${gate.metric} ${number(own[role])}`,
          clip: clipOf(app.data.byId.get(id), seed) })).filter(({ clip }) => clip);
        return { seed, differs, clips, title: `Seed ${seed}: ${floor != null ? `${by} below the floor`
          : `${own.value > 0 ? "won" : "lost"} by ${by}`}` };
      }).filter(({ clips }) => clips.length));
    }

    render({ app, facts, gate, isOne }) {
      const seeds = facts.seeds ? seedsOf(facts, gate.sign) : [];
      const shown = this.decisive(seeds);
      const { at_least: floor, condition, verdict, notes } = facts;
      const columns = Object.keys(facts.trials).map((role) => [role, role]);
      if (floor == null) columns.push(["value", "ahead by"]);
      return html`<section class="panel">
        ${!isOne && html`<h3>${floor == null ? "Against the base" : `At least ${number(floor)}`}${condition
          && `, ${condition}`}</h3>`}
        <p class=${`verdict ${verdict}`}>${!isOne && html`<b>${verdict.toUpperCase()}</b> `}${facts.sentence}</p>
        ${seeds.length > 0 && html`<${Picture} facts=${facts} seeds=${seeds} allowed=${gate.seeds.length} />`}
        <ul>${notes.map((note) => html`<li>${note}</li>`)}</ul>
        ${seeds.length > 0 && html`<details><summary>All seeds</summary><div class="table-place" tabindex="0"
          role="region" aria-label="All seeds"><table>
            <thead><tr>${[["", "seed"], ...columns].map(([, name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
            <tbody>${seeds.map((one) => html`<tr><th scope="row">${one.seed}</th>
              ${columns.map(([name]) => html`<td>${number(one[name])}</td>`)}</tr>`)}</tbody></table></div></details>`}
        ${shown.length > 0 && html`<h3>The seeds ${floor == null ? "that differ most" : "furthest below the floor"}</h3>
          <div class="decisive">${shown.map((one) => html`<${Seed} key=${one.seed} app=${app} ...${one} />`)}</div>`}
      </section>`;
    }
  }

  function GateView({ app, gate }) {
    const { conditions, base, candidate, metric, sign, problems } = gate;
    const facts = [["base", base], ["candidate", candidate], ["played", conditions[0]?.played],
      ["metric", `mean ${metric}, ${sign > 0 ? "larger" : "smaller"} is better`]].filter(([, value]) => value);
    const names = [candidate, base].filter(Boolean).map((path) => lastPart(path.replace(/\/$/, "")));
    return html`<main class="gate-view"><div class="heading"><h2 tabindex="-1" class=${`verdict ${gate.verdict}`}>
        <b>${conditions.length ? gate.verdict.toUpperCase() : "No verdict"}</b> ${names.join(" against ")}</h2></div>
      ${conditions.length ? html`<dl class="settings">${facts.map(([name, value]) => html`
          <div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
        : html`<p>The gate still plays, it was ended before its verdict, or an older version wrote it.</p>`}
      ${conditions.map((own) => html`<${Verdict} app=${app} gate=${gate} facts=${own}
        isOne=${conditions.length < 2} />`)}
      ${problems?.length > 0 && html`<section class="panel"><h3>What to know besides</h3>
        <ul>${problems.map((problem) => html`<li>${problem}</li>`)}</ul></section>`}</main>`;
  }

  tm.gate = { GateView };
})((window.tuneMedia = window.tuneMedia || {}));
