// Columns of the run table whose names begin alike, such as env_runners/..., folded into one.
(function (tm) {
  "use strict";

  const { html } = tm.ui;
  const model = tm.model;
  const FEWEST = 3; // columns that are worth folding

  /** Return the first two parts of a column's name in a CSV, `last/env_runners` of `last/env_runners/x`; else "". */
  const prefixOf = ({ name }) => (name.split("/").length > 2 ? name.split("/").slice(0, 2).join("/") : "");
  const shownName = (prefix) => `${prefix.slice(prefix.indexOf("/") + 1)}/…`;

  /** Return the prefixes that several columns share, with these columns; scores stay for themselves. */
  function groupsOf(columns) {
    const groups = new Map();
    for (const column of columns) {
      const isScore = column.key === "score" || model.knownScores().includes(column.key.replace("metric:", ""));
      const prefix = isScore ? "" : prefixOf(column);
      if (prefix) groups.set(prefix, [...(groups.get(prefix) || []), column]);
    }
    return new Map([...groups].filter(([, own]) => own.length >= FEWEST));
  }

  /** Return the columns with one, {prefix, columns}, in the place of the first of those that are folded. */
  function foldedOf(columns, app) {
    const chosen = new Set(model.listed(app.state.folded));
    const at = new Map();
    for (const [prefix, own] of groupsOf(columns)) {
      if (!chosen.has(prefix)) continue;
      for (const column of own) at.set(column, column === own[0] ? { key: prefix, prefix, columns: own } : null);
    }
    return columns.map((column) => (at.has(column) ? at.get(column) : column)).filter(Boolean);
  }

  const toggle = (app, prefix) => app.set({ folded: model.toggled(model.listed(app.state.folded), prefix).join("\n") });

  /** The buttons above the table, one for each prefix. */
  function Folds({ app, columns }) {
    const chosen = model.listed(app.state.folded);
    const groups = [...groupsOf(columns)];
    if (!groups.length) return null;
    return html`<span class="folds" role="group" aria-label="Fold columns">${groups.map(([prefix, own]) => html`
      <button aria-pressed=${chosen.includes(prefix)} onClick=${() => toggle(app, prefix)}
        title=${`Fold ${own.length} columns into one`}>
          ${shownName(prefix)} <span class="muted">${own.length}</span></button>`)}</span>`;
  }

  /** The head of folded columns; a click unfolds them. */
  const Head = ({ app, fold }) => html`<th scope="col" class="fold-cell">
    <button onClick=${() => toggle(app, fold.prefix)} title=${`Unfold ${fold.columns.length} columns`}>
      ${shownName(fold.prefix)} +${fold.columns.length}</button></th>`;

  /** What stands in a row for folded columns: all values are in its title. */
  const Cell = ({ fold, textOf }) => html`<td class="fold-cell"
    title=${fold.columns.map((column) => `${column.label} ${textOf(column)}`).join("\n")}>…</td>`;

  tm.folds = { foldedOf, Folds, Head, Cell };
})((window.tuneMedia = window.tuneMedia || {}));
