// The score of all configurations, or trials, over training on one chart: a line each, the mean's interval as a band.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart } = tm.ui;
  const model = tm.model;
  const { Plot, cssColor, drawVertical } = tm.charts;
  const MOST_LINES = 60;
  const MOST_BANDS = 12;
  const MOST_COLORED = 12; // of more lines, the first and the one under the pointer have a colour
  const MOST_STEPS = 400;
  const NEAR = 30; // pixels from the pointer to a line that it is on

  /** Return the lines of the chart: the configurations or the trials that the grid shows, the best ones first. */
  function linesOf(app, rows) {
    const shown = new Set(rows.map(({ trial }) => trial));
    if (app.configurations) {
      return tm.configurations.configurationRows(app, rows).filter((one) => one.counting.length).map((one) => ({
        label: `${model.titleOf(one)}${one.of ? ` (${one.n} of ${plural(one.of, "run")})` : ""}`, isPart: one.of > 0,
        trials: one.counting, typical: one.typical, color: app.colorOf(one.trials[0], one.color),
        rank: one.rank ?? one.among, place: one.place,
      }));
    }
    return [...shown].filter((trial) => trial.rank != null).map((trial) => ({
      label: tm.ui.titleOf(trial), trials: [trial], typical: trial, color: app.colorOf(trial), rank: trial.rank,
      place: trial.number,
    }));
  }

  /** Return the value of a curve at a step, between two points on the line through them; null outside the curve. */
  function valueAt(step, value, at) {
    if (!step.length || at < step[0] || at > step[step.length - 1]) return null;
    const before = model.countUpTo(step, at) - 1;
    if (step[before] === at) return value[before];
    const part = (at - step[before]) / (step[before + 1] - step[before]);
    return value[before] + part * (value[before + 1] - value[before]);
  }

  /** Return the steps of the chart: those of all curves, or evenly spread ones if there are too many. */
  function stepsOf(curves) {
    const steps = [...new Set(curves.flatMap(({ step }) => step))].sort((a, b) => a - b);
    if (steps.length <= MOST_STEPS) return steps;
    const [first, last] = [steps[0], steps[steps.length - 1]];
    return Array.from({ length: MOST_STEPS }, (_, at) => first + ((last - first) * at) / (MOST_STEPS - 1));
  }

  /** Return the interval of a line's mean over training, or null: it is of exactly the runs that the line is of. */
  function bandOf(line, { of, bands }) {
    const ids = line.trials.map(({ id }) => id).filter((id) => of.get(id)?.step.length);
    return bands.get(ids.sort().join()) || null;
  }

  /** Return the data of the chart: the steps, and for each line the mean of its runs and the ends of its interval. */
  function tableOf(lines, { of, bands, iqm }) {
    const own = lines.map(({ trials }) => trials.map((trial) => of.get(trial.id)).filter(Boolean));
    const steps = stepsOf(own.flat());
    const found = lines.map((line) => bandOf(line, { of, bands }));
    const means = own.map((curves, line) => steps.map((at) => {
      if (iqm && found[line]) return valueAt(found[line].step, found[line].value, at);
      const values = curves.map(({ step, value }) => valueAt(step, value, at)).filter((value) => value != null);
      return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
    }));
    const ends = (name) => found.map((band) => band && steps.map((at) => valueAt(band.step, band[name], at)));
    return { steps, means, lows: ends("low"), highs: ends("high") };
  }

  /** Return whether a trial's curve, as a line through its points, passes through a box of the chart. */
  function passes(curve, [from, to, low, high]) {
    if (!curve) return false;
    return curve.step.some((step, at) => {
      const [value, before] = [curve.value[at], at ? at - 1 : at];
      const [first, last] = [Math.max(from, curve.step[before]), Math.min(to, step)];
      if (first > last) return false;
      const slope = step > curve.step[before] ? (value - curve.value[before]) / (step - curve.step[before]) : 0;
      const ends = [first, last].map((place) => value - slope * (step - place));
      return Math.max(...ends) >= low && Math.min(...ends) <= high;
    });
  }

  /** Return a color that is mostly transparent. */
  const pale = (color) => (color.startsWith("#") ? `${color}26` : color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.15)"));

  class AllCurves extends Plot {
    state = { peek: null };
    held = model.memo();

    componentDidUpdate() {
      this.draw();
    }

    get size() {
      return { width: this.place.clientWidth || 600, height: this.place.parentElement.clientHeight };
    }

    /** Draw the chart if what it shows has changed; the slider only moves its line. */
    draw() {
      const { app, lines } = this.props;
      const parts = [app.curves, app.theme, app.state.brush,
        lines.map(({ label, color, trials }) => `${label}|${color}|${trials.length}`).join("\n")];
      const before = this.plot;
      this.plot = this.held(parts, () => this.plotOf(lines));
      if (this.plot === before) before?.redraw(false, false);
    }

    /** Return a new chart of lines in place of the one that is there; null if they have no points. */
    plotOf(lines) {
      this.plot?.destroy();
      this.plot = null;
      const { app } = this.props;
      const { brush } = app.state;
      const box = brush && brush.split(" ").map(Number);
      const isMany = lines.length > MOST_COLORED;
      const isIn = ({ trials }) => !box || trials.some((trial) => passes(app.curves.of.get(trial.id), box));
      const { steps, means, lows, highs } = tableOf(lines, app.curves);
      this.steps = steps;
      if (!steps.length) return null;
      const { axis, props: { unit } } = this;
      const banded = lines.map((_, at) => at)
        .filter((at) => (isMany ? lines[at].isBest : at < MOST_BANDS) && lows[at]);
      const [grey, gold] = [cssColor("--curve"), cssColor("--gold")];
      const colorOf = (line, at) => (!isMany ? line.color
        : line.isBest ? gold : at + 1 === this.focused ? line.color : grey);
      const strokeOf = (line, at) => () => (isIn(line) ? colorOf(line, at) : pale(colorOf(line, at)));
      const hidden = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
      const before = ({ color, place }) => lines.filter((one) => one.color === color && one.place < place).length;
      const series = [{}, ...lines.map((line, at) => ({ stroke: strokeOf(line, at),
        dash: isMany ? [] : tm.charts.dashOf(before(line)),
        width: isMany ? (line.isBest ? 3 : 1.25) : 2, spanGaps: true, points: { show: steps.length < 2, size: 6 } }))];
      const data = [steps, ...means];
      const runs = lines.flatMap(({ trials }) => trials).map(({ id }) => app.curves.of.get(id));
      const ofRuns = model.rangeOf(runs.flatMap((curve) => curve?.value || []));
      const bands = [];
      for (const at of banded) {
        bands.push({ series: [data.length, data.length + 1],
          fill: isIn(lines[at]) ? pale(isMany ? gold : lines[at].color) : "transparent" });
        series.push(hidden, hidden);
        data.push(highs[at], lows[at]);
      }
      const plot = new window.uPlot({
        ...this.size,
        padding: [6, tm.charts.LABEL_RIGHT, 0, 0],
        scales: { x: { time: false },
          y: { range: (_, ...all) => window.uPlot.rangeNum(...model.roomy(ofRuns, all), 0.1, true) } },
        axes: [{ ...axis, ...(steps.every(Number.isInteger) ? { incrs: tm.charts.WHOLE } : {}), size: 28,
          ...(unit ? { label: unit, labelSize: 18, labelFont: axis.font } : {}) },
          { ...axis, size: 60 }],
        legend: { show: false },
        focus: { alpha: isMany ? 0.6 : 0.2 },
        cursor: { focus: { prox: NEAR }, dataIdx: (plot, index, at) => (index > lines.length ? null : at),
          drag: { x: true, y: true, uni: 12, setScale: false }, y: false },
        series, bands,
        hooks: {
          draw: [(plot) => this.drawBox(plot), (plot) => this.drawStep(plot)],
          setSeries: [(plot, index) => this.point(index)],
          setCursor: [() => this.point(this.focused)],
          setSelect: [(plot) => this.brush(plot)],
        },
      }, data, this.place);
      plot.over.addEventListener("click", () => this.open());
      plot.over.addEventListener("pointerleave", () => this.setPeek(null));
      return plot;
    }

    /** The box that filters, which stays until it is taken away. */
    drawBox(plot) {
      const { brush } = this.props.app.state;
      if (!brush) return;
      const [from, to, low, high] = brush.split(" ").map(Number);
      const [left, right] = [from, to].map((value) => plot.valToPos(value, "x", true));
      const [bottom, top] = [low, high].map((value) => plot.valToPos(value, "y", true));
      const { ctx } = plot;
      ctx.save();
      ctx.fillStyle = pale(cssColor("--accent"));
      ctx.strokeStyle = cssColor("--accent");
      ctx.fillRect(left, top, right - left, bottom - top);
      ctx.strokeRect(left, top, right - left, bottom - top);
      ctx.restore();
    }

    /** The slider's step, as a line. */
    drawStep(plot) {
      const { step } = this.props.app.state;
      if (typeof step === "number") drawVertical(plot, step);
    }

    /** The pointer is near a line: show its value there, and the clip of that point. */
    point(index) {
      this.focused = index;
      const { lines } = this.props;
      const { plot } = this;
      const at = plot?.cursor.idx;
      if (index == null || index > lines.length || at == null) {
        this.setPeek(null);
        return;
      }
      const line = lines[index - 1];
      const left = plot.cursor.left;
      this.setPeek({ line, step: this.steps[at], value: plot.data[index][at], left });
    }

    setPeek(peek) {
      const { app } = this.props;
      const before = this.state.peek;
      if (!peek && !before) return;
      if (peek && before && peek.step === before.step && peek.line === before.line) return;
      const { section, key } = app.state;
      this.setState({ peek: peek && { ...peek, clip: model.clipAt(peek.line.typical, section, key, peek.step) } });
    }

    open() {
      const { peek } = this.state;
      if (!peek || this.hasBrushed) {
        this.hasBrushed = false;
        return;
      }
      this.props.app.open(peek.line.typical, peek.clip);
    }

    /** Keep the trials whose curves pass through the box that was drawn. */
    brush(plot) {
      const { left, top, width, height } = plot.select;
      if (width < 4 || height < 4) return;
      this.hasBrushed = true;
      const xs = [left, left + width].map((place) => plot.posToVal(place, "x"));
      const ys = [top + height, top].map((place) => plot.posToVal(place, "y"));
      const box = [...xs, ...ys].map((value) => Number(value.toPrecision(6)));
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      setTimeout(() => this.props.app.set({ brush: box.join(" ") }));
    }

    render({ app, lines, count, from }, { peek }) {
      const { state } = app;
      const title = `${model.scoreLabel(state.score)} ${from ? `(${from})` : "over training"}`;
      const best = lines.find(({ isBest }) => isBest);
      const label = `${title}, ${lines.length} lines; the best is ${best.label}`;
      const isMany = lines.length > MOST_COLORED;
      const isOfTrials = lines.every(({ trials }) => trials.length === 1);
      const hasBands = lines.some((line) => bandOf(line, app.curves));
      return html`<section class="panel curves">
        <div class="panel-head"><h2>${title}</h2>
          ${state.brush && html`<button class="chip" aria-pressed="true" onClick=${() => app.set({ brush: "" })}>
            only curves in the box ✕</button>`}
          <span class="muted">${count > lines.length ? `The ${lines.length} best of ${number(count)}. ` : ""}
            ${hasBands ? `${state.iqm ? "Interquartile mean" : "Mean"} and 95 % interval of the ${isOfTrials
              ? "episodes" : "runs"}. ` : app.configurations ? "Line: mean of the runs. " : ""}
            ${lines.some(({ isPart }) => isPart) ? "Only of runs that pass the filter. " : ""}
            ${isMany && html`<i class="swatch winner-swatch"></i><b>${best.label}</b>. `}
            Point at a line to see its ${app.hasClips ? "clip" : "trial"}, click to open it, drag to filter.</span>
        </div>
        <div class="curves-place">
          <div ref=${(place) => { this.place = place || this.place; }} role="img" aria-label=${label}></div>
          ${peek && html`<${Peek} ...${peek.line} clip=${peek.clip} side=${peek.left > this.place.clientWidth / 2
            ? { right: `${this.place.clientWidth - peek.left - 36}px` } : { left: `${peek.left + 84}px` }}>
            <p>step ${number(peek.step)}: <b>${number(peek.value)}</b></p><//>`}</div>
      </section>`;
    }
  }

  /** What the pointer is on: its name, more of it, and a clip, which plays. */
  function Peek({ label, color, clip, side, children }) {
    return html`<div class="peek" style=${side} role="status">
      ${clip && html`<${tm.ui.PeekClip} key=${clip.url} clip=${clip} />`}
      <p><i class="swatch" style=${{ background: color }}></i><b>${label}</b></p>
      ${children}
      ${clip && html`<p class="muted">clip of ${lastPart(clip.trial.shownName)} at ${tm.ui.placeOf(clip)}</p>`}
    </div>`;
  }

  /** A chart for each place that the curves come from, once they are read. */
  function CurvesPanel({ app }) {
    if (!app.expectsCurves) return null;
    if (!app.hasPicture || app.curves?.metric !== app.state.score) {
      return html`<section class="panel curves waiting" aria-busy="true">
        <p class="muted">Reading the curves …</p></section>`;
    }
    const apart = new Map();
    const fromOf = (trial) => app.curves.of.get(trial?.id) || {};
    apart.set(fromOf(app.winner).from || "", null); // which comes first
    for (const line of linesOf(app, tm.grid.filteredRows(app))) { // also those that are not in the box
      const { from = "", unit = "", step } = fromOf(line.trials.find((trial) => fromOf(trial).step?.length));
      if (!step) continue;
      apart.set(from, { unit, all: [...(apart.get(from)?.all || []), line] });
    }
    return [...apart].filter(([, own]) => own).map(([from, { unit, all }]) => {
      const best = all.find((line) => line.trials.includes(app.winner))
        || all.reduce((first, line) => (line.rank < first.rank ? line : first));
      const shown = all.length > MOST_LINES ? [...all].sort((a, b) => a.rank - b.rank).slice(0, MOST_LINES) : all;
      const marked = shown.map((line) => ({ ...line, isBest: line === best }));
      // the last one is drawn above the others
      const lines = shown.length > MOST_COLORED ? marked.sort((a, b) => a.isBest - b.isBest) : marked;
      return html`<${AllCurves} key=${from} app=${app} lines=${lines} count=${all.length} unit=${unit}
        from=${apart.size > 1 ? from : ""} />`;
    });
  }

  tm.curves = { CurvesPanel, Peek, passes, MOST_COLORED };
})((window.tuneMedia = window.tuneMedia || {}));
