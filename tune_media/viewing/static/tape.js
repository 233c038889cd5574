// Episodes with a tape and no clip: the page shows what is on the tape, and on a click the server plays it in another
// process. Then it is a clip like any other. A page that cannot play a tape shows the command that does.
(function (tm) {
  "use strict";

  const { html, number, Dialog } = tm.ui;
  const POLL_MS = 300;
  const PREFIX = "tape/";
  const canPlay = ({ data, host }) => data.plays && host.token();

  /** Return the path that stands in a link where a clip has its file's. */
  const pathOf = (report, episode, view = 0) => `${PREFIX}${view}/${encodeURIComponent(episode)}/${report}`;
  const isTape = (path) => path.startsWith(PREFIX);

  function partsOf(path) {
    const [, view, episode = "", ...report] = path.split("/");
    const id = tm.hosts.attempt(() => decodeURIComponent(episode), episode); // a link may come from anywhere
    return { view: Number(view) || 0, episode: id, report: report.join("/") };
  }

  /** The tapes that were looked at: their episodes, and their clips once they have been played. */
  class Tapes {
    constructor(app) {
      this.app = app;
      this.held = new Map();
      this.version = 0; // how often something became known of one of them
    }

    /** Return the clip of a trial's tape; until it has been played, `isUnplayed` is true and it has no frames. */
    clipOf(trial, path) {
      const tape = this.of(trial, path);
      const made = tape.clips.get(path);
      if (made?.trial === trial) return made;
      const clip = clipOf(trial, path, tape);
      tape.clips.set(path, clip);
      return clip;
    }

    of(trial, path) {
      const { report, episode } = partsOf(path);
      const key = [trial.name, report, episode].join("\n");
      if (!this.held.has(key)) {
        this.held.set(key, { wanted: { trial: trial.id, report, episode }, details: null, played: null, problem: null,
          isPlaying: false, clips: new Map() });
        this.read(this.held.get(key));
      }
      return this.held.get(key);
    }

    change(tape, facts) {
      Object.assign(tape, facts);
      tape.clips.clear();
      this.version++;
      this.app.forceUpdate();
    }

    async read(tape) {
      const { app, app: { source } } = this;
      try {
        if (!source.tape) return;
        this.change(tape, { details: await source.tape(tape.wanted) });
        const played = canPlay(app) ? await source.played(tape.wanted) : {};
        if (played.views?.length) this.change(tape, { played });
      } catch (error) {
        this.change(tape, { problem: error.message });
      }
    }

    /** Have the server play a tape, and ask how far it is until it is over. */
    async play(tape) {
      if (tape.isPlaying || tape.played?.views.length) return;
      const { source, host } = this.app;
      this.change(tape, { isPlaying: true, played: null, problem: null });
      try {
        await source.play(tape.wanted, host.token());
        for (;;) {
          const played = await source.played(tape.wanted);
          if (played.problem) throw new Error(played.problem);
          this.change(tape, { played, isPlaying: !played.views?.length });
          if (!tape.isPlaying) return;
          await tm.player.wait(POLL_MS);
        }
      } catch (error) {
        this.change(tape, { isPlaying: false, played: null, problem: error.message });
      }
    }
  }

  /** Return a tape as a clip, see model.js. */
  function clipOf(trial, path, tape) {
    const { view } = partsOf(path);
    const record = tape.details?.record || {};
    const shown = tape.played?.views?.[view];
    return {
      trial, path, tape, details: tape.details, view, kind: "video", isUnplayed: !shown,
      url: shown ? `played/${tape.played.name}/${view}.mp4` : path, file: "episode.mp4", suffix: ".mp4",
      section: record.section, key: `${record.recorder || "episode"}/tape`, step: record.step,
      iteration: record.training_iteration,
      return: record.episode_return, length: record.episode_length, seed: record.seed, rolled_back: false,
      note: shown?.note || null, frames: shown?.frames, fps: shown?.fps, stride: shown?.stride, width: shown?.width,
      height: shown?.height,
    };
  }

  /** What stands in the place of a tape's clip: the button that plays it, how far it is, or why it cannot be played. */
  function Stage({ app, clip }) {
    const { tape } = clip;
    const { played, problem } = tape;
    if (!canPlay(app)) return html`<div class="screen untaped">
      <${HowTo} app=${app} trial=${clip.trial.name} episode=${tape.wanted.episode} /></div>`;
    if (tape.isPlaying) {
      return html`<div class="screen untaped"><p role="status">The episode is played again, by the code that made its
        env${played?.step ? `: step ${number(played.step)} of ${number(played.steps)}` : " …"}</p>
        <progress max="1" value=${played?.steps ? played.step / played.steps : undefined}
          aria-label="Steps played"></progress></div>`;
    }
    return html`<div class="screen untaped">${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <button class="primary tape-play" onClick=${() => app.tapes.play(tape)}>
        ▷ ${problem ? "Try again" : "Play it from its tape"}</button>
      <p class="muted">This runs the code that made its env, in a process of its own.</p></div>`;
  }

  /** How the clip of an episode is made if this page cannot play it. */
  function HowTo({ app, trial, episode }) {
    const [experiment, own] = tm.model.sourceOf(app.data, { name: trial });
    const why = app.data.plays ? "Only a page at the address that tune-media watch printed plays it"
      : "This page cannot play it";
    return html`<p>${why}. On a machine that has the experiment, this makes its clip:</p>
      <${tm.commands.Command}
        words=${["render", `path/to/${experiment}`, "--trial", own, "--episodes", episode]} />
      <p class="muted">Or open the experiment with <code>tune-media watch</code>, which plays a tape on a click.</p>`;
  }

  /** The button that opens an episode with a tape and no clip. */
  function PlayTape({ app, trial, report, episode }) {
    const open = () => {
      const path = pathOf(report, episode);
      if (canPlay(app)) app.tapes.play(app.tapes.of(app.data.named.get(trial), path));
      app.go({ view: "clip", trial, clip: path });
    };
    const title = canPlay(app)
      ? "Play this episode again from its tape. This runs the code that made its env, in a process of its own."
      : "This episode has a tape and no clip";
    return html`<button class="tape" title=${title} aria-label=${canPlay(app) ? "Play the episode from its tape"
      : undefined} onClick=${app.source.tape ? open : () => app.show(NotHere, { trial, episode })}>
        ${canPlay(app) ? "▷" : "tape"}</button>`;
  }

  const NotHere = ({ app, trial, episode }) => html`<${Dialog} app=${app}
    title=${`Episode ${episode.slice(0, 8)} has a tape and no clip`}>
    <${HowTo} app=${app} trial=${trial} episode=${episode} /><//>`;

  /** The clip of the trial that was left a tape, under the key that is shown. */
  const tapeOf = ({ state }, trial) =>
    trial.tapes.find((own) => own.section === state.section && own.key === state.key);
  const play = (app, trial, tape) => html`<${PlayTape} key=${tape.episode_id} app=${app} trial=${trial.name}
    report=${tape.report} episode=${tape.episode_id} />`;

  /** What a card or a trial without a clip shows: if the clip was left a tape, why, and the button that plays it. */
  function NoClip({ app, trial }) {
    const tape = tapeOf(app, trial);
    return html`<p>${tape ? html`${tape.note || "not rendered"}. There is its tape: ${play(app, trial, tape)}`
      : "no clip under this choice"}</p>`;
  }

  /** Among the facts of a card that shows the last clip: a newer one was left a tape. */
  function NewerTape({ app, trial, clip }) {
    const tape = clip && app.state.step === "last" && tapeOf(app, trial);
    return tape && tape.step > clip.step && html`<div><dt>step ${number(tape.step)}</dt>
      <dd>${play(app, trial, tape)}</dd></div>`;
  }

  /** The views of an episode that has been played, if there are several. */
  function Views({ app, clip: { tape, view } }) {
    const names = (tape?.played?.views || []).map(({ name }) => name);
    if (names.length < 2) return null;
    return html`<${tm.ui.Choice} label="View" values=${names.map((_, at) => at)} value=${view} names=${(at) =>
      names[at]} onChange=${(at) => app.set({ clip: pathOf(tape.wanted.report, tape.wanted.episode, at) })} />`;
  }

  tm.tape = { Tapes, Stage, Views, PlayTape, NoClip, NewerTape, isTape, pathOf };
})((window.tuneMedia = window.tuneMedia || {}));
