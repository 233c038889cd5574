// The time line of an episode, or of several on one clock: filmstrips, the moments that stand out, and a slider.
// It lies on the same horizontal scale as the charts below it.
(function (tm) {
  "use strict";

  const { html, Component, number } = tm.ui;
  const { frameOf, lastStep, stepOf, strideOf } = tm.steps;
  const STRIP_HEIGHT = 54;
  const [FEWEST_CELLS, MOST_CELLS] = [4, 24];
  const SHOT_HEIGHT = 200; // pixels of a frame at the most
  const FRAME_MS = 200; // a frame that was sought is on the screen by then
  const LABEL = 22; // height of a label of the picture that is saved
  const SIGNS = { high: "▲", low: "▼", limit: "▮", still: "◼", end: "●", difference: "◆", fork: "↱" };

  let shooting = Promise.resolve(); // one strip after the other: each seek costs a decoder some time

  /** Draw frames of a clip, one after the other, by a hidden player: `draw(video, place)` for each. */
  function shoot(clip, frames, draw, isWanted) {
    shooting = shooting.then(async () => {
      if (!isWanted()) return;
      const video = Object.assign(document.createElement("video"),
        { muted: true, playsInline: true, preload: "auto", src: clip.url });
      try {
        await told(video, "loadeddata");
        for (const [place, frame] of frames.entries()) {
          if (!isWanted()) return;
          video.currentTime = tm.player.middle(frame, clip);
          await Promise.all([told(video, "seeked"), shown(video)]);
          if (isWanted()) draw(video, place);
        }
      } catch (error) {
        // the clip is gone; its player says so
      } finally {
        video.removeAttribute("src");
        video.load();
      }
    });
    return shooting;
  }

  /** The longest of some clips, [{clip}]. */
  const masterOf = (clips) => clips.reduce((best, { clip }) => (!best || lastStep(clip) > lastStep(best) ? clip : best),
    null);

  const told = (video, name) => new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, { once: true });
    video.addEventListener("error", reject, { once: true });
  });

  const shown = (video) => new Promise((resolve) => {
    video.requestVideoFrameCallback?.(resolve);
    setTimeout(resolve, FRAME_MS);
  });

  /** Frames of a clip in a row, each over the steps that it stands for. */
  class Filmstrip extends Component {
    state = { count: 0 };

    componentDidMount() {
      this.observer = new ResizeObserver(() => this.fit());
      this.observer.observe(this.base);
      this.fit();
    }

    componentDidUpdate(before, { count }) {
      if (before.clip.url !== this.props.clip.url || before.last !== this.props.last) this.fit();
      if (count !== this.state.count || before.clip.url !== this.props.clip.url) this.draw();
    }

    componentWillUnmount() {
      this.observer.disconnect();
      this.drawing = null;
    }

    shouldComponentUpdate(props, state) {
      return props.clip.url !== this.props.clip.url || props.last !== this.props.last
        || state.count !== this.state.count;
    }

    /** The number of frames that have room beside each other. */
    fit() {
      const { clip } = this.props;
      const room = this.base.clientWidth / (STRIP_HEIGHT * ((clip.width || 3) / (clip.height || 2)));
      const count = Math.min(Math.max(1, clip.frames || 1), MOST_CELLS, Math.max(FEWEST_CELLS, Math.floor(room)));
      if (this.base.clientWidth && count !== this.state.count) this.setState({ count });
    }

    draw() {
      const { clip } = this.props;
      const drawing = (this.drawing = {});
      const canvases = [...this.base.querySelectorAll("canvas")];
      const frames = cellSteps(clip, canvases.length).map((step) => frameOf(clip, step));
      shoot(clip, frames, (video, place) => paint(canvases[place], video), () => this.drawing === drawing);
    }

    render({ clip, last }, { count }) {
      const share = (100 * lastStep(clip)) / (last || 1);
      return html`<div class=${`filmstrip${clip.width && clip.width < tm.ui.FEW_PIXELS ? " pixels" : ""}`}
        style=${{ width: `${share}%`, height: `${STRIP_HEIGHT}px` }} aria-hidden="true">
        ${Array.from({ length: count }, (_, place) => html`<canvas key=${place}></canvas>`)}</div>`;
    }
  }

  /** The steps of the frames of a strip: the middle of each part, but the first and the last step at its ends. */
  function cellSteps(clip, count) {
    const last = lastStep(clip);
    return Array.from({ length: count },
      (_, at) => (at === 0 ? 0 : at === count - 1 ? last : ((at + 0.5) / count) * last));
  }

  function paint(canvas, video) {
    const scale = Math.min(1, SHOT_HEIGHT / video.videoHeight);
    canvas.width = Math.max(1, Math.round(video.videoWidth * scale));
    canvas.height = Math.max(1, Math.round(video.videoHeight * scale));
    canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
  }

  /** Save the filmstrips on the page as one picture: a row for each clip, the step under each frame. */
  async function savePicture(app, place, clips, name) {
    await shooting; // all strips are drawn
    const rows = [...place.querySelectorAll(".filmstrip")].map((strip, at) => ({ clip: clips[at].clip,
      label: clips[at].label, cells: [...strip.querySelectorAll("canvas")] }));
    const widest = Math.max(...rows.map(({ cells }) => cells.reduce((sum, cell) => sum + cell.width + 4, 4)));
    const heights = rows.map(({ cells, label }) =>
      Math.max(...cells.map((cell) => cell.height)) + LABEL + (label ? LABEL : 0));
    const picture = Object.assign(document.createElement("canvas"),
      { width: widest, height: heights.reduce((sum, height) => sum + height, 4) });
    const pen = picture.getContext("2d");
    pen.fillStyle = "#fafaf8";
    pen.fillRect(0, 0, picture.width, picture.height);
    pen.font = "13px system-ui, sans-serif";
    let top = 4;
    for (const [row, { clip, label, cells }] of rows.entries()) {
      pen.fillStyle = "#19191e";
      if (label) pen.fillText(label, 4, top + 15);
      let left = 4;
      for (const [at, step] of cellSteps(clip, cells.length).entries()) {
        const from = top + (label ? LABEL : 0);
        pen.drawImage(cells[at], left, from);
        pen.fillStyle = "#5f5f69";
        pen.fillText(`step ${number(stepOf(clip, frameOf(clip, step)))}`, left, from + cells[at].height + 15);
        left += cells[at].width + 4;
      }
      top += heights[row];
    }
    try {
      const content = await new Promise((resolve) => picture.toBlob(resolve));
      tm.ui.save(content, `${name}_filmstrip.png`);
    } catch (error) { // a page from disk may show the frames, and not read them
      app.show(Picture, { picture });
    }
  }

  /** The picture that the page from disk may show, and not save. */
  class Picture extends Component {
    componentDidMount() {
      this.base.querySelector(".picture-place").append(this.props.picture);
    }

    render({ app }) {
      return html`<div><${tm.ui.Dialog} app=${app} title="Filmstrip">
        <p class="muted">The browser lets a page of a folder show this picture, but not save it: take a
          screenshot. <code>tune-media watch</code> can save it.</p>
        <div class="picture-place" tabindex="0" role="img" aria-label="The frames of the clips, with their steps"></div>
      <//></div>`;
    }
  }

  /**
   * The time line. Props: clips ([{clip, color, label}]; the longest is the master), moments ([{step, until, kind,
   * text, color, isSaid}]; those that the page says elsewhere have no button), onGo(step), isBare (without filmstrips).
   * `setStep` moves its line as the clips play.
   */
  class Timeline extends Component {
    componentDidMount() {
      this.props.app.timeline = this;
    }

    componentWillUnmount() {
      if (this.props.app.timeline === this) this.props.app.timeline = null;
    }

    shouldComponentUpdate(props) {
      return ["clips", "moments"].some((name) => props[name] !== this.props[name]);
    }

    get last() {
      return Math.max(1, ...this.props.clips.map(({ clip }) => lastStep(clip)));
    }

    /** The longest clip: the slider moves by its frames. */
    get master() {
      return masterOf(this.props.clips);
    }

    /** Move the line and the slider to an env step. */
    setStep(step) {
      this.step = step;
      const slider = this.base?.querySelector("input");
      if (!slider) return;
      slider.value = frameOf(this.master, step);
      slider.setAttribute("aria-valuetext", `env step ${number(step)} of ${number(this.last)}`);
      this.base.querySelector(".playhead").style.left = `${(100 * step) / this.last}%`;
    }

    /** Go to the moment before or after the step that is shown. */
    jump(by) {
      const { moments, clips, onGo, app } = this.props;
      const near = Math.max(...clips.map(({ clip }) => strideOf(clip))) / 2;
      const steps = moments.map(({ step }) => step).sort((a, b) => a - b);
      const now = this.step || 0;
      const next = by > 0 ? steps.find((step) => step > now + near) : steps.reverse().find((step) => step < now - near);
      if (next == null) return;
      onGo(next);
      app.toast(moments.filter(({ step }) => step === next).map(({ text }) => text).join(" · "));
    }

    render({ clips, moments, onGo, isBare }) {
      const { last } = this;
      const isBeside = (own, other) => other.step === own.step && !other.until;
      const before = (own) => moments.filter((other) => isBeside(own, other)).indexOf(own);
      const at = (step) => `${(100 * Math.min(step, last)) / last}%`;
      const { master } = this;
      return html`<div class="timeline">
        ${moments.length > 0 && html`<div class="moments" role="group" aria-label="Moments">
          ${moments.filter(({ isSaid }) => !isSaid).map(({ step, kind, text, color }) => html`
            <button class=${`chip moment ${kind}`} style=${color ? { "--mark": color } : {}} onClick=${() => onGo(step)}
              title=${`Go to step ${number(step)} (n and N: next, previous)`}>
              <i aria-hidden="true">${SIGNS[kind]}</i>
              <span>${text}</span> <span class="muted">step ${number(step)}</span></button>`)}</div>`}
        <div class="track">
          <div class="marks" aria-hidden="true">${moments.map((own) => html`
            <i class=${`mark ${own.kind}`} title=${own.text} onClick=${() => onGo(own.step)}
              style=${{ left: at(own.step), ...(own.color ? { "--mark": own.color } : {}),
                ...(own.until ? { width: `calc(${at(own.until)} - ${at(own.step)})` }
                  : { marginLeft: `${-6 - 13 * before(own)}px` }) }}>${own.until ? "" : SIGNS[own.kind]}</i>`)}</div>
          ${clips.map(({ clip, color }) => !isBare && !clip.isPicture && html`<div class="strip-row"
            key=${clip.path + clip.trial.id} style=${color ? { "--row": color } : {}}>
              <${Filmstrip} clip=${clip} last=${last} /></div>`)}
          ${moments.filter(({ kind }) => kind === "fork")
            .map(({ step }) => html`<i class="line fork" style=${{ left: at(step) }}></i>`)}
          <i class="playhead"></i>
          <input type="range" min="0" max=${Math.max(0, (master.frames || 1) - 1)}
            value=${frameOf(master, this.step || 0)} aria-label="Env step of the episode"
            onInput=${(event) => onGo(stepOf(master, Number(event.target.value)))} />
        </div>
      </div>`;
    }
  }

  /** A view that follows the frames of its longest clip, `master`: it has `load()` and `showFrame(frame)`. */
  class Following extends Component {
    componentDidMount() {
      this.load();
      this.stop = this.props.app.group.onChange(() => this.watch());
      this.watch();
    }

    componentWillUnmount() {
      this.stop();
      this.ended = true;
    }

    /** Follow the video that shows the longest clip. */
    watch() {
      const [video, clip] = [...this.props.app.group.members].find(([, own]) => own.url === this.master?.url) || [];
      if (!video || (video === this.video && clip === this.followed)) return;
      [this.video, this.followed] = [video, clip];
      tm.player.follow(video, clip, (frame) => this.showFrame(frame),
        () => !this.ended && this.video === video && this.followed === clip);
    }

    /** Go to an env step, in all clips. */
    goTo(step) {
      const { master, props: { app: { group } } } = this;
      if (!master || master.isUnplayed) return;
      if (group.playing) group.pause();
      group.showFrame(Math.round((frameOf(master, step) / (master.fps || 30)) * group.fps));
    }
  }

  tm.timeline = { Timeline, Following, masterOf, savePicture };
})((window.tuneMedia = window.tuneMedia || {}));
