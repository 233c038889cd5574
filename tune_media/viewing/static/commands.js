// Commands that say more of what is shown: the page prints them, since they play policies, which takes a while.
(function (tm) {
  "use strict";

  const { html, Dialog } = tm.ui;

  const quoted = (text) => (/^[\w.,=+@%/:-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);

  /** A command as one copies it. */
  const Command = ({ words }) => html`<pre class="command" tabindex="0">
    <code>${["tune-media", ...words].map(quoted).join(" ")}</code></pre>`;

  /** The command that compares the policies of two trials. */
  function comparing(app, trials) {
    const sides = trials.map((trial) => tm.model.sourceOf(app.data, trial).join(":"));
    return { title: "Play both on equal seeds", words: ["gate", ...sides], needs: "its checkpoints are needed",
      text: "May the second replace the first? This stops as soon as it is sure." };
  }

  /** The command that lets another policy go on with an episode. */
  function forking(app, trial, id, step) {
    const [experiment] = tm.model.sourceOf(app.data, trial);
    const how = ["--at", String(step), "--times", "5", "--explore"];
    return { title: "Let another policy go on", words: ["fork", `${experiment}:${id}`, "CANDIDATE", ...how],
      needs: "the episode needs a tape, and CANDIDATE is the folder of a checkpoint, or an experiment",
      text: `From step ${step} on, with other draws, too:` };
  }

  const Button = ({ app, label, title, found }) => html`<button onClick=${() => app.show(Commands, { found })}
    title=${title}>${label}</button>`;

  const Commands = ({ app, found: { title, needs, text, words } }) => html`<${Dialog} app=${app} title=${title}>
    <p class="muted">In a terminal, in the folder that holds the experiment; ${needs}:</p>
    <p>${text}</p><${Command} words=${words} /><//>`;

  tm.commands = { Button, Command, comparing, forking };
})((window.tuneMedia = window.tuneMedia || {}));
