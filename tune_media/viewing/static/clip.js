// One clip, large: its episode's series with a cursor that follows the video both ways, its record, its steps.
(function (tm) {
  "use strict";

  const { html, number, captionOf, downloadName, Player } = tm.ui;
  const { Component } = window.htmPreact;
  const { align, Heading } = tm.trial;
  const CHART_HEIGHT = 210;
  const SHOWN_SERIES = 3;
  const SERIES_COLORS = ["--accent", "--second", "--third", "--fourth"];
  const RECORD = [
    "episode_return", "episode_length", "step", "training_iteration", "terminated", "seed", "task", "explored", "weights_version", "rendered",
    "env_steps", "env_runner", "env_index", "agent", "view", "frames", "fps", "frame_stride", "width", "height", "bytes", "note", "episode_id", "trial_id", "path",
  ];

  const NAMES = new Set(["seed", "env runner", "env index", "weights version"]); // numbers that are names, not amounts

  /** Env steps from one frame to the next: what the recorder says, else what the numbers of steps and frames suggest. */
  function strideOf(clip) {
    if (clip.stride) return clip.stride;
    if (!clip.length || clip.frames < 2) return 1;
    return Math.max(1, Math.round(clip.length / (clip.frames - 1)));
  }

  /** The env step that a frame shows. The final frame may follow sooner than the stride says. */
  function stepOf(clip, frame) {
    const step = frame * strideOf(clip);
    return clip.stride && clip.length ? Math.min(step, clip.length) : step;
  }

  /** The frame that is nearest to an env step. */
  function frameOf(clip, step) {
    const last = Math.max(0, (clip.frames || 1) - 1);
    const before = Math.min(Math.floor(step / strideOf(clip)), last);
    const after = Math.min(before + 1, last);
    return step - stepOf(clip, before) < stepOf(clip, after) - step ? before : after;
  }

  /** Return a series with the env step of each value. The first value may belong to the reset or to the first step. */
  function withSteps(name, values, stride, clip, color) {
    const offset = stride === 1 && clip.length && values.length === clip.length ? 1 : 0;
    return { label: name, color, x: values.map((_, index) => index * stride + offset), y: values };
  }

  class ClipView extends Component {
    constructor() {
      super();
      this.state = { details: null, problem: null, frame: 0, toggled: new Set() };
      this.chart = null;
    }

    componentDidMount() {
      this.load();
      this.stop = this.props.app.group.onChange(() => this.watchVideo());
      this.watchVideo();
    }

    componentWillUnmount() {
      this.stop();
      this.ended = true;
    }

    componentDidUpdate(before) {
      if (before.clip.url !== this.props.clip.url) this.load(); // the same clip, read again, keeps its frame
    }

    async load() {
      const { app, clip } = this.props;
      this.setState({ details: null, problem: null, frame: 0 });
      try {
        const details = await app.source.clip(clip);
        if (clip.url === this.props.clip.url) this.setState({ details });
      } catch (error) {
        if (clip.url === this.props.clip.url) this.setState({ problem: error.message });
      }
    }

    /** Follow the frames of the video that is shown: their own time says which frame it is, `currentTime` does not. */
    watchVideo() {
      const video = [...this.props.app.group.members.keys()][0];
      if (!video || video === this.video || !video.requestVideoFrameCallback) return;
      this.video = video;
      const isFollowed = () => !this.ended && video === this.video;
      const follow = (now, { mediaTime }) => {
        if (!isFollowed()) return;
        this.showFrame(Math.round(mediaTime * (this.props.clip.fps || 30)));
        video.requestVideoFrameCallback(follow);
      };
      video.requestVideoFrameCallback(follow);
      // A busy browser may show the frame that a pause went to before it calls back: there, the time is a frame's middle.
      video.addEventListener("seeked", () => {
        if (isFollowed() && video.paused) this.showFrame(tm.player.frameAt(video.currentTime, this.props.clip));
      });
    }

    showFrame(frame) {
      const { clip } = this.props;
      this.chart?.setCursor(stepOf(clip, frame));
      if (frame !== this.state.frame) this.setState({ frame });
    }

    /** Go to the frame of an env step. */
    goTo(step) {
      const { app, clip } = this.props;
      if (app.group.playing) app.group.pause();
      app.group.showFrame(frameOf(clip, step));
    }

    /** Lay out the series; the same objects are returned until something changes, so that the chart is not drawn again. */
    plotted() {
      const { app, clip } = this.props;
      const { details, toggled } = this.state;
      const made = [details, toggled, app.theme];
      if (this.made && made.every((part, index) => part === this.made[index])) return this.laidOut;
      this.made = made;
      const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      const all = numericSeries(details);
      const shown = all.filter(({ name }, index) => (toggled.has(name) ? index >= SHOWN_SERIES : index < SHOWN_SERIES));
      const lines = shown.map(({ name, values }, index) =>
        withSteps(name, values, details.every?.[name] || 1, clip, css(SERIES_COLORS[index % SERIES_COLORS.length])));
      this.laidOut = { all, shown: new Set(shown.map(({ name }) => name)), ...align(lines) };
      return this.laidOut;
    }

    toggle(name) {
      const toggled = new Set(this.state.toggled);
      if (!toggled.delete(name)) toggled.add(name);
      this.setState({ toggled });
    }

    render({ app, trial, clip, isGone }, { details, problem, frame }) {
      const plotted = plottedOrNothing(this, details);
      return html`<main class="clip-view">
        <${Heading} app=${app} trial=${trial}>
          <button onClick=${() => app.copyLink()} title="Copy a link to this view (c)">Copy link</button>
          <a class="button" href=${clip.url} download=${downloadName(clip)}>Download</a>
        <//>
        ${isGone && html`<p class="notice" role="status">The files of this clip have been deleted since you opened it, as the retention of the run says.
          <button class="link" onClick=${() => app.set({ clip: "", frame: 0 })}>Show the trial's newest clip</button></p>`}
        <div class="clip-columns">
          <section class="stage" key=${clip.path}>
            <${Player} clip=${clip} group=${app.group} label=${captionOf(clip)} onOpen=${() => app.group.toggle()} />
            <p class="under" aria-live="off"><span>frame <b class="frame">${frame + 1}</b> of ${number(clip.frames)}</span>
              <span>env step <b>${number(stepOf(clip, frame))}</b></span>
              <span>return <b>${number(clip.return)}</b></span>
              ${clip.note && html`<em>${clip.note}</em>`}</p>
          </section>
          <section class="panel record" tabindex="0" aria-label="Record"><h3>Record</h3>
            <${Record} record=${details?.record || fallbackRecord(clip)} more=${{ ...details?.metrics, ...details?.values }} /></section>
        </div>
        <section class="panel">
          <div class="panel-head"><h3>Over the episode</h3>
            ${plotted.all.map(({ name }) => html`<button class="chip" aria-pressed=${plotted.shown.has(name)} onClick=${() => this.toggle(name)}>${name}</button>`)}
            ${plotted.x.length > 0 && html`<span class="muted">Click or drag to go to the frame.</span>`}</div>
          ${problem && html`<p class="problem">The episode's data could not be read: ${problem}</p>`}
          ${plotted.x.length > 0
            ? html`<${tm.charts.Chart} ref=${(chart) => { this.chart = chart; }} x=${plotted.x} series=${plotted.series} xLabel="env step"
                height=${CHART_HEIGHT} theme=${app.theme} label="Series of the episode" onPick=${(step) => this.goTo(step)} />`
            : details && html`<p class="muted">No series were recorded for this episode. Pass <code>collect=</code> to the recorder to get curves here.</p>`}
        </section>
        ${details?.steps && html`<${Steps} details=${details} row=${stepOf(clip, frame)} />`}
      </main>`;
    }
  }

  const plottedOrNothing = (view, details) => (details ? view.plotted() : { all: [], shown: new Set(), x: [], series: [] });

  /** Return the series that can be drawn: what was recorded, and of the trajectory the reward if it is not among them. */
  function numericSeries(details) {
    const recorded = Object.entries(details.series || {}).map(([name, values]) => ({ name, values }));
    const rewards = details.steps?.reward;
    if (rewards && !recorded.some(({ name }) => name === "reward")) recorded.unshift({ name: "reward", values: rewards });
    return recorded.filter(({ values }) => values.some((value) => typeof value === "number") && values.every((value) => value == null || typeof value === "number"));
  }

  const fallbackRecord = (clip) => ({
    episode_return: clip.return, episode_length: clip.length, step: clip.step, training_iteration: clip.iteration, frames: clip.frames, fps: clip.fps, note: clip.note, path: clip.path,
  });

  function Record({ record, more }) {
    const rows = RECORD.filter((name) => record[name] != null).map((name) => [name.replace(/_/g, " "), record[name]]);
    const text = (name, value) => (typeof value === "object" ? JSON.stringify(value) : typeof value === "number" && !NAMES.has(name) ? number(value) : String(value));
    return html`<table><tbody>${[...rows, ...Object.entries(more || {})].map(([name, value]) => html`
      <tr><th scope="row">${name}</th><td>${text(name, value)}</td></tr>`)}</tbody></table>`;
  }

  /** The trajectory's row of the frame that is shown. */
  function Steps({ details, row }) {
    const names = Object.keys(details.steps);
    const count = details.steps[names[0]].length;
    const at = Math.min(row, count - 1);
    const text = (value) => (Array.isArray(value) ? `[${value.map(number).join(", ")}]` : value == null ? "–" : typeof value === "number" ? number(value) : String(value));
    return html`<section class="panel steps"><h3>Step ${number(at)} of the trajectory</h3>
      <table><tbody>${names.filter((name) => name !== "episode_step").map((name) => html`
        <tr><th scope="row">${name}</th><td>${text(details.steps[name][at])}</td></tr>`)}</tbody></table>
      ${details.steps_note && html`<p class="muted">${details.steps_note}</p>`}
    </section>`;
  }

  tm.clip = { ClipView };
})((window.tuneMedia = window.tuneMedia || {}));
