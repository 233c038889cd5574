// Parallel coordinates: an axis for each hyperparameter and one for the score, a line for each trial. A range that is
// dragged on an axis, or set with its handles, goes into the filter, as if somebody had typed it.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, titleOf, captionOf, PeekClip } = tm.ui;
  const { Component } = window.htmPreact;
  const model = tm.model;
  const SCORE = "score"; // as the filter calls it
  const MOST_AXES = 8;
  const NEAR = 14; // pixels from the pointer to a line that it is on

  /** Return the hyperparameters that have an axis: those that matter first, or the chosen ones. */
  const namesOf = (app) => tm.scatter.shownNames(app, MOST_AXES);

  /** Return the name by which the filter knows a hyperparameter: its last part if that is enough. */
  function shortName(app, name) {
    const short = lastPart(name);
    return app.data.params.filter((other) => lastPart(other) === short).length > 1 ? name : short;
  }

  /** Return the ends of the range of an axis that the filter has, as shares of the axis; null if it has none. */
  function brushOf(filter, axis) {
    if (axis.isNumeric) {
      const ends = tm.range.endsIn(filter, axis.filterName);
      return ends && ends.map((end) => (Number.isFinite(end) ? Math.min(1, Math.max(0, axis.place(end))) : end > 0 ? 1 : 0));
    }
    const text = tm.range.tokenIn(filter, axis.filterName);
    const held = axis.groups.filter(({ value }) => text.includes(tm.filter.token(axis.filterName, value)));
    return held.length ? [Math.min(...held.map(({ at }) => at)) - axis.half, Math.max(...held.map(({ at }) => at)) + axis.half] : null;
  }

  /** Return the comparison that holds the values of an axis between two shares. */
  function tokenOf(axis, [from, to]) {
    if (axis.isNumeric) return tm.range.tokenOf(axis.filterName, [from, to], (share) => axis.stops.find(({ at }) => at === share)?.value ?? axis.valueAt(share), axis.isLog);
    const held = axis.groups.filter(({ at }) => at >= from && at <= to).map(({ value }) => tm.filter.token(axis.filterName, value));
    return held.length > 1 ? `(${held.join(" OR ")})` : held[0] || "";
  }

  /** Return the different values of an axis from its lower end, each with its share of the axis and its text. */
  function stopsOf(trials, at, valueOf, textOf) {
    const stops = new Map();
    for (const trial of trials) if (at(trial) != null) stops.set(valueOf(trial), { at: at(trial), value: valueOf(trial), text: textOf(trial) });
    return [...stops.values()].sort((a, b) => a.at - b.at);
  }

  /** Lay out the axes, and the height of each trial on each of them; null where it has none. */
  function layoutOf(app) {
    const { data, state } = app;
    const trials = data.trials.filter((trial) => !trial.abandoned).sort((a, b) => model.compare(a.score, b.score, state.smaller ? -1 : 1));
    const flipped = model.listed(state.flipped);
    const axes = namesOf(app).map((name) => {
      const axis = tm.scatter.axisOf(name, trials, flipped.includes(name));
      const stops = stopsOf(trials, axis.at, (trial) => (axis.isNumeric ? trial.params[name] : trial.texts[name]), (trial) => trial.texts[name]);
      const groups = axis.isNumeric ? [] : [...new Map(trials.map((trial) => [trial.texts[name], { value: trial.params[name], at: axis.at(trial) }])).values()].sort((a, b) => a.at - b.at);
      return { ...axis, groups, stops, half: 0.45 / Math.max(1, groups.length), label: lastPart(name), filterName: shortName(app, name) };
    });
    const scores = trials.map((trial) => trial.score).filter((score) => score != null);
    if (scores.length) {
      const axis = tm.scatter.numericAxis(scores, state.log);
      const at = ({ score }) => (score == null ? null : axis.place(score));
      axes.push({ ...axis, name: SCORE, label: model.scoreLabel(state.score), filterName: SCORE, at, stops: stopsOf(trials, at, ({ score }) => score, ({ score }) => number(score)) });
    }
    const x = (at) => (axes.length > 1 ? at / (axes.length - 1) : 0.5);
    const lines = trials.map((trial, place) => ({
      trial, strength: scores.length ? Math.round(20 + (75 * place) / Math.max(1, trials.length - 1)) : 60, heights: axes.map((axis) => axis.at(trial)),
    }));
    for (const line of lines) {
      const points = line.heights.map((height, at) => (height == null ? null : `${(1000 * x(at)).toFixed(1)},${(100 * (1 - height)).toFixed(2)}`)).filter(Boolean);
      line.path = `M${points.join("L")}`;
    }
    return { axes, lines, x, unscored: trials.length - scores.length, hasScores: scores.length > 0 };
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

  class Parallel extends tm.range.Dragging {
    constructor() {
      super();
      this.state = { drag: null, peek: null };
      this.held = model.memo();
      this.heldRows = model.memo();
      this.isVertical = true;
    }

    /** Put the range of an axis into the filter in place of its former one; null clears it. */
    keep(range, axis) {
      const { app } = this.props;
      app.set({ filter: tm.range.replaced(app.state.filter, axis.filterName, range ? tokenOf(axis, range) : "") });
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
      const { axes, lines, x, unscored, hasScores } = this.layout;
      if (axes.length < 2) return html`<section class="panel parallel"><h2>Parallel coordinates</h2><${tm.scatter.NoScore} app=${app} /></section>`;
      const chosen = peek && lines.find(({ trial }) => trial === peek.trial);
      return html`<section class="panel parallel">
        <div class="panel-head"><h2>Parallel coordinates</h2>
          ${hasScores && html`<button class="chip" aria-pressed=${state.log} onClick=${() => app.set({ log: !state.log })} title="Logarithmic scale of the score">log</button>`}
          ${data.params.length > 1 && html`<button class="chip" onClick=${() => app.show(tm.scatter.Axes, { most: MOST_AXES })}>${axes.length - hasScores} of ${plural(data.params.length, "hyperparameter")} …</button>`}
          <span class="muted">A line is a trial${hasScores ? ": the stronger its colour, the better its score; the best is gold" : ""}. Drag along an axis, or move its handles, to keep a range, which goes into the filter.${hasScores && unscored ? ` ${plural(unscored, "trial")} without a score ${unscored > 1 ? "end" : "ends"} before the last axis.` : ""}</span></div>
        ${!hasScores && html`<${tm.scatter.NoScore} app=${app} />`}
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
      <p title=${title}>${axis.label}${range && html` <button class="link" aria-label=${`Clear the range of ${title}`} title="Clear the range" onClick=${(event) => { event.stopPropagation(); view.keep(null, axis); }}>×</button>`}</p>
      <div class="axis-line" onPointerDown=${(event) => view.start(event, axis)} onPointerMove=${(event) => view.move(event)} onPointerUp=${() => view.end(axis)} onPointerCancel=${() => view.setState({ drag: null })} onClick=${(event) => event.stopPropagation()}>
        <${tm.range.Range} name=${title} range=${range} stops=${axis.stops.map(({ at }) => at)} textOf=${(at) => axis.stops[at].text} isVertical onKeep=${(ends) => view.keep(ends, axis)} onGrab=${(event, other) => view.start(event, axis, other)} />
        ${axis.ticks.map(({ text, at }) => html`<span style=${{ bottom: `${100 * at}%` }} title=${text}>${text.length > 12 ? `${text.slice(0, 11)}…` : text}</span>`)}
      </div></div>`;
  }

  const ParallelPanel = tm.scatter.panelOf(Parallel, "parallel");
  const ParallelSwitch = tm.scatter.switchOf("Parallel", "parallel", "All hyperparameters and the score as parallel axes");

  tm.parallel = { ParallelPanel, ParallelSwitch };
})((window.tuneMedia = window.tuneMedia || {}));
