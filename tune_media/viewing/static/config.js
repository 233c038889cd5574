// A trial's hyperparameters: as a title with those first that matter, and the whole config as a panel.
(function (tm) {
  "use strict";

  const { html, Component, plural } = tm.ui;
  const { titleOf, pairsOf, countIn } = tm.model;
  const MANY = 12; // settings from which on one searches for a name
  const MOST_DIFFERING = 40; // that the server names

  /** The title of a trial or a configuration, and a button that shows more hyperparameters. Its key is the id. */
  class Title extends Component {
    render({ one, title, onClick }, { isOpen }) {
      const text = titleOf(one, isOpen ? Infinity : undefined, "");
      const more = one.unknown ? 0 : pairsOf(one).length - countIn(one);
      return html`${onClick ? html`<button class="link" title=${title} onClick=${onClick}>${text}</button>` : text}
        ${more > 0 && html`${" "}<button class="more-params" aria-expanded=${Boolean(isOpen)}
          aria-label=${`${isOpen ? "Fewer" : `${more} more`} hyperparameters`} title=${titleOf(one, Infinity)}
          onClick=${() => this.setState({ isOpen: !isOpen })}>${isOpen ? "less" : `+${more}`}</button>`}`;
    }
  }

  /** The whole config of a trial: first what differs between the trials, then what is the same in all. */
  class ConfigPanel extends Component {
    state = { config: null, problem: null, text: "" };

    componentDidMount() {
      this.load();
    }

    componentDidUpdate(before) {
      if (before.trial.name !== this.props.trial.name) this.load();
    }

    load() {
      const { app, trial } = this.props;
      this.setState({ config: null, problem: null });
      tm.ui.readInto(this, "config", app.source.config(trial), () => trial.name === this.props.trial.name);
    }

    render({ app, trial }, { config, problem, text }) {
      if (problem) return html`<section class="panel config" aria-label="Config"><h3>Config</h3>
        <p class="problem">The config could not be read: ${problem}</p></section>`;
      const all = Object.entries(config ? tm.filter.readAll(config) : trial.params);
      if (!all.length) return null;
      const own = new Map(all);
      const wanted = text.trim().toLowerCase();
      const isFound = ([name, value]) => `${name} ${value}`.toLowerCase().includes(wanted);
      const differing = app.data.params.filter((name) => own.has(name)).map((name) => [name, own.get(name)])
        .filter(isFound);
      const isComplete = app.data.trials.length > 1 && app.data.params.length < MOST_DIFFERING;
      const same = all.filter(([name]) => !app.data.params.includes(name)).filter(isFound);
      return html`<section class="panel config" aria-label="Config">
        <div class="panel-head"><h3>Config</h3>
          ${all.length > MANY && html`<input class="filter" type="search" aria-label="Find in the config"
            placeholder=${`Find in ${plural(all.length, "hyperparameter")}`} value=${text}
            onInput=${(event) => this.setState({ text: event.target.value })} />`}
          <span class="muted">Keys and passwords are masked.</span></div>
        ${differing.length > 0 && html`<h4>Differs between trials</h4><${Settings} rows=${differing} />`}
        ${same.length > 0 && html`<details open=${Boolean(wanted) || !differing.length || same.length <= MANY}>
          <summary>${isComplete ? "The same in all trials" : "Others"} (${same.length})</summary>
          <${Settings} rows=${same} /></details>`}
        ${!differing.length && !same.length && html`<p class="muted" role="status">
          Nothing in the config has “${text}”.</p>`}
      </section>`;
    }
  }

  const Settings = ({ rows }) => html`<dl class="settings">${rows.map(([name, value]) => html`<div key=${name}>
    <dt>${name}</dt><dd>${tm.filter.plain(tm.filter.shown(value))}</dd></div>`)}</dl>`;

  tm.config = { Title, ConfigPanel };
})((window.tuneMedia = window.tuneMedia || {}));
