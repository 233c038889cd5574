// Configurations on cards: trials that differ only in a training seed are judged together, with an interval.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, Card } = tm.ui;
  const model = tm.model;
  const TABLE = "table";
  const [CARD_EDGE, CHARACTER, BETWEEN] = [72, 8, 5]; // of a title: pixels; characters between hyperparameters

  /**
   * Return an estimate's value and the ends of its interval as texts, with the digits that its width allows, and
   * without separators: "[-1,107, 1,316]" would look like four numbers.
   */
  function estimateTexts([value, low, high], digits) {
    if (low == null || value == null) return [number(value)];
    const decimals = Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(high - low || Math.abs(value) || 1))));
    const text = (end) => (Number(end.toFixed(decimals)) + 0).toLocaleString("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: false });
    return [value, low, high].map(text);
  }

  const charactersOf = (size) => Math.floor((size - CARD_EDGE) / CHARACTER);

  /** Return how many lines of so many characters a text has. */
  const linesIn = (text, width) => text.split(" ").reduce(([lines, end], { length }) =>
    (end && end + length > width ? [lines + Math.ceil(length / width), length + 1] : [lines, end + length + 1]),
  [1, 0])[0];

  /** Return how many lines the titles on cards have: up to two, and room for all that tell. */
  function linesOf({ configurations: { all }, state: { size } }) {
    const most = (count) => Math.max(1, ...all.map((one) => linesIn(model.titleOf(one, count), charactersOf(size))));
    return Math.max(Math.min(2, most()), most(1));
  }

  /** What stands on the best one, and on no other trial. */
  const badgeOf = ({ judged, winner }, trial = winner) =>
    trial === winner && (judged.verdict.is_clear ? "Winner" : "best so far");

  /** A success rate on a card, in percent: [rate, low, high], or nothing. */
  function Success({ rate, title }) {
    if (!rate) return null;
    const [value, low, high] = estimateTexts(rate.map((end) => (end == null ? null : 100 * end)), 2);
    return html`<div class="success"><dt>success</dt>
      <dd title=${title}>${value} %${low != null && html` <span class="ends">[${low}, ${high}]</span>`}</dd></div>`;
  }

  /** Return a configuration as its runs that pass the filter make it: no interval and no rank if some do not. */
  function narrowed(one, passing) {
    const counting = one.counting.filter((trial) => passing.has(trial));
    if (counting.length === one.counting.length) return one;
    const mean = counting.length ? counting.reduce((sum, trial) => sum + trial.score, 0) / counting.length : null;
    const distance = (trial) => (trial.score == null ? Infinity : Math.abs(trial.score - mean));
    const typical = (counting.length ? counting : one.trials.filter((trial) => passing.has(trial)))
      .reduce((best, trial) => (distance(trial) < distance(best) ? trial : best));
    return { ...one, counting, typical, mean: [mean, null, null], success: null, n: counting.length, of: one.n,
      rank: null, among: one.rank };
  }

  /** Return the configurations that the grid shows, in order: those of which a trial passes the filter. */
  function configurationRows(app, rows) {
    const { state, configurations } = app;
    const passing = new Map(rows.map(({ trial, clip }) => [trial, clip]));
    const found = configurations.all.filter((one) => one.trials.some((trial) => passing.has(trial)))
      .map((one) => narrowed(one, passing));
    const name = state.sort.startsWith("param:") ? state.sort.slice(6) : null;
    const mean = (one) => (one.typical.isApart ? null : one.mean[0]); // of another return: behind the others
    const value = (one) => (state.sort === "score" ? mean(one) : name && one.names.includes(name) ? one.params[name]
      : model.orderOf(one.typical, state.sort, passing.get(one.typical)));
    const sign = state.descending ? -1 : 1;
    return found.sort((a, b) => model.compare(value(a), value(b), sign) || (a.rank ?? Infinity) - (b.rank ?? Infinity));
  }

  /** Return what tells a run from the others of its configuration: its seed, or its number. */
  function seedText(trial, one) {
    const own = Object.keys(trial.params).filter((name) => !one.names.includes(name)
      && one.trials.some((other) => other.texts[name] !== trial.texts[name]));
    return own.map((name) => `${lastPart(name)} ${trial.texts[name]}`).join(" ")
      || `run ${one.trials.indexOf(trial) + 1}`;
  }

  /** A configuration: the clip of its most typical run, and its score over all of them. */
  class ConfigurationCard extends Card {
    render({ app, one, trial, clip, lines, score, scoreStep, color }) {
      const { rank } = one;
      const most = tm.ui.fitting(model.pairsOf(one), lines * charactersOf(app.state.size),
        (name, text) => name.length + text.length + BETWEEN);
      const title = model.titleOf(one, most);
      const whole = model.titleOf(one, Infinity);
      const [mean, low, high] = estimateTexts(one.mean, 2);
      const failed = one.leftOut.filter(model.isFailed).length;
      const label = `${rank === 1 ? `${badgeOf(app)}. ` : ""}${whole}: ${plural(one.n, "run")}`;
      const runs = one.of ? `${number(one.n)} of ${plural(one.of, "run")}, by the filter` : plural(one.n, "run");
      return this.frame({ trial, clip, kind: " configuration", ribbon: rank === 1 && badgeOf(app), label }, () => html`
          <h2><button class="name" tabindex="-1" title=${whole} onClick=${() => app.open(trial)}>
            <i class="swatch" style=${{ background: color }}></i>${title}</button>
            ${rank && html`<span class="rank">#${rank}</span>`}</h2>
          <p class="runs"><button class="link" tabindex="-1" title="Show a card for each of them"
            onClick=${() => app.showRuns(one)}>${runs}</button>
            <${tm.compare.BestAndWorst} app=${app} one=${one} />
            ${failed > 0 && html`<em class="failed-trial" title=${one.leftOut
              .map((own) => `${seedText(own, one)}: ${own.error || "no score"}`).join("\n")}>${failed} failed</em>`}
            ${one.leftOut.length > failed && html`<span class="muted">
              ${one.leftOut.length - failed} without a score</span>`}
            ${one.trials.length > 1 && html`<span class="muted clip-of"
              title=${`${trial.name}${one.n && trial === one.typical ? " is the nearest to the mean" : ""}`}>
              clip: ${seedText(trial, one)}</span>`}</p>
          <dl>
            <div class="score"><dt title=${app.state.score}>${model.scoreLabel(app.state.score)}
              ${scoreStep != null ? ` at step ${number(scoreStep)}` : low == null ? "" : ", 95 %"}</dt>
              <dd><b class="big">${scoreStep == null ? mean : number(score)}</b>
                ${scoreStep == null && low != null && html` <span class="ends">[${low}, ${high}]</span>`}</dd></div>
            ${clip && html`<div><dt>return of clip</dt><dd>${number(clip.return)}</dd></div>`}
            <${tm.tape.NewerTape} app=${app} trial=${trial} clip=${clip} />
            <${Success} rate=${one.success}
              title=${`The mean success rate of ${plural(one.n, "run")}, with its 95 % interval`} />
          </dl>`);
    }
  }

  ConfigurationCard.SHOWN = ["one", "clip", "order", "lines", "rank", "score", "scoreStep", "color", "size", "ticked"];

  /** The line above the cards: which configuration is the best, whether that is clear, and why. */
  function Verdict({ app }) {
    const { data, judged, winner } = app;
    if (!app.state.score && data.scoreNames.length > 0 && data.trials.length > 1)
      return html`<section class="winner-line" aria-label="Verdict"><p><button class="link"
        onClick=${() => app.show(tm.bars.Ranking)}>Choose a metric.</button>
        ${" "}Nobody has said which of them tells how good a run is.</p></section>`;
    const verdict = winner && judged.verdict;
    if (!verdict) return null;
    const best = judged.all.find((one) => one.rank === 1);
    const open = () => app.open(winner);
    return html`<section class="winner-line" aria-label="Verdict">
      <${tm.ui.BestClip} app=${app} trial=${winner} />
      <div>
        <p><b class=${verdict.is_clear ? "sure" : ""}>${verdict.lead}</b>${" "}${judged.all[1]?.n
          ? html`<${tm.config.Title} key=${best.id} one=${best} title=${winner.name} onClick=${open} />`
          : verdict.title}${verdict.rest}</p>
        <details><summary>why?</summary><ul>${verdict.why.map((line) => html`<li>${line}</li>`)}</ul></details>
      </div>
      <button class="primary" onClick=${open}>${app.hasClips ? "Watch it learn" : "Open it"}</button>
    </section>`;
  }

  /** What the charts and cards show more, in a fold: which charts, the line of the curves, the size of cards. */
  function More({ app }) {
    const { state, data, curves } = app;
    const hasCurves = data.trials.length > 1 && data.metricNames.includes(state.score);
    const hasBands = hasCurves && state.chart && app.configurations && curves?.bands?.size > 0;
    return html`<button class="more-shown" aria-expanded=${state.more}
        onClick=${() => app.setState({ more: !state.more })}>Charts ${state.more ? "▴" : "▾"}</button>
      ${state.more && html`
        ${hasCurves && html`<button aria-pressed=${state.chart} onClick=${() => app.set({ chart: !state.chart })}
          title="The chart of all curves">Curves</button>`}
        ${hasBands && html`<${tm.ui.Choice} label="Line" values=${["mean", "IQM"]}
          value=${state.iqm ? "IQM" : "mean"} onChange=${(kind) => app.set({ iqm: kind === "IQM" })} />`}
        <${tm.scatter.ScatterSwitch} app=${app} />
        ${!app.isTable && [["Smaller cards ([)", -1, "−"], ["Larger cards (])", 1, "+"]].map(([name, by, sign]) => html`
          <button aria-label=${name} title=${name} onClick=${() => tm.bars.resize(app, by)}>${sign}</button>`)}`}`;
  }

  /** The switch between the cards of configurations or trials and the run table. */
  function CardsChoice({ app }) {
    const { judged } = app;
    const more = (!app.isTable || !app.hasClips) && html`<${More} app=${app} />`;
    if (!app.hasClips) return html`<span class="cards-choice">${more}</span>`;
    const shown = app.isTable ? TABLE : app.configurations ? "configurations" : "trials";
    const hasConfigurations = judged && (judged.hasRuns || shown === "configurations");
    const names = (kind) => (hasConfigurations || kind === TABLE ? kind : "cards");
    return html`<span class="cards-choice">${more}
      <${tm.ui.Choice} label="Show" values=${[...(hasConfigurations ? ["configurations"] : []), "trials", TABLE]}
        value=${shown} names=${names} onChange=${(cards) => app.set({ cards })} /></span>`;
  }

  tm.configurations = { ConfigurationCard, linesOf, Verdict, CardsChoice, Success, badgeOf, configurationRows,
    estimateTexts, seedText };
})((window.tuneMedia = window.tuneMedia || {}));
