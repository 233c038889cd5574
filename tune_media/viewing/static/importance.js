// Which hyperparameter matters: how much of the score's differences each one explains, as the server has computed it.
(function (tm) {
  "use strict";

  const { html, lastPart, plural } = tm.ui;
  const MOST_BARS = 8;

  /** Return the hyperparameters that clearly matter, the most important first. */
  const mattering = (app) => (app.judged?.importance || []).filter(([, , low]) => low > 0).map(([name]) => name);

  const percent = (share) => `${Math.round(100 * share)} %`;

  /** A bar for each hyperparameter, with its interval as a line; above the charts. */
  function Importance({ app }) {
    const known = (app.judged?.importance || []).filter(([, share]) => share != null);
    if (!known.length) return null;
    const sure = mattering(app);
    const shown = known.slice(0, MOST_BARS);
    const left = known.length - shown.length;
    return html`<section class="importance" aria-label="Importance of the hyperparameters">
      <p>${sure.length ? html`<b>What matters:</b> ${sure.map(lastPart).join(", ")}.`
        : html`<b>No hyperparameter clearly matters.</b>`}
        ${" "}<span class="muted">The share of the score's differences that each explains; the line is its interval,
          which holds for all together in 95 % of sweeps. Grey: not clearly. It cannot see a hyperparameter that changes
          nothing by itself, but only how another one acts.</span></p>
      <table><tbody>${shown.map(([name, share, low, high]) => html`<tr class=${low > 0 ? "sure" : ""}>
        <th scope="row" title=${name}>${lastPart(name)}</th>
        <td class="bar-place" aria-hidden="true"><i class="bar-of" style=${{ width: `${100 * share}%` }}></i>
          <i class="whisker" style=${{ left: `${100 * low}%`, width: `${100 * (high - low)}%` }}></i></td>
        <td>${percent(share)}</td><td class="muted">${percent(low)} to ${percent(high)}</td></tr>`)}</tbody></table>
      ${left > 0 && html`<p class="muted">${plural(left, "more hyperparameter")} not shown.</p>`}
    </section>`;
  }

  tm.importance = { Importance, mattering };
})((window.tuneMedia = window.tuneMedia || {}));
