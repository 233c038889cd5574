// The run table: all trials with their status, config, score and last metrics. It is what a sweep without clips shows.
(function (tm) {
  "use strict";

  const { html, Component, number, plural, lastPart, titleOf, Checks, SortHead } = tm.ui;
  const model = tm.model;
  const [FEWEST_ROWS, MOST_ROWS, CELLS] = [50, 200, 6000]; // that are drawn at once; a click shows more
  const [STATUS, SCORE] = ["status", "score"];
  const TIMES = { training_iteration: "iteration", time_total_s: "time (s)" }; // metrics after the score: their labels
  const CLIP_FACTS = [["clip:return", "return of the clip"], ["clip:length", "length of the clip"],
    ["clip:step", "step of the clip"]];

  /** Return all columns after the trial's: {key to sort rows by, name in a CSV, label, isShown by default}. */
  function columnsOf({ data, state, hasClips }) {
    const { isLacking } = tm.filter;
    const { metricNames, params, main, rates: [rate] = [] } = data;
    const isMetric = metricNames.includes(state.score);
    const others = metricNames.filter((name) => name !== state.score);
    const first = [...new Set([...main, rate, ...Object.keys(TIMES)])].filter((name) => others.includes(name));
    const metrics = [...first, ...others.filter((name) => !first.includes(name))];
    const labels = labelsOf([...params, ...metrics]);
    return [
      { key: STATUS, name: "status", label: "status", isShown: data.trials.some(({ status }) => status) },
      ...(state.score ? [{ key: SCORE, name: isMetric ? `last/${state.score}` : model.scoreLabel(state.score),
        label: model.scoreLabel(state.score), isNumber: true, isShown: true }] : []),
      ...params.map((param, at) => ({ key: `param:${param}`, name: `config/${param}`, label: labels[at], param,
        isNumber: data.trials.every(({ params: { [param]: own } }) => isLacking(own) || typeof own === "number"),
        isShown: true })),
      ...metrics.map((metric, at) => ({ key: `metric:${metric}`, name: `last/${metric}`,
        label: model.knownScores().includes(metric) ? model.scoreLabel(metric)
          : metric === rate ? "success" : TIMES[metric] || labels[params.length + at], isNumber: true,
        isShown: at < first.length })),
      ...(hasClips ? CLIP_FACTS.map(([key, label]) => ({ key, name: label, label, isNumber: true })) : []),
      { key: "error", name: "error", label: "error" },
    ];
  }

  /** Return as much of the end of each name as no other name has: `lr` of `a/lr`, unless there is `b/lr`. */
  function labelsOf(names) {
    const endsOf = (name) => name.split("/").map((_, at, parts) => parts.slice(at).join("/")).reverse();
    const counts = new Map();
    for (const end of names.flatMap(endsOf)) counts.set(end, (counts.get(end) || 0) + 1);
    return names.map((name) => endsOf(name).find((end) => counts.get(end) === 1) || name);
  }

  const shownOf = (columns, app) => {
    const chosen = model.listed(app.state.columns);
    return columns.filter(({ key, isShown }) => (chosen.length ? chosen.includes(key) : isShown));
  };

  const valueOf = ({ trial, clip }, { key }) => model.valueOf(trial, key, clip);

  function textOf(row, column) {
    if (column.param) return row.trial.texts[column.param];
    const value = valueOf(row, column);
    if (column.key === STATUS) return row.trial.abandoned ? "abandoned" : value || "–"; // as the filter knows them
    return value == null || value === "" ? "–" : number(value);
  }

  /** Sort by a column: a number the largest first, the score the best first; a second click turns the order around. */
  function sort(app, { key, isNumber }) {
    const { state } = app;
    if (state.sort === key) app.set({ descending: !state.descending });
    else app.set({ sort: key, descending: key === SCORE ? !state.smaller : Boolean(isNumber) });
  }

  /** Return the rows that are shown as CSV, with the names that the DataFrames of tm.load have, and all digits. */
  function csvOf(rows, columns) {
    const cell = (value) => {
      const text = value == null ? "" : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const ofColumn = (value, { param }) => (param && value !== undefined ? tm.filter.shown(value) : value);
    const lines = rows.map((row) => [row.trial.name,
      ...columns.map((column) => ofColumn(valueOf(row, column), column))]);
    return [["trial", ...columns.map(({ name }) => name)], ...lines]
      .map((line) => `${line.map(cell).join(",")}\n`).join("");
  }

  class RunTable extends Component {
    state = { pages: 1, current: null };

    /** The rows are one stop of the Tab key; the arrow keys go from row to row. */
    onKey(event) {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      const names = [...this.base.querySelectorAll("tbody .name")];
      const next = names[names.indexOf(document.activeElement) + by];
      if (!next) return;
      event.preventDefault();
      next.focus();
    }

    render({ app, rows }, { pages, current }) {
      const columns = tm.folds.foldedOf(shownOf(columnsOf(app), app), app);
      const page = Math.max(FEWEST_ROWS, Math.min(MOST_ROWS, Math.floor(CELLS / (columns.length || 1))));
      const most = pages * page;
      const { state } = app;
      const shown = rows.slice(0, most);
      const stop = shown.some(({ trial }) => trial.name === current) ? current : shown[0]?.trial.name;
      const order = state.descending ? "descending" : "ascending";
      const head = (column) => column.prefix ? html`<${tm.folds.Head} app=${app} fold=${column} />`
        : html`<${SortHead} label=${column.label} title=${column.name} isNumber=${column.isNumber}
          order=${state.sort === column.key ? order : undefined} onClick=${() => sort(app, column)} />`;
      return html`<section class="run-table" aria-label="Run table">
        <div class="table-place" tabindex="0" role="region" aria-label="Trials">
          <table class="episodes runs-of-all" aria-rowcount=${rows.length + 1}>
          <thead><tr>${head({ key: "name", name: "trial", label: "trial" })}${columns.map(head)}</tr></thead>
          <tbody onKeyDown=${(event) => this.onKey(event)}
            onfocusin=${(event) => this.setState({ current: event.target.closest("tr").dataset.trial })}>
            ${shown.map((row) => html`<${Row} key=${row.trial.id} app=${app} row=${row} columns=${columns}
              isStop=${row.trial.name === stop} />`)}</tbody>
        </table></div>
        ${rows.length > most && html`<button class="more" onClick=${() => this.setState({ pages: pages + 1 })}>
          Show ${number(Math.min(page, rows.length - most))} more</button>`}
      </section>`;
    }
  }

  /** The choice of columns, and the export of what is shown. */
  function Tools({ app, rows }) {
    const all = columnsOf(app);
    const columns = shownOf(all, app);
    const save = () => tm.ui.save(new Blob([csvOf(rows, columns)], { type: "text/csv" }),
      `${lastPart(app.data.title) || "trials"}.csv`);
    return html`<${tm.folds.Folds} app=${app} columns=${columns} />
      <button onClick=${() => app.show(Columns)}>${columns.length === all.length ? plural(all.length, "column")
        : `${columns.length} of ${plural(all.length, "column")}`} …</button>
      <button onClick=${save}
        title="The trials that the filter lets through, in this order, with these columns and all digits">
        Export CSV</button>`;
  }

  function Row({ app, row, columns, isStop }) {
    const { trial } = row;
    const classOf = ({ key, isNumber }) => (isNumber ? "number" : "") + (key === SCORE ? " of-score" : "")
      + (key === STATUS && model.isFailed(trial) ? " problem" : "");
    return html`<tr data-trial=${trial.name} class=${trial === app.winner ? "winner" : ""}>
      <th scope="row"><div>${app.hasClips && html`<${tm.compare.Tick} app=${app} trial=${trial} />`}
        <i class="swatch" style=${{ background: app.colorOf(trial) }}></i>
        <button class="name" tabindex=${isStop ? 0 : -1} title=${`${trial.name}\n${titleOf(trial, Infinity)}`}
          onClick=${() => app.open(trial)}>${trial.shortName}</button>
        ${trial.rank && html`<span class="rank">
          ${trial === app.winner ? html`<b>★ #${trial.rank}</b>` : `#${trial.rank}`}</span>`}</div></th>
      ${columns.map((column) => column.prefix
        ? html`<${tm.folds.Cell} fold=${column} textOf=${(one) => textOf(row, one)} />`
        : html`<td class=${classOf(column)} title=${column.key === STATUS ? trial.error || undefined
          : column.isNumber ? valueOf(row, column) : textOf(row, column)}>${textOf(row, column)}</td>`)}</tr>`;
  }

  /** The dialog in which the columns are chosen that the table shows. */
  function Columns({ app }) {
    const all = columnsOf(app);
    const show = (keys) => app.set({ columns: keys.join("\n") });
    const label = (key) => all.find((column) => column.key === key).name;
    return html`<${Checks} app=${app} title="Columns" names=${all.map(({ key }) => key)} label=${label}
      chosen=${shownOf(all, app).map(({ key }) => key)} onChange=${show}
      sets=${[["those that matter", []], ["all", all.map(({ key }) => key)]]} />`;
  }

  /** Above the results of a sweep without clips: how to get some. */
  function NoClips({ app }) {
    const yet = app.source.live && tm.live.isActive(app.data) ? " yet" : "";
    return html`<details class="no-clips"><summary>No clips were recorded${yet}. How to record some</summary>
      <ul><li>RLlib: add <code>tm.rllib.record_episodes()</code> to the algorithm's callbacks;</li>
        <li>a loop of your own: wrap the env in <code>tm.gym.RecordEpisodes(env)</code>, and report
          its <code>env.take()</code>;</li>
        <li>rsl_rl: let the training write mp4 files into its log folder;</li>
        <li>any trainable: put a <code>tm.Video(frames)</code> into the result.</li></ul>
      <p>In each case, add <code>tm.JsonMediaLoggerCallback()</code> to the run's callbacks, or the one for TensorBoard,
        W&B or MLflow.</p></details>`;
  }

  tm.table = { RunTable, Tools, Columns, NoClips, CLIP_FACTS };
})((window.tuneMedia = window.tuneMedia || {}));
