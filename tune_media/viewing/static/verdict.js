// The verdict as a picture: a row for each configuration, its runs as dots, and how far the best is ahead of it.
(function (tm) {
  "use strict";

  const { html, Component, number, plural } = tm.ui;
  const { percent, roundNumbers } = tm.scatter;
  const { estimateTexts, seedText } = tm.configurations;
  const model = tm.model;
  const [FIRST, MORE, MOST_DOTS] = [12, 100, 40];
  const EDGE = 0.05; // of a plot, at each end: room for an arrow, or half a dot
  const LANES = [0, -8, 8]; // pixels from the middle of a row: dots that would cover each other are in several
  const APART = 0.025; // of a plot: dots that are as far from each other do not
  const KINDS = { w: "worst", m: "median", b: "best" };
  let shownPicture = null;

  /** Return a function from values to shares of a plot; what is beyond its axis is at its edge. */
  const placeOn = ([low, high]) => (value) =>
    EDGE + (1 - 2 * EDGE) * Math.min(1, Math.max(0, (value - low) / (high - low)));

  /** Something small at a place of a plot. */
  const At = ({ x, children }) => html`<svg x=${percent(x)} y="50%" overflow="visible">${children}</svg>`;

  /** A bar. Its ends have marks, beyond the axis arrows; some ends have none. */
  function Bar({ axis, ends, name, marks = [0, 1] }) {
    const [low, high] = ends.map(placeOn(axis));
    const isBeyond = [ends[0] < axis[0], ends[1] > axis[1]];
    return !ends.includes(null) && html`<rect class=${name} x=${percent(low)} width=${percent(high - low)} y="50%"
        height="8" />
      ${marks.map((at) => html`<${At} x=${[low, high][at]}><path class=${isBeyond[at] ? "arrow" : "end"}
        d=${isBeyond[at] ? `M0-4L${at ? 5 : -5} 0L0 4z` : "M0-5v10"} /><//>`)}`;
  }

  const Plot = ({ axis, ticks, children }) => html`<svg width="100%" height="100%">
    ${ticks.map((tick) => percent(placeOn(axis)(tick))).map((x, at) => html`<line x1=${x} x2=${x} y1="0" y2="100%"
      class=${ticks[at] === 0 ? "zero" : "grid-line"} />`)}${children}</svg>`;

  /** The head of a plot, with the numbers of its ticks. */
  const Axis = ({ text, axis, ticks }) => html`<div class="axis"><h2 title=${text}>${text}</h2>
    ${ticks.map((tick) => html`<span aria-hidden="true" style=${{ left: percent(placeOn(axis)(tick)) }}>
      ${number(tick)}</span>`)}</div>`;

  /** The runs of a row as dots, their mean and its interval. Of very many, the lowest and the highest are dots. */
  function Runs({ app, one, axis, ticks, isCompared, color }) {
    const runs = [...one.runs].sort((a, b) => a.score - b.score);
    const free = LANES.map(() => -Infinity); // where each lane has room
    const isMany = runs.length > MOST_DOTS;
    const dots = (isMany ? [runs[0], runs.at(-1)] : runs).map((run) => {
      const x = placeOn(axis)(run.score);
      const lane = Math.max(0, free.findIndex((from) => from <= x));
      free[lane] = x + APART;
      return html`<${Dot} app=${app} one=${one} run=${run} color=${color} x=${x} y=${LANES[lane]} />`;
    });
    const beyond = [["", ({ score }) => score < axis[0]], ["right", ({ score }) => score > axis[1]]]
      .map(([side, isThere]) => [side, [...new Set(runs.filter(isThere).map(({ score }) => number(score)))]]);
    return html`<div class="drawn"><${Plot} axis=${axis} ticks=${ticks}>
        ${isMany && html`<${Bar} axis=${axis} ends=${[runs[0].score, runs.at(-1).score]} name="all-runs" />`}
        ${isCompared && one.n > 0 && html`<${Bar} axis=${axis} ends=${one.mean.slice(1)} name="interval" />
          <${At} x=${placeOn(axis)(one.mean[0])}><path class="middle" d="M0-10v20" /><//>`}
        ${dots}<//>
      ${beyond.map(([side, found]) => html`<span class=${`beyond ${side}`}>${found.length > 1
        ? `${found[0]} to ${found.at(-1)}` : found}</span>`)}</div>`;
  }

  /** A run. A click on it, or Enter, opens its trial. */
  function Dot({ app, one, run: { trial, score, state, step }, x, y, color }) {
    const open = () => app.open(trial);
    const text = `${seedText(trial, one)}: ${number(score)}${state && `, ${state}`}${state && step != null
      ? ` at step ${number(step)}` : ""}`;
    return html`<g class=${`dot ${state}`} role="button" tabindex="-1" aria-label=${text} onClick=${open}
      onKeyDown=${(event) => event.key === "Enter" && open()}
      style=${{ "--color": color, transform: `translateY(${y}px)` }}><title>${text}. Click to open it.</title>
      <${At} x=${x}><circle r="4.5" />${state === "failed" && html`<path d="M-4-4l8 8m0-8l-8 8" />`}<//></g>`;
  }

  /** How far the best one is ahead: solid over runs alone, pale with the evaluation seeds. */
  function Lead({ one: { ahead, clear }, axis, ticks }) {
    const [value, low, high, half] = ahead || [];
    return html`<div class=${`drawn${ahead ? "" : " unjudged"}`}><${Plot} axis=${axis} ticks=${ticks}>
      ${ahead && html`<${Bar} axis=${axis} ends=${[low, high]} name="pale" marks=${clear && low === 0 ? [1] : [0, 1]} />
        ${half > 0 && low != null && html`<${Bar} axis=${axis} name="solid" marks=${[]}
          ends=${[Math.max(low, value - half), Math.min(high, value + half)]} />`}
        <${At} x=${placeOn(axis)(value)}><path class="middle" d="M0-7v14" /><//>`}<//></div>`;
  }

  /** Return a number with its interval, if it has one: ["20", " [5, 35]"]. */
  function withEnds(estimate, isClear) {
    const [value, low, high] = estimateTexts(estimate, 2);
    return [value, low == null ? "" : ` [${isClear && Number(low) === 0 ? "more than 0" : low}, ${high}]`];
  }

  /** Give the focus to the card of a configuration, or of one of its runs; without one, open its typical run. */
  function toCard(app, { typical, trials }) {
    const card = [typical, ...trials].map(({ name }) => tm.ui.cardOf(name)).find(Boolean);
    if (!card) app.open(typical);
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "center" });
  }

  /** A configuration. The whole row is a button, which shows its clips and leads to its card. */
  function Row({ app, one, title, label, axes, ticks, isOutside, kind, onShow, onPress }) {
    const color = app.colorOf(one.trials[0], one.color);
    const [isCompared, { ahead, clear, words }] = [Boolean(axes[1]), one];
    const [mean, ends] = isCompared && one.n ? withEnds(one.mean) : ["", ""];
    const lead = ahead ? withEnds(ahead.slice(0, 3), clear).join("") : "";
    const text = [mean ? `${title}: ${label} ${mean}${ends}` : title, plural(one.runs.length, "run"), words,
      lead && `ahead by ${lead}`].filter(Boolean).join("; ");
    return html`<li class=${`verdict-row${isOutside ? " outside" : ""}`} onPointerEnter=${() => onShow(one.id)}
      onPointerLeave=${() => onShow(null)} onfocusin=${() => onShow(one.id)} onfocusout=${() => onShow(null)}>
      <button class="name" aria-label=${text} title=${model.titleOf(one, Infinity)} onClick=${onPress}>
        <i class="swatch" style=${{ background: color }}></i>${one.rank === 1 && isCompared && "★ "}${title}</button>
      <span class="value">${mean}<span class="ends">${ends}</span></span>
      <${Runs} app=${app} one=${one} axis=${axes[0]} ticks=${ticks[0]} isCompared=${isCompared} color=${color} />
      ${isCompared && html`<${Lead} one=${one} axis=${axes[1]} ticks=${ticks[1]} />`}
      <span class="words">${words}${lead && html` <span class="ends">${lead}</span>`}</span>
      ${kind && html`<${Clip} app=${app} one=${one} kind=${kind} color=${color} label=${title} />`}</li>`;
  }

  /** The worst, the median or the best clip of a configuration, which plays. */
  function Clip({ app, one, kind, color, label }) {
    const clips = tm.compare.kindsOf(app, one);
    const clip = clips[kind] || tm.grid.clipOf(tm.grid.runOf(one, app.state), app.state);
    return clip && html`<${tm.curves.Peek} label=${label} color=${color} clip=${clip}>
      <p>${clips[kind] ? `${kind} clip` : "clip"}: return <b>${number(clip.return)}</b>${clips.worst
        && html` <span class="muted">(w, m, b: worst, median, best)</span>`}</p><//>`;
  }

  class VerdictPicture extends Component {
    state = { peek: null, kind: KINDS.b, shown: FIRST };

    /** On a screen to touch, the first tap shows a clip, and the second one goes to the card. */
    press(one, { pointerType }) {
      if (pointerType === "touch" && this.touched !== one.id) this.touched = one.id;
      else toCard(this.props.app, one);
    }

    render({ app, rows }, { peek, kind, shown }) {
      const { judged, state } = app;
      const passing = new Set(rows.map(({ trial }) => trial));
      const all = judged.all.slice(0, shown);
      const left = judged.all.length - all.length;
      const axes = judged.axes[all.length > FIRST ? 1 : 0];
      const ticks = axes.map((axis) => axis && roundNumbers(...axis, (value) => value));
      const label = `${model.scoreLabel(state.score)}${state.smaller ? ", lowest is best" : ""}`;
      const head = (text, at) => html`<${Axis} text=${text} axis=${axes[at]} ticks=${ticks[at]} />`;
      const has = (wanted) => all.some(({ runs }) => runs.some((run) => run.state === wanted));
      return html`<section class=${`panel verdict-picture${axes[1] ? "" : " dots-alone"}`} aria-label="Runs and leads">
        <div class="verdict-row">${head(label, 0)}${axes[1] && head("ahead by", 1)}</div>
        <ol>${all.map((one) => html`<${Row} key=${one.id} app=${app} one=${one} title=${model.titleOf(one)}
          label=${label} axes=${axes} ticks=${ticks} isOutside=${!one.trials.some((trial) => passing.has(trial))}
          kind=${peek === one.id && kind} onShow=${(id) => this.setState({ peek: id, kind: KINDS.b })}
          onPress=${(event) => this.press(one, event)} />`)}</ol>
        <p class="muted legend">${left > 0 && html`<button class="link"
            onClick=${() => this.setState({ shown: shown + MORE })}>${number(Math.min(left, MORE))} more${left > MORE
              ? ` of ${number(left)}` : ""}</button>. `}
          A dot is a run${axes[1] && "; the line is their mean, with its 95 % interval"}.
          ${has("running") && " ○: it has not ended."}${has("failed") && " ✕: failed."}
          ${all.some(({ ahead }) => ahead?.[2] != null && ahead[3] < 0.98 * (ahead[2] - ahead[0]))
            && " Ahead by: solid over runs alone, pale with evaluation seeds."}</p></section>`;
    }
  }

  /** The picture, once the configurations are judged by the score that is shown. */
  const Picture = ({ app, rows }) => app.judged?.all.some(({ runs }) => runs.length) && app.data.trials.length > 1
    && app.judgedAs.key === app.comparison(app.state).key && html`<${VerdictPicture} app=${app} rows=${rows}
      ref=${(view) => { shownPicture = view; }} />`;

  /** Return what a key does if a row is under the pointer, or has the focus. */
  const actionOf = (key) => shownPicture?.state.peek && KINDS[key]
    && (() => shownPicture.setState({ kind: KINDS[key] }));

  tm.verdict = { Picture, actionOf, At, Axis, Bar, Plot, placeOn };
})((window.tuneMedia = window.tuneMedia || {}));
