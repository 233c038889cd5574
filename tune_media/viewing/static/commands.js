// Commands that say more of what is shown: the page prints them, since they play policies, which takes a while.
(function (tm) {
  "use strict";

  const { html, Dialog, lastPart } = tm.ui;

  const quoted = (text) => (/^[\w.,=+@%/:-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);

  /** Return how a command names the experiment, in the folder that holds it. */
  const experimentOf = ({ data }) => lastPart(data.title) || "my_sweep";

  /** A command as one copies it. */
  const Command = ({ words }) => html`<pre class="command" tabindex="0">
    <code>${["tune-media", ...words].map(quoted).join(" ")}</code></pre>`;

  /** The commands that compare the policies of two trials. */
  function comparing(app, trials) {
    const sides = trials.map((trial) => `${experimentOf(app)}:${lastPart(trial.name)}`);
    return {
      title: "Play both on equal seeds",
      commands: [["May the second replace the first? This stops as soon as it is sure.", ["gate", ...sides]]],
    };
  }

  /** The commands that let another policy go on with an episode. */
  function forking(app, id, step) {
    const words = ["fork", `${experimentOf(app)}:${id}`, "CANDIDATE"];
    return {
      title: "Let another policy go on",
      needs: "the episode needs a tape, and CANDIDATE is the folder of a checkpoint, or an experiment",
      commands: [
        [`From step ${step} on, with other draws, too:`, [...words, "--at", String(step), "--times", "5", "--explore"]],
      ],
    };
  }

  const Button = ({ app, label, title, found }) => html`<button onClick=${() => app.show(Commands, { found })}
    title=${title}>${label}</button>`;

  const Commands = ({ app, found }) => html`<${Dialog} app=${app} label=${found.title}>
    <h2>${found.title}</h2>
    <p class="muted">In a terminal, in the folder that holds the
      experiment; ${found.needs || "its checkpoints are needed"}:</p>
    ${found.commands.map(([text, words]) => html`<p>${text}</p><${Command} words=${words} />`)}
  <//>`;

  tm.commands = { Button, Command, comparing, forking };
})((window.tuneMedia = window.tuneMedia || {}));
