// The trials that failed, and why: those with the same error together.
(function (tm) {
  "use strict";

  const { html, plural, titleOf } = tm.ui;
  const model = tm.model;
  const MOST_REASONS = 3; // unless somebody asks for all
  const MOST_TRIALS = 4; // of one reason

  /** The line above the cards that names the failed trials; nothing if there are none. */
  function Failures({ app }) {
    const failed = app.data.trials.filter(model.isFailed);
    if (!failed.length) return null;
    const reasons = new Map();
    for (const trial of failed) reasons.set(trial.error, [...(reasons.get(trial.error) || []), trial]);
    const sorted = [...reasons].sort((a, b) => b[1].length - a[1].length);
    const shown = sorted.slice(0, MOST_REASONS);
    return html`<section class="failures" aria-label="Failed trials">
      <b class="problem">${plural(failed.length, "trial")} failed</b>
      <ul>${shown.map(([error, trials]) => html`<li>
        ${trials.slice(0, MOST_TRIALS).map((trial) => html`<button class="link"
          title=${`${trial.name}\n${titleOf(trial, Infinity)}`} onClick=${() => app.open(trial)}>
            ${titleOf(trial)}</button>`)}
        ${trials.length > MOST_TRIALS
          && html`<span class="muted">and ${plural(trials.length - MOST_TRIALS, "other")}</span>`}
        <span class="reason">${error || (app.source.isServer ? "it left no error"
          : "a gallery leaves errors out: they may name paths")}</span></li>`)}</ul>
      ${(sorted.length > shown.length || failed.length > MOST_TRIALS) && html`<button class="chip"
        onClick=${() => app.set({ filter: "status=error", cards: "trials" }, true)}>Show them all</button>`}
    </section>`;
  }

  tm.failures = { Failures };
})((window.tuneMedia = window.tuneMedia || {}));
