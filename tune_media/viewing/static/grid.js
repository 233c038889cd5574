// The grid: one card a trial, all on one step and one clock.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, titleOf, captionOf, Card, Sparkline } = tm.ui;
  const model = tm.model;
  const [CARD_EDGE, OTHERS, CHIP_EDGE, CHARACTER] = [24, 34, 22, 7.2]; // pixels
  const CHIP_NAME = 8; // characters of a name, which is cut if it is longer
  const SUCCESS_HELP =
    "The share of the episodes of the last evaluation (or of training) that succeeded, with its 95 % interval";
  const FIRST_DRAWN = 60; // cards that are drawn before the first picture is there

  /** Return the trials that the grid shows, each with its clip, in order. */
  function gridRows(app) {
    const { state, data } = app;
    const filter = model.parseFilter(state.filter, data);
    const box = state.brush && app.curves?.metric === state.score ? state.brush.split(" ").map(Number) : null;
    const rows = filteredRows(app, filter)
      .filter(({ trial }) => !box || tm.curves.passes(app.curves.of.get(trial.id), box));
    const sign = state.descending ? -1 : 1;
    const value = ({ trial, clip }) => model.orderOf(trial, state.sort, clip);
    rows.sort((a, b) => model.compare(value(a), value(b), sign) || a.trial.number - b.trial.number);
    const meant = rows.length ? null
      : tm.filter.meantValue(filter, app.data.trials.map((trial) => [trial, clipOf(trial, state)]));
    return { rows, problem: filter.problem, meant };
  }

  /** Return the trials that the filter lets through, each with its clip. */
  function filteredRows(app, filter = model.parseFilter(app.state.filter, app.data)) {
    const rows = [];
    for (const trial of app.data.trials) {
      const clip = clipOf(trial, app.state);
      if (app.host.isSelected(trial.name) && filter.test(trial, clip)) rows.push({ trial, clip });
    }
    return rows;
  }

  /** Return the run whose clip a configuration shows: the most typical one, or else one that has a clip. */
  const runOf = ({ typical, counting, trials }, state) =>
    [typical, ...counting, ...trials].find((trial) => clipOf(trial, state)) || typical;

  function clipOf(trial, state) {
    if (state.step === "best") return model.bestClip(trial, state.section, state.key);
    return model.clipAt(trial, state.section, state.key, state.step === "last" ? Infinity : state.step);
  }

  /** A trial and the clip that it shows. */
  class TrialCard extends Card {
    render({ trial, clip, ribbon }, { isVisible }) {
      const label = isVisible ? (ribbon ? `${ribbon}. ` : "") + (model.isFailed(trial) ? "Failed. " : "")
        + (clip ? captionOf(clip) : titleOf(trial)) : trial.name;
      return this.frame({ trial, clip, kind: "", ribbon, label },
        () => html`<${Facts} ...${this.props} />`);
    }
  }

  TrialCard.SHOWN = ["clip", "trial", "step", "rank", "ribbon", "score", "color", "scoreName", "scoreStep", "scale",
    "status", "ticked", "size", "order"];

  /** The facts under a clip: the trial's name, hyperparameters and score, the clip's facts, and all returns. */
  function Facts({ app, trial, clip, step, rank, score, scoreStep, scale, color }) {
    const { state } = app;
    const isOther = clip?.step != null && step != null && clip.step !== step;
    const params = model.pairsOf(trial);
    const fitting = (room) => tm.ui.fitting(params, room,
      (name, text) => CHIP_EDGE + CHARACTER * (Math.min(name.length, CHIP_NAME) + text.length));
    const all = fitting(state.size - CARD_EDGE); // if not all do, the button of the others needs room, too
    const count = all === params.length ? all : fitting(state.size - CARD_EDGE - OTHERS);
    const hidden = params.slice(count);
    const openTrial = () => app.open(trial);
    const note = isOther
      ? `no clip at step ${number(step)}: this is the trial's ${clip.step < step ? "last one before" : "first one"}`
      : "";
    return html`
      <h2><button class="name" tabindex="-1" title=${trial.name} onClick=${openTrial}>
        <i class="swatch" style=${{ background: color }}></i>${trial.shortName}</button>
        ${trial.abandoned && html`<em class="abandoned" title=${model.ABANDONED}>abandoned</em>`}
        ${model.isFailed(trial) && html`<em class="failed-trial"
          title=${trial.error || "This trial failed."}>failed</em>`}
        ${rank && html`<span class="rank"
          title=${`${model.scoreLabel(state.score)}: ${number(trial.score)}`}>#${rank}</span>`}</h2>
      ${model.isFailed(trial) && trial.error
        ? html`<p class="params error" title=${trial.error}>${trial.error}</p>`
        : html`<div class="params">${params.slice(0, count).map(([name, text]) => html`
        <button tabindex="-1" title=${`Show only trials with ${name} = ${text}`}
          onClick=${() => app.addFilter(name, trial.params[name])}>
          <span>${lastPart(name)}</span><b>${text}</b></button>`)}
        ${hidden.length > 0 && html`<button class="others" tabindex="-1" title=${model.titleText(hidden, Infinity)}
          aria-label=${`${hidden.length} more hyperparameters: ${model.titleText(hidden, Infinity)}`}
          onClick=${openTrial}>+${hidden.length}</button>`}</div>`}
      <dl class="trial-facts">
        ${state.score && html`<div class="score"><dt title=${state.score}>${model.scoreLabel(state.score)}
          ${scoreStep != null && ` at step ${number(scoreStep)}`}</dt><dd class="big">${number(score)}</dd></div>`}
        <${tm.configurations.Success} rate=${model.successOf(trial, app.data)} title=${SUCCESS_HELP} />
        <div><dt>return</dt><dd>${number(clip?.return)}</dd></div>
        <div><dt>${clip && clip.step == null ? "file" : "step"}</dt><dd class=${isOther ? "other" : ""}
          title=${note}>${clip && clip.step == null ? clip.file : number(clip?.step)}
          ${isOther && html`<i role="img" aria-label=${note}> ≠</i>`}</dd></div>
        <div><dt>length</dt><dd>${number(clip?.length ?? clip?.frames)}</dd></div>
        <${tm.tape.NewerTape} app=${app} trial=${trial} clip=${clip} />
      </dl>
      ${clip?.isPicture && clip.note && html`<p class="muted note">${clip.note}</p>`}
      <${Sparkline} clips=${model.clipsOf(trial, state.section, state.key)} shown=${clip} color=${color}
        scale=${scale} />`;
  }

  function GridView({ app }) {
    const { state, data } = app;
    const { rows, problem, meant } = gridRows(app);
    const step = state.step === "best" ? null : state.step === "last" ? app.steps[app.steps.length - 1] : state.step;
    const hidden = data.trials.length - rows.length;
    const lines = app.configurations ? tm.configurations.linesOf(app) : 1;
    return html`<main class="grid-view">
      <${tm.live.Live} app=${app} />
      ${!app.hasClips && html`<${tm.table.NoClips} app=${app} />`}
      <${tm.configurations.Verdict} app=${app} />
      <${tm.failures.Failures} app=${app} />
      ${(!app.isTable || !app.hasClips) && html`<${tm.verdict.Picture} app=${app} rows=${rows} />
        <${tm.curves.CurvesPanel} app=${app} />
        <${tm.scatter.ScatterPanel} app=${app} rows=${rows} />`}
      <div class="above-cards">
        <p class="count" role="status">${problem ? html`<span class="problem">${problem}</span>` : hidden
          ? html`${plural(rows.length, "trial")} of ${number(data.trials.length)}
              ${" "}<button class="link" onClick=${() => app.set({ filter: "", brush: "" })}>show all</button>`
          : `${app.configurations && !app.isTable ? `${plural(app.configurations.all.length, "configuration")}, `
            : ""}${plural(rows.length, "trial")}`}
          ${rows.length ? "" : html` — no trial matches the filter “${state.filter}”${state.brush
            ? " and the box on the chart" : ""}.${meant ? ` Did you mean “${meant}”?` : ""}`}</p>
        <span class="cards-choice">${app.isTable && html`<${tm.table.Tools} app=${app} rows=${rows} />`}
          <${tm.configurations.CardsChoice} app=${app} /></span></div>
      ${app.isTable ? html`<${tm.table.RunTable} app=${app} rows=${rows} />` : html`<div
        class=${`cards${lines > 1 ? " long-titles" : ""}${data.rates?.length ? " with-success" : ""}`}
        style=${{ "--size": `${state.size}px`, "--count": app.configurations?.all.length ?? rows.length,
          "--lines": lines }}>
        ${app.configurations ? html`<${Configurations} app=${app} rows=${rows} lines=${lines} />`
          : rows.slice(0, app.hasPicture ? rows.length : FIRST_DRAWN).map(({ trial, clip }, place) => html`<${TrialCard}
            key=${trial.id} app=${app} trial=${trial} clip=${clip} step=${step} place=${place} scale=${app.scale}
            status=${trial.status} ticked=${state.ticked} rank=${trial.rank} size=${state.size}
            ribbon=${tm.configurations.badgeOf(app, trial)} order=${trial.order} ...${app.scoreAt(trial)}
            color=${app.colorOf(trial)} scoreName=${state.score} />`)}
      </div>`}
    </main>`;
  }

  /** The cards of configurations. */
  function Configurations({ app, rows, lines }) {
    return tm.configurations.configurationRows(app, rows).slice(0, app.hasPicture ? Infinity : FIRST_DRAWN)
      .map((one, place) => [one, place, runOf(one, app.state)]).map(([one, place, trial]) => html`
        <${tm.configurations.ConfigurationCard} key=${one.id} app=${app} one=${one} place=${place} trial=${trial}
          clip=${clipOf(trial, app.state)} size=${app.state.size} ticked=${app.state.ticked} order=${one.order}
          lines=${lines} ...${app.meanAt(one)} color=${app.colorOf(one.trials[0], one.color)} />`);
  }

  tm.grid = { GridView, gridRows, filteredRows, clipOf, runOf };
})((window.tuneMedia = window.tuneMedia || {}));
