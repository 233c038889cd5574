// The comparison of configurations as a figure for a paper: the server draws it, as `tune-media figure` does.
(function (tm) {
  "use strict";

  const { html, Dialog, lastPart } = tm.ui;
  const { Component } = window.htmPreact;
  const ENDINGS = ["svg", "png", "pdf"];

  /** Return the command that draws the same; null of a score that it does not know. */
  function commandOf(app, { metric, mode, by }) {
    const isClip = metric === tm.model.CLIP_SCORE; // without returns in the results, it is the command's score, too
    if (isClip && tm.model.knownScores().some((name) => app.data.metricNames.includes(name))) return null;
    const options = [...(isClip ? [] : ["--metric", metric]), ...(mode === "min" ? ["--min"] : []), ...by.flatMap((name) => ["--by", name])];
    return ["figure", tm.commands.experimentOf(app), "-o", "comparison.svg", ...options];
  }

  const Button = ({ app }) => html`<button onClick=${() => app.show(Figure)} title="The comparison as papers have it">Figure …</button>`;

  class Figure extends Component {
    async save(ending) {
      const { app } = this.props;
      this.setState({ told: "Drawing …" });
      try {
        tm.ui.save(await app.source.figure(app.comparison(app.state), ending), `${lastPart(app.data.title) || "comparison"}.${ending}`);
        this.setState({ told: "" });
      } catch (error) {
        this.setState({ told: error.message });
      }
    }

    render({ app }, { told = "" }) {
      const command = commandOf(app, app.comparison(app.state));
      return html`<${Dialog} app=${app} label="Figure of the comparison">
        <h2>Figure of the comparison</h2>
        <div class="drawing"><p>All configurations by ${tm.model.scoreLabel(app.state.score)}: means with their 95 % intervals, and the runs as dots.</p>
        ${app.source.figure && html`<p class="endings">${ENDINGS.map((ending) => html`<button onClick=${() => this.save(ending)}>${ending.toUpperCase()}</button> `)}</p>
          <p class="told" role="status">${told}</p>`}
        ${command ? html`<p class="muted">${app.source.figure ? "The same in a terminal" : "In a terminal"}, in the folder that holds the experiment:</p><${tm.commands.Command} words=${command} />`
          : !app.source.figure && html`<p class="muted">The command <code>tune-media figure</code> draws metrics of the results; choose one as the score.</p>`}</div>
      <//>`;
    }
  }

  tm.figure = { Button };
})((window.tuneMedia = window.tuneMedia || {}));
