// Parallel coordinates: an axis for each hyperparameter and one for the score, a line for each trial. A range that is
// dragged on an axis goes into the filter, as if somebody had typed it.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, titleOf, captionOf, PeekClip } = tm.ui;
  const { Component } = window.htmPreact;
  const model = tm.model;
  const { isPossible } = tm.scatter;
  const SCORE = "score"; // as the filter calls it
  const MOST_AXES = 8;
  const NEAR = 14; // pixels from the pointer to a line that it is on
  const SHORTEST = 0.012; // of an axis: a shorter drag is a click, which clears
  const DIGITS = 4; // of a dragged range

  /** Return the hyperparameters that have an axis: those that matter first, or the chosen ones. */
  const namesOf = (app) => tm.scatter.shownNames(app, MOST_AXES);

  /** Return the name by which the filter knows a hyperparameter: its last part if that is enough. */
  function shortName(app, name) {
    const short = lastPart(name);
    return app.data.params.filter((other) => lastPart(other) === short).length > 1 ? name : short;
  }

  /** Return a pattern that finds the comparisons of a name that an axis writes: `lr=1..2`, `(act=relu OR act=tanh)`. */
  function patternOf(name) {
    const start = tm.filter.token(name, "").replace(/""$/, "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const one = `${start}(?:"[^"]*"|[^\\s()"]+)`;
    return new RegExp(`(?<!\\b(?:NOT|OR)\\s*)(?:^|\\s)(?:\\(${one}(?:\\sOR\\s${one})*\\)|${one})(?=\\s|$)(?!\\s+OR\\b)`, "gi");
  }

  /** Return the filter without the comparisons of a name, and with another one instead. */
  const replaced = (filter, name, token) => `${filter.replace(patternOf(name), " ")} ${token}`.replace(/\s+/g, " ").trim();

  /** Return the ends of the range of an axis that the filter has, as shares of the axis; null if it has none. */
  function brushOf(filter, axis) {
    const text = filter.match(patternOf(axis.filterName))?.[0];
    if (!text) return null;
    if (axis.isNumeric) {
      const [, low, high] = /=(-?[\d.e+-]*?)\.\.(-?[\d.e+-]*)$/i.exec(text) || [];
      if (low == null) return null;
      return [low === "" ? 0 : axis.place(Number(low)), high === "" ? 1 : axis.place(Number(high))].map((share) => Math.min(1, Math.max(0, share)));
    }
    const held = axis.groups.filter(({ value }) => text.includes(tm.filter.token(axis.filterName, value)));
    return held.length ? [Math.min(...held.map(({ at }) => at)) - axis.half, Math.max(...held.map(({ at }) => at)) + axis.half] : null;
  }

  /** Return the comparison that holds the values of an axis between two shares. */
  function tokenOf(axis, from, to) {
    if (axis.isNumeric) {
      const [low, high] = [from, to].map((share) => Number(axis.valueAt(share).toPrecision(DIGITS)));
      return tm.filter.token(axis.filterName, `${low}..${high}`);
    }
    const held = axis.groups.filter(({ at }) => at >= from && at <= to).map(({ value }) => tm.filter.token(axis.filterName, value));
    return held.length > 1 ? `(${held.join(" OR ")})` : held[0] || "";
  }

  /** Lay out the axes, and the height of each trial on each of them; null where it has none. */
  function layoutOf(app) {
    const { data, state } = app;
    const trials = data.trials.filter((trial) => !trial.abandoned).sort((a, b) => model.compare(a.score, b.score, state.smaller ? -1 : 1));
    const flipped = model.listed(state.flipped);
    const axes = namesOf(app).map((name) => {
      const axis = tm.scatter.axisOf(name, trials, flipped.includes(name));
      const groups = axis.isNumeric ? [] : [...new Map(trials.map((trial) => [trial.texts[name], { value: trial.params[name], at: axis.at(trial) }])).values()].sort((a, b) => a.at - b.at);
      return { ...axis, groups, half: 0.45 / Math.max(1, groups.length), label: lastPart(name), filterName: shortName(app, name) };
    });
    const scores = trials.map((trial) => trial.score).filter((score) => score != null);
    if (scores.length) {
      const axis = tm.scatter.numericAxis(scores, state.log);
      axes.push({ ...axis, name: SCORE, label: model.scoreLabel(state.score), filterName: SCORE, at: ({ score }) => (score == null ? null : axis.place(score)) });
    }
    const x = (at) => (axes.length > 1 ? at / (axes.length - 1) : 0.5);
    const lines = trials.map((trial, place) => ({
      trial, strength: Math.round(20 + (75 * place) / Math.max(1, trials.length - 1)), heights: axes.map((axis) => axis.at(trial)),
    }));
    for (const line of lines) {
      const points = line.heights.map((height, at) => (height == null ? null : `${(1000 * x(at)).toFixed(1)},${(100 * (1 - height)).toFixed(2)}`)).filter(Boolean);
      line.path = `M${points.join("L")}`;
    }
    return { axes, lines, x };
  }

  /** All lines; they are drawn again only if the layout or the filter has another result. */
  class Lines extends Component {
    shouldComponentUpdate(props) {
      return props.layout !== this.props.layout || props.passing !== this.props.passing;
    }

    render({ layout, passing }) {
      const drawn = [...layout.lines].sort((a, b) => passing.has(a.trial) - passing.has(b.trial));
      return html`<svg class="lines" viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">${drawn.map(({ trial, path, strength }) => html`
        <path d=${path} class=${passing.has(trial) ? (trial.rank === 1 ? "best" : model.isFailed(trial) ? "failed-line" : "") : "pale"} style=${{ "--strength": `${strength}%` }} />`)}</svg>`;
    }
  }

  class Parallel extends Component {
    constructor() {
      super();
      this.state = { drag: null, peek: null };
      this.held = model.memo();
      this.heldRows = model.memo();
    }

    share(event) {
      const { top, height } = this.place.getBoundingClientRect();
      return Math.min(1, Math.max(0, 1 - (event.clientY - top) / height));
    }

    start(event, axis) {
      event.currentTarget.setPointerCapture(event.pointerId);
      this.setState({ drag: { name: axis.name, from: this.share(event), to: this.share(event) }, peek: null });
    }

    move(event) {
      if (this.state.drag) this.setState({ drag: { ...this.state.drag, to: this.share(event) } });
    }

    end(axis) {
      const { drag } = this.state;
      if (!drag) return;
      this.setState({ drag: null });
      const [from, to] = [drag.from, drag.to].sort((a, b) => a - b);
      this.keep(axis, to - from < SHORTEST ? "" : tokenOf(axis, from, to));
    }

    /** Put the range of an axis into the filter in place of its former one. */
    keep(axis, token) {
      const { app } = this.props;
      app.set({ filter: replaced(app.state.filter, axis.filterName, token) });
    }

    /** The pointer is between two axes: choose the line that is nearest to it. */
    point(event) {
      if (this.state.drag) return;
      const box = this.place.getBoundingClientRect();
      const { axes, lines } = this.layout;
      const along = ((event.clientX - box.left) / box.width) * (axes.length - 1);
      const at = Math.min(Math.max(0, Math.floor(along)), axes.length - 2);
      let [nearest, least] = [null, NEAR];
      for (const { trial, heights } of lines) {
        if (heights[at] == null || heights[at + 1] == null || !this.passing.has(trial)) continue;
        const height = heights[at] + (along - at) * (heights[at + 1] - heights[at]);
        const distance = Math.abs((1 - height) * box.height - (event.clientY - box.top));
        if (distance < least) [nearest, least] = [trial, distance];
      }
      this.choose(nearest, (event.clientX - box.left) / box.width);
    }

    choose(trial, x) {
      if (trial === (this.state.peek?.trial || null)) return;
      this.setState({ peek: trial && { trial, x, clip: tm.grid.clipOf(trial, this.props.app.state) } });
    }

    open() {
      const { peek } = this.state;
      if (peek) this.props.app.open(peek.trial, peek.clip);
    }

    render({ app, rows }, { drag, peek }) {
      const { data, state, judged } = app;
      this.layout = this.held([data, data.metricsAt, data.winner, state.score, state.smaller, state.log, state.axes, state.flipped, judged], () => layoutOf(app));
      this.passing = this.heldRows([data, rows.map(({ trial }) => trial.number).sort().join()], () => new Set(rows.map(({ trial }) => trial)));
      const { axes, lines, x } = this.layout;
      if (axes.length < 2) return html`<section class="panel parallel"><h2>Parallel coordinates</h2><p class="muted">No trial has a score yet.</p></section>`;
      const chosen = peek && lines.find(({ trial }) => trial === peek.trial);
      return html`<section class="panel parallel">
        <div class="panel-head"><h2>Parallel coordinates</h2>
          <button class="chip" aria-pressed=${state.log} onClick=${() => app.set({ log: !state.log })} title="Logarithmic scale of the score">log</button>
          ${data.params.length > 1 && html`<button class="chip" onClick=${() => app.setState({ axing: MOST_AXES })}>${axes.length - 1} of ${plural(data.params.length, "hyperparameter")} …</button>`}
          <span class="muted">A line is a trial: the stronger its colour, the better its score; the best is gold. Drag along an axis to keep a range, which goes into the filter.</span></div>
        <div class="parallel-scroll" tabindex="0" role="region" aria-label="Parallel coordinates of the hyperparameters and the score; the filter takes the same ranges as text">
          <div class="parallel-place" style=${{ minWidth: `${92 * axes.length}px` }} ref=${(place) => { this.place = place; }} onPointerMove=${(event) => this.point(event)} onPointerLeave=${() => this.choose(null)} onClick=${() => this.open()}>
            <${Lines} layout=${this.layout} passing=${this.passing} />
            ${chosen && html`<svg class="lines" viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true"><path class="chosen" d=${chosen.path} /></svg>`}
            ${axes.map((axis, at) => html`<${Axis} key=${axis.name} axis=${axis} left=${x(at)} isLast=${at === axes.length - 1} view=${this} range=${drag?.name === axis.name ? [drag.from, drag.to].sort((a, b) => a - b) : brushOf(state.filter, axis)} />`)}
            ${peek && html`<div class="peek" style=${peek.x > 0.5 ? { right: `${100 * (1 - peek.x) + 3}%` } : { left: `${100 * peek.x + 3}%` }} role="status">
              ${peek.clip && html`<${PeekClip} key=${peek.clip.url} clip=${peek.clip} />`}
              <p title=${peek.clip ? captionOf(peek.clip) : ""}><b>${titleOf(peek.trial)}</b></p>
              <p>${model.scoreLabel(state.score)} <b>${number(peek.trial.score)}</b>${peek.trial.rank && html` <span class="rank">#${peek.trial.rank}</span>`}</p></div>`}
          </div>
        </div>
      </section>`;
    }
  }

  /** An axis: its name, its ticks, and the range that is kept. */
  function Axis({ axis, left, isLast, range, view }) {
    const title = axis.name === SCORE ? axis.label : axis.name;
    return html`<div class=${`axis${isLast ? " last" : ""}`} style=${{ left: `${100 * left}%` }}>
      <p title=${title}>${axis.label}${range && html` <button class="link" aria-label=${`Clear the range of ${title}`} title="Clear the range" onClick=${(event) => { event.stopPropagation(); view.keep(axis, ""); }}>×</button>`}</p>
      <div class="axis-line" onPointerDown=${(event) => view.start(event, axis)} onPointerMove=${(event) => view.move(event)} onPointerUp=${() => view.end(axis)} onPointerCancel=${() => view.setState({ drag: null })} onClick=${(event) => event.stopPropagation()}>
        ${range && html`<i class="kept" style=${{ bottom: `${100 * range[0]}%`, height: `${100 * (range[1] - range[0])}%` }}></i>`}
        ${axis.ticks.map(({ text, at }) => html`<span style=${{ bottom: `${100 * at}%` }} title=${text}>${text.length > 12 ? `${text.slice(0, 11)}…` : text}</span>`)}
      </div></div>`;
  }

  /** The panel, if it is wanted. */
  function ParallelPanel({ app, rows }) {
    return isPossible(app) && app.state.parallel && app.hasPicture ? html`<${Parallel} app=${app} rows=${rows} />` : null;
  }

  /** The button that shows and hides the panel. */
  function ParallelSwitch({ app }) {
    return isPossible(app) && html`<button aria-pressed=${app.state.parallel} onClick=${() => app.set({ parallel: !app.state.parallel })} title="All hyperparameters and the score as parallel axes">Parallel</button>`;
  }

  tm.parallel = { ParallelPanel, ParallelSwitch, replaced };
})((window.tuneMedia = window.tuneMedia || {}));
