// Configurations on cards: trials that differ only in a training seed are judged together, with an interval.
(function (tm) {
  "use strict";

  const { html, number, plural, lastPart, Card } = tm.ui;
  const model = tm.model;
  const TABLE = "table";
  const [CARD_EDGE, CHARACTER, BETWEEN] = [72, 8, 5]; // of a title: pixels; characters between hyperparameters

  /** Return an estimate's value and the ends of its interval as texts, with the digits that its width allows. */
  function estimateTexts([value, low, high], digits) {
    if (low == null || value == null) return [number(value)];
    const decimals = Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(high - low || Math.abs(value) || 1))));
    const text = (end) => (Number(end.toFixed(decimals)) + 0).toLocaleString("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    return [value, low, high].map(text);
  }

  /** Return an estimate as one text: its value, and its interval if it has one. */
  function estimateText(estimate) {
    const [value, low, high] = estimateTexts(estimate, 3);
    return low == null ? value : `${value} [${low}, ${high}]`;
  }

  /** A success rate on a card, in percent: [rate, low, high], or nothing. */
  function Success({ rate, title }) {
    if (!rate) return null;
    const [value, low, high] = estimateTexts(rate.map((end) => (end == null ? null : 100 * end)), 2);
    return html`<div class="success"><dt>success</dt>
      <dd title=${title}>${value} %${low != null && html` <span class="ends">[${low}, ${high}]</span>`}</dd></div>`;
  }

  /** Return the configurations that the grid shows, in order: those of which a trial passes the filter. */
  function configurationRows(app, rows) {
    const { state, configurations } = app;
    const passing = new Map(rows.map(({ trial, clip }) => [trial, clip]));
    const found = configurations.all.filter((one) => one.trials.some((trial) => passing.has(trial)));
    const name = state.sort.startsWith("param:") ? state.sort.slice(6) : null;
    const value = (one) => (state.sort === "score" ? one.mean[0] : name && one.names.includes(name) ? one.params[name]
      : model.valueOf(one.typical, state.sort, passing.get(one.typical)));
    const sign = state.descending ? -1 : 1;
    return found.sort((a, b) => model.compare(value(a), value(b), sign) || (a.rank ?? Infinity) - (b.rank ?? Infinity));
  }

  /** The range of the scores of all runs, so that the dots of all cards have one scale. */
  function axisOf(configurations) {
    let [low, high] = [Infinity, -Infinity];
    for (const one of configurations.all) {
      for (const value of [...one.counting.map((trial) => trial.score), one.mean[1], one.mean[2]]) {
        if (value == null) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    return { low, span: high - low || 1 };
  }

  /** The score of each run as a dot, the mean as a line, its interval as a bar. A click on a dot shows its clip. */
  function Dots({ one, axis, chosen, color, onChoose }) {
    const at = (value) => `${(3 + (94 * (value - axis.low)) / axis.span).toFixed(2)}%`;
    const [mean, low, high] = one.mean;
    if (mean == null) return html`<div class="dots"></div>`;
    return html`<div class="dots">
      ${low != null && html`<i class="interval" style=${{ left: at(low), right: `calc(100% - ${at(high)})` }}></i>`}
      <i class="mean" style=${{ left: at(mean) }}></i>
      ${one.counting.map((trial) => html`<button class="dot" tabindex="-1" key=${trial.id}
        aria-pressed=${trial === chosen} style=${{ left: at(trial.score), "--color": color }}
        title=${`${seedText(trial, one)}: ${number(trial.score)}. Click to see its clip.`}
        aria-label=${`${seedText(trial, one)}: ${number(trial.score)}`} onClick=${() => onChoose(trial)}></button>`)}
    </div>`;
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
    render({ app, one, clipOf, axis, score, scoreStep, color }, { chosen }) {
      const trial = one.trials.find((own) => own.name === chosen) || one.typical;
      const clip = clipOf(trial);
      const { rank } = one;
      const pairs = model.pairsOf(one);
      const room = (app.judged.hasLongTitles ? 2 : 1) * Math.floor((app.state.size - CARD_EDGE) / CHARACTER);
      const most = tm.ui.fitting(pairs, room, (name, text) => name.length + text.length + BETWEEN);
      const title = model.configurationTitle(one, most);
      const whole = model.configurationTitle(one, Infinity);
      const [mean, low, high] = estimateTexts(one.mean, 2);
      const isTypical = trial === one.typical && one.n > 1;
      const failed = one.leftOut.filter(model.isFailed).length;
      const label = `${rank === 1 ? "Best configuration. " : ""}${whole}: ${plural(one.n, "run")}`;
      return this.frame({ trial, clip, kind: " configuration", ribbon: rank === 1 && "Best", label }, () => html`
          <h2><button class="name" tabindex="-1" title=${whole} onClick=${() => app.open(trial)}>
            <i class="swatch" style=${{ background: color }}></i>${title}</button>
            ${rank && html`<span class="rank">#${rank}</span>`}</h2>
          <p class="runs"><button class="link" tabindex="-1" title="Show a card for each of them"
            onClick=${() => app.showRuns(one)}>${plural(one.n, "run")}</button>
            <${tm.compare.BestAndWorst} app=${app} one=${one} />
            ${failed > 0 && html`<em class="failed-trial" title=${one.leftOut
              .map((own) => `${seedText(own, one)}: ${own.error || "no score"}`).join("\n")}>${failed} failed</em>`}
            ${one.leftOut.length > failed && html`<span class="muted">
              ${one.leftOut.length - failed} without a score</span>`}
            ${one.trials.length > 1 && html`<span class="muted clip-of"
              title=${isTypical ? `${trial.name}: the run whose score is nearest to the mean` : trial.name}>
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
          </dl>
          <${Dots} one=${one} axis=${axis} chosen=${trial} color=${color}
            onChoose=${(own) => this.setState({ chosen: own.name })} />`);
    }
  }

  ConfigurationCard.SHOWN = ["one", "clip", "clips", "rank", "score", "scoreStep", "axis", "color", "ticked"];

  /** The line above the cards: the best configuration, whether that is sure, and a better single run elsewhere. */
  function BestConfiguration({ app }) {
    const { state, data, configurations } = app;
    const [best, second] = configurations.all.filter((one) => one.rank != null);
    if (!best || !second) return null;
    const open = () => app.open(best.typical);
    const close = configurations.all.filter((one) => one.behind && model.hasZero(one.behind));
    const other = data.winner && !best.trials.includes(data.winner)
      && configurations.all.find((one) => one.counting.includes(data.winner));
    const unended = configurations.all.flatMap(({ counting }) => counting.filter(tm.live.isUnended));
    const distanceTo = (one) => `#${one.rank} (${model.configurationTitle(one)}) by ${estimateText(one.behind)}`;
    const { paired } = configurations;
    const worse = paired && state.smaller ? paired.difference.map((value) => value && -value) : paired?.difference;
    return html`<section class="winner-line" aria-label="Best configuration">
      <${tm.ui.BestClip} app=${app} trial=${best.typical} />
      <div>
        <p><b>Best configuration:</b>${" "}<${tm.config.Title} key=${best.id} pairs=${model.pairsOf(best)}
          other=${model.ALL_TRIALS} title=${best.typical.name} onClick=${open} /></p>
        <p>${model.scoreLabel(state.score)} <b>${estimateText(best.mean)}</b> over ${plural(best.n, "run")}.
          ${unended.length > 0
            && html` <b class="unsure">So far:</b> ${plural(unended.length, "run")} may still change it.`}${" "}
          ${!close.length ? html`<b class="sure">Surely the best:</b> ahead of ${distanceTo(second)}.`
            : close[0].behind[1] == null
              ? html`<b class="unsure">Not surely the best:</b> one run cannot tell. Ahead of ${distanceTo(close[0])}.`
              : html`<b class="unsure">Not surely the best:</b> ahead of ${distanceTo(close[0])}, an interval that holds
                zero${close.length > 1 && `, as do those of ${close.length - 1} more`}.`}
          ${paired && html`${" "}On the ${plural(paired.seeds, "evaluation seed")} that both have: ahead of #2
            by ${estimateText(ordered(worse))}.`}</p>
        ${other && html`<p class="muted">The best single run
          is ${seedText(data.winner, other)} of ${model.configurationTitle(other)}
          ${" "}with ${number(data.winner.score)}; its configuration's mean is ${number(other.mean[0])}.</p>`}
      </div>
      <button class="primary" onClick=${open}>${app.hasClips ? "Watch it learn" : "Open a run"}</button>
    </section>`;
  }

  /** Put the ends of a negated interval into order. */
  const ordered = ([value, low, high]) => (low != null && low > high ? [value, high, low] : [value, low, high]);

  /** The switch between the cards of configurations or trials and the run table. */
  function CardsChoice({ app }) {
    const { judged } = app;
    const curves = (!app.isTable || !app.hasClips) && app.data.trials.length > 1
      && app.data.metricNames.includes(app.state.score)
      && html`<button aria-pressed=${app.state.chart} onClick=${() => app.set({ chart: !app.state.chart })}
        title="The chart of all curves">Curves</button>`;
    if (!app.hasClips) return html`<span class="cards-choice">${curves}</span>`;
    const shown = app.isTable ? TABLE : app.configurations ? "configurations" : "trials";
    const hasConfigurations = judged && (judged.hasRuns || shown === "configurations");
    const names = (kind) => (hasConfigurations || kind === TABLE ? kind : "cards");
    return html`<span class="cards-choice">${curves}
      <${tm.ui.Choice} label="Show" values=${[...(hasConfigurations ? ["configurations"] : []), "trials", TABLE]}
        value=${shown} names=${names} onChange=${(cards) => app.set({ cards })} /></span>`;
  }

  tm.configurations = { ConfigurationCard, BestConfiguration, CardsChoice, Success, configurationRows, axisOf };
})((window.tuneMedia = window.tuneMedia || {}));
