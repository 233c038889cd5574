// Plays an episode that has a tape and no clip: on a click, the server renders it in a process of its own. A page that
// cannot do this (a gallery, TensorBoard's tab) says how it is done.
(function (tm) {
  "use strict";

  const { html, number, lastPart, Dialog } = tm.ui;
  const { Component } = window.htmPreact;
  const POLL_MS = 300;

  class PlayTape extends Component {
    constructor() {
      super();
      this.state = { isOpen: false, name: "", played: null, problem: null };
    }

    componentWillUnmount() {
      clearTimeout(this.timer);
    }

    async open() {
      const { app, trial, report, episode } = this.props;
      this.setState({ isOpen: true, played: null, problem: null });
      if (!app.data.plays) return;
      try {
        const { id } = app.data.named.get(trial);
        const { name } = await app.source.play({ trial: id, report, episode });
        this.setState({ name });
        await this.look(name);
      } catch (error) {
        this.setState({ problem: error.message });
      }
    }

    /** Ask how far it is, until it is over or nobody looks. */
    async look(name) {
      const played = await this.props.app.source.played(name);
      this.setState({ played, problem: played.problem });
      if (this.state.isOpen && !played.problem && !played.views.length) {
        this.timer = setTimeout(() => this.look(name).catch((error) => this.setState({ problem: error.message })), POLL_MS);
      }
    }

    close() {
      clearTimeout(this.timer);
      this.setState({ isOpen: false });
    }

    render({ app, trial, episode }, { isOpen, name, played, problem }) {
      if (!app.data.plays) {
        return html`<button class="tape" title="This episode has a tape and no clip: how to see it" onClick=${() => this.open()}>tape</button>
          ${isOpen && html`<${Dialog} label="Episode with a tape" onClose=${() => this.close()}>
            <h2>Episode ${episode.slice(0, 8)} has a tape and no clip</h2>
            <p>This page cannot play it. On a machine that has the experiment, this makes its clip:</p>
            <pre class="command" tabindex="0">${commandOf(app, trial, episode)}</pre>
            <p class="muted">Or open the experiment with <code>tune-media watch</code>, which plays a tape on a click.${app.source.canGroup ? "" : " A gallery has the clip when it is written again."}</p>
          <//>`}`;
      }
      return html`<button class="tape" title="Play this episode again from its tape. This runs the code that made its env, in a process of its own."
          aria-label="Play the episode from its tape" onClick=${() => this.open()}>▷</button>
        ${isOpen && html`<${Dialog} label="Episode from its tape" onClose=${() => this.close()}>
          <h2>Episode ${episode.slice(0, 8)}, from its tape</h2>
          ${problem ? html`<p class="problem" role="alert">${problem}</p>` : played?.views.length ? played.views.map(([view, note], at) => html`
            <figure class="played"><video src=${`played/${name}/${at}.mp4`} aria-label=${view || "Episode"} controls autoplay muted loop playsinline></video>
              <figcaption>${view} ${note && html`<em>${note}</em>`}</figcaption></figure>`)
            : html`<p role="status">The episode is played again, by the code that made its env${played?.step ? `: step ${number(played.step)} of ${number(played.steps)}` : " …"}</p>
              <progress max="1" value=${played?.steps ? played.step / played.steps : undefined}></progress>`}
        <//>`}`;
    }
  }

  /** Return the command that adds the clip of an episode to its experiment. */
  function commandOf(app, trial, episode) {
    const quoted = (text) => (/^[\w.,=+@%/:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    return `tune-media render ${quoted(`path/to/${lastPart(app.data.title)}`)} --trial ${quoted(trial)} --episodes ${episode} --storage`;
  }

  /** The clip of the trial that was left a tape, under the key that is shown. */
  const tapeOf = ({ state }, trial) => trial.tapes.find((own) => own.section === state.section && own.key === state.key);
  const play = (app, trial, tape) => html`<${PlayTape} key=${tape.episode_id} app=${app} trial=${trial.name} report=${tape.report} episode=${tape.episode_id} />`;

  /** What a card shows that has no clip: if the clip was left a tape, the button that plays it. */
  function NoClip({ app, trial }) {
    const tape = tapeOf(app, trial);
    return html`<p>${tape ? html`not rendered, there is its tape: ${play(app, trial, tape)}` : "no clip under this choice"}</p>`;
  }

  /** Among the facts of a card that shows the last clip: a newer one was left a tape. */
  function NewerTape({ app, trial, clip }) {
    const tape = clip && app.state.step === "last" && tapeOf(app, trial);
    return tape && tape.step > clip.step && html`<div><dt>step ${number(tape.step)}</dt><dd>${play(app, trial, tape)}</dd></div>`;
  }

  tm.tape = { PlayTape, NoClip, NewerTape };
})((window.tuneMedia = window.tuneMedia || {}));
