// Each hyperparameter against the score: a small chart for each, all with the same score axis and the same trials.
(function (tm) {
  "use strict";

  const { html, Component, number, plural, lastPart, titleOf, Checks } = tm.ui;
  const model = tm.model;
  const { listed } = model;
  const MOST_CHARTS = 6; // unless others are chosen
  const MOST_TICKS = 6;
  const CLOSEST_TICKS = 0.13; // of the axis
  const LOG_FROM = 20; // the largest value is so many times the smallest: the axis is logarithmic
  const NONE = 0.2; // of the chart: the place of trials whose hyperparameter is no finite number, before the others
  const EDGE = 0.11; // of the chart, at each end of an axis: room for a dot that stands aside
  const FLOOR = 0.035; // of the chart: where a trial without a score is
  const NEAR = 28; // pixels from the pointer to a trial that it is on
  const STEP_ASIDE = 7; // pixels between trials with the same value, at most
  const ASIDE = 28; // pixels that they take together, at most

  const percent = (share) => `${(100 * share).toFixed(2)}%`;

  /** Return the hyperparameters that have a chart: the chosen ones, or those that matter and configurations' first. */
  function shownNames(app) {
    const { params } = app.data;
    const chosen = listed(app.state.axes).filter((name) => params.includes(name));
    if (chosen.length) return chosen;
    const first = app.judged ? params.filter((name) => app.judged.names.includes(name)) : params;
    return [...new Set([...tm.importance.mattering(app).filter((name) => params.includes(name)), ...first,
      ...params])].slice(0, MOST_CHARTS);
  }

  const nearOne = (value) => -Math.log(1 - value); // 0.9, 0.99 and 0.999, such as gamma, have equal distances
  const linear = (value) => value;

  /** Return how a hyperparameter's values are spread over an axis: by what tells them apart. */
  function spreadingOf(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (low > 0 && high >= LOG_FROM * low) return Math.log;
    return low >= 0.5 && high < 1 && 1 - low >= LOG_FROM * (1 - high) ? nearOne : linear;
  }

  /** Return a function from values to shares of an axis. */
  function scaleOf(values, place) {
    const low = Math.min(...values);
    const span = place(Math.max(...values)) - place(low);
    return (value) => (span ? EDGE + ((1 - 2 * EDGE) * (place(value) - place(low))) / span : 0.5);
  }

  /** Return round numbers between two others. */
  function roundNumbers(low, high, spreading) {
    if (!(high > low)) return [low];
    const toOne = (value) => Number((1 - value).toPrecision(12)); // 0.001 and no more, of 0.999
    if (spreading === nearOne) return roundNumbers(toOne(high), toOne(low), Math.log).map(toOne);
    if (spreading === Math.log && high / low >= 10) {
      const powers = Array.from({ length: Math.floor(Math.log10(high)) - Math.ceil(Math.log10(low)) + 1 },
        (_, at) => 10 ** (Math.ceil(Math.log10(low)) + at));
      const every = Math.ceil(powers.length / MOST_TICKS);
      return powers.filter((_, at) => at % every === 0);
    }
    const rough = (high - low) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 },
      (_, at) => Number(((first + at) * step).toPrecision(12)));
  }

  /** Return the axis of a hyperparameter: where each trial is, and the ticks. */
  function axisOf(name, trials) {
    const isOther = (trial) => tm.filter.isLacking(trial.params[name]) || Math.abs(trial.params[name]) === Infinity;
    const values = trials.filter((trial) => !isOther(trial)).map((trial) => trial.params[name]);
    const isNumeric = values.length > 0 && values.every((value) => typeof value === "number");
    if (!isNumeric) {
      const texts = [...new Set(trials.map((trial) => trial.texts[name]))]
        .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
      const share = (text) => (texts.indexOf(text) + 0.5) / texts.length;
      return { name, at: (trial) => share(trial.texts[name]),
        ticks: spread(texts.map((text) => ({ text, at: share(text) }))) };
    }
    const own = new Map(trials.filter((trial) => !isOther(trial))
      .map((trial) => [trial.params[name], trial.texts[name]]));
    const { place, ticks } = numericAxis(values, spreadingOf(values), own.size <= MOST_TICKS ? own : null);
    if (values.length === trials.length) return { name, at: (trial) => place(trial.params[name]), ticks };
    const others = [...new Set(trials.filter(isOther).map((trial) => trial.texts[name]))].sort();
    const moved = (share) => NONE + (1 - NONE) * share;
    const aside = (text) => (NONE * (others.indexOf(text) + 0.5)) / others.length;
    return { name, at: (trial) => (isOther(trial) ? aside(trial.texts[name]) : moved(place(trial.params[name]))),
      ticks: spread([...others.map((text) => ({ text, at: aside(text) })),
        ...ticks.map(({ text, at }) => ({ text, at: moved(at) }))]) };
  }

  /** Return an axis of numbers: {place(value): its share of the axis, ticks}. `own` has all values that get a tick. */
  function numericAxis(values, spreading, own = null) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const place = scaleOf(values, spreading);
    const ticks = own ? [...own].map(([value, text]) => ({ text, at: place(value) }))
      : roundNumbers(low, high, spreading).map((value) => ({ text: number(value), at: place(value) }));
    return { place, ticks: spread(ticks) };
  }

  /** Return the ticks that leave room for each other. */
  function spread(ticks) {
    const found = [];
    for (const tick of ticks.sort((a, b) => a.at - b.at)) {
      if (!found.length || tick.at - found[found.length - 1].at >= CLOSEST_TICKS) found.push(tick);
    }
    return found;
  }

  /** Return how many pixels each trial stands aside, so that those with the same value do not cover each other. */
  function asides(trials, axis) {
    const groups = new Map();
    for (const trial of trials) {
      const at = axis.at(trial).toFixed(3);
      if (!groups.has(at)) groups.set(at, []);
      groups.get(at).push(trial);
    }
    const found = new Map();
    for (const group of groups.values()) {
      const step = Math.min(STEP_ASIDE, ASIDE / group.length);
      group.forEach((trial, place) => found.set(trial, (place - (group.length - 1) / 2) * step));
    }
    return found;
  }

  /** Return what `layoutOf` depends on: the charts are laid out again if a part is another. */
  function partsOf(app, passing) {
    const { data, state, judged, configurations, theme } = app;
    return [data, app.winner, state.score, state.smaller, state.axes, judged, configurations, theme,
      [...passing].map((trial) => trial.number).join()];
  }

  /** Lay out all charts: their axes, and where each trial is. */
  function layoutOf(app, passing) {
    const { data, state, configurations } = app;
    const trials = data.trials.filter((trial) => !trial.abandoned);
    trials.sort((a, b) => model.isFailed(a) - model.isFailed(b)); // crosses are drawn above dots
    const scored = trials.filter((trial) => trial.score != null);
    const means = (configurations?.all || []).filter((one) => one.rank != null);
    const scores = [...scored.map((trial) => trial.score),
      ...means.flatMap((one) => one.mean.filter((value) => value != null))];
    const { place: height, ticks } = numericAxis(scores, linear);
    const charts = scored.length ? shownNames(app).map((name) => {
      const axis = axisOf(name, trials);
      const aside = asides(trials, axis);
      return {
        ...axis, means: means.filter((one) => one.names.includes(name))
          .map((one) => ({ one, x: axis.at(one.typical) })),
        points: new Map(trials.map((trial) => [trial,
          { x: axis.at(trial), aside: aside.get(trial), y: trial.score == null ? FLOOR : height(trial.score) }])),
      };
    }) : [];
    const units = means.length ? means : trials.map((trial) => ({ trials: [trial], color: trial.color }));
    // more colours than people can tell apart mean nothing
    const own = new Set(units.map((one) => app.colorOf(one.trials[0], one.color)));
    const areFew = units.length <= tm.curves.MOST_COLORED && own.size === units.length;
    const colorOf = (one) => (areFew ? app.colorOf(one.trials[0], one.color)
      : `var(${one.trials.includes(app.winner) ? "--gold" : "--muted"})`);
    const colors = new Map(trials.map((trial) => [trial, "var(--muted)"]));
    for (const one of units) for (const trial of one.trials) colors.set(trial, colorOf(one));
    return { trials, passing, charts, ticks, height, colors, hasMeans: means.length > 0,
      failed: trials.filter(model.isFailed).length };
  }

  /** What does not move: grid lines, labels, trials and configurations. */
  class Points extends Component {
    shouldComponentUpdate(props) {
      return props.chart !== this.props.chart;
    }

    render({ chart, layout }) {
      const { height, passing, colors } = layout;
      return html`<g>
        ${layout.ticks.map(({ text, at }) => html`<line class="grid-line" x1="0" x2="100%" y1=${percent(1 - at)}
          y2=${percent(1 - at)} /><text class="y" x="-6" y=${percent(1 - at)}>${text}</text>`)}
        ${chart.ticks.map(({ text, at }) => html`<line class="grid-line" x1=${percent(at)} x2=${percent(at)} y1="0"
          y2="100%" /><text class="x" x=${percent(at)} y="100%" dy="16">${shortened(text)}</text>`)}
        ${chart.means.map(({ one: { mean: [value, low, high], trials: [first] }, x }) => html`<g
          style=${{ "--color": colors.get(first) }}>
          ${low != null && html`<line class="interval" x1=${percent(x)} x2=${percent(x)} y1=${percent(1 - height(low))}
            y2=${percent(1 - height(high))} />`}
          <g style=${{ transform: "translateX(-16px)" }}><svg x=${percent(x)} y=${percent(1 - height(value))}
            overflow="visible"><line class="mean" x1="0" x2="32" y1="0" y2="0" /></svg></g></g>`)}
        ${layout.trials.map((trial) => html`<${Mark} trial=${trial} point=${chart.points.get(trial)}
          color=${colors.get(trial)} isPale=${!passing.has(trial)} />`)}
      </g>`;
    }
  }

  const shortened = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

  /** A trial: a dot, or a cross if it failed. One without a score is at the bottom. */
  function Mark({ trial, point, color, isPale, isChosen }) {
    const name = `mark${isPale ? " pale" : ""}${isChosen ? " chosen" : ""}${trial.score == null ? " unscored" : ""}`;
    const place = html`<svg x=${percent(point.x)} y=${percent(1 - point.y)} overflow="visible">
      ${model.isFailed(trial) ? html`<path class="cross" d="M-4.5-4.5l9 9m0-9l-9 9" />`
        : html`<circle r=${isChosen ? 7 : 5} />`}</svg>`;
    return html`<g class=${name} style=${{ transform: `translateX(${point.aside.toFixed(1)}px)`, "--color": color }}>
      ${place}</g>`;
  }

  class Scatter extends Component {
    state = { peek: null };
    plots = [];
    held = model.memo();

    /** The pointer is on a chart: choose the trial that is nearest to it. */
    point(event, at) {
      const box = this.plots[at].getBoundingClientRect();
      const { charts, trials } = this.layout;
      const [left, top] = [event.clientX - box.left, event.clientY - box.top];
      let [nearest, least] = [null, NEAR];
      for (const trial of trials) {
        const { x, y, aside } = charts[at].points.get(trial);
        const distance = Math.hypot(x * box.width + aside - left, (1 - y) * box.height - top);
        if (distance < least) [nearest, least] = [trial, distance];
      }
      this.choose(nearest, at);
    }

    /** Show what a trial is, and its clip; in all charts it is marked. */
    choose(trial, at) {
      const { peek } = this.state;
      if (trial === (peek?.trial || null) && (!trial || at === peek.at)) return;
      this.setState({ peek: trial && { trial, at, clip: tm.grid.clipOf(trial, this.props.app.state) } });
    }

    /** Arrow keys go from trial to trial by their score; Enter opens the one that is chosen. */
    onKey(event) {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by && !(event.key === "Enter" && this.state.peek)) return;
      event.preventDefault();
      event.stopPropagation();
      if (!by) {
        this.open();
        return;
      }
      const { trials } = this.layout;
      const sorted = [...trials].sort((a, b) => model.compare(a.score, b.score, -1));
      const before = sorted.indexOf(this.state.peek?.trial);
      this.choose(sorted[before < 0 ? 0 : (before + by + sorted.length) % sorted.length], this.state.peek?.at || 0);
    }

    open() {
      const { peek } = this.state;
      if (peek) this.props.app.open(peek.trial, peek.clip);
    }

    render({ app, rows }, { peek }) {
      const passing = new Set(rows.map(({ trial }) => trial));
      const layout = this.held(partsOf(app, passing), () => layoutOf(app, passing));
      this.layout = layout;
      const { charts } = layout;
      const label = model.scoreLabel(app.state.score) || "score";
      const count = app.data.params.length;
      return html`<section class="panel scatter">
        <div class="panel-head"><h2>Hyperparameters and ${label}</h2>
          ${count > 1 && charts.length > 0 && html`<button class="chip" onClick=${() => app.show(Axes)}>
            ${charts.length} of ${plural(count, "hyperparameter")} …</button>`}
          <span class="muted" hidden=${!charts.length}>${layout.hasMeans
            ? "A dot is a trial, a line the mean of a configuration with its 95 % interval. " : "A dot is a trial. "}
            ${layout.failed ? "✕: failed. " : ""}Point at one to see its ${app.hasClips ? "clip" : "trial"}, click to
            open it.</span></div>
        <${tm.importance.Importance} app=${app} />
        <div class="scatter-place" tabindex="0" role="group"
          aria-label=${`${plural(layout.trials.length, "trial")} by ${label}; arrow keys choose one, Enter opens it`}
          onKeyDown=${(event) => this.onKey(event)} onPointerLeave=${() => this.choose(null)}
          onBlur=${() => this.choose(null)}>
          ${charts.map((chart, at) => html`<figure key=${chart.name}>
            <div class="plot" onPointerMove=${(event) => this.point(event, at)} onClick=${() => this.open()}>
              <svg ref=${(plot) => { this.plots[at] = plot; }} width="100%" height="100%" overflow="visible"
                aria-hidden="true">
                <${Points} chart=${chart} layout=${layout} />
                ${peek && chart.points.has(peek.trial) && html`<${Mark} trial=${peek.trial}
                  point=${chart.points.get(peek.trial)} color=${layout.colors.get(peek.trial)} isChosen />`}
              </svg>
              ${peek?.at === at && chart.points.has(peek.trial) && html`<${Peek} app=${app} peek=${peek}
                point=${chart.points.get(peek.trial)} color=${layout.colors.get(peek.trial)} />`}
            </div>
            <figcaption title=${chart.name}>${lastPart(chart.name)}</figcaption>
          </figure>`)}
          ${!charts.length && html`<${NoScore} app=${app} />`}
        </div>
      </section>`;
    }
  }

  /** What is missing if no trial has a score, and what to do. */
  function NoScore({ app }) {
    const { state, data } = app;
    const has = (name) => data.trials.some((trial) => model.scoreOf(trial, name, state.section) != null);
    const others = model.scoresOf(data).filter((name) => name !== state.score && has(name));
    const isGoing = data.pending > 0 || data.trials.some(({ status }) => status === "running");
    return html`<div class="no-score">
      <p><b>No trial has a score${isGoing ? " yet" : ""}
        ${state.score && html`: “${model.scoreLabel(state.score)}” is missing in all of them`}.</b></p>
      <p class="muted">${others.length
        ? html`Trials can be ranked by ${others.slice(0, 3).map((name) => html`<button class="chip"
          onClick=${() => app.set({ score: name })}>${model.scoreLabel(name)}</button> `)}${others.length > 3
            && html`<button class="chip" onClick=${() => app.show(tm.bars.Ranking)}>another metric …</button>`}`
        : html`Report a number in the trial, such as <code>tune.report({"episode_return_mean": 12.5})</code>, or record
          episodes: their returns are scores.`}
        ${isGoing && " This page shows the first score as soon as it is there."}</p></div>`;
  }

  /** What is known of the trial under the pointer, and its clip, which plays. */
  function Peek({ app, peek: { trial, clip }, point, color }) {
    const side = point.x > 0.5 ? { right: `calc(${percent(1 - point.x)} + 22px)` }
      : { left: `calc(${percent(point.x)} + 22px)` };
    return html`<${tm.curves.Peek} label=${titleOf(trial)} color=${color} clip=${clip} side=${side}>
      <p>${model.scoreLabel(app.state.score)} <b>${number(trial.reported)}</b>
        ${trial.rank && html` <span class="rank">#${trial.rank}</span>`}</p>
      ${model.isFailed(trial) && html`<p class="problem">failed${trial.error && `: ${trial.error}`}</p>`}<//>`;
  }

  /** Return whether there is a hyperparameter to show. */
  const isPossible = ({ data }) => data.params.length > 0 && data.trials.length > 1;

  const ScatterPanel = ({ app, rows }) =>
    (isPossible(app) && app.state.params && app.hasPicture ? html`<${Scatter} app=${app} rows=${rows} />` : null);

  const ScatterSwitch = ({ app }) => isPossible(app) && html`
    <button aria-pressed=${app.state.params} title="Each hyperparameter against the score"
      onClick=${() => app.set({ params: !app.state.params })}>Hyperparameters</button>`;

  /** The dialog in which the hyperparameters are chosen that have a chart. */
  function Axes({ app }) {
    return html`<${Checks} app=${app} title="Hyperparameters" names=${app.data.params} chosen=${shownNames(app)}
      onChange=${(axes) => app.set({ axes: axes.join("\n") })} />`;
  }

  tm.scatter = { ScatterPanel, ScatterSwitch, Axes, percent, roundNumbers };
})((window.tuneMedia = window.tuneMedia || {}));
