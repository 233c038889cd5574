// Playing many clips on one clock. The slowest clip is the master: the others slow down until it has caught up.
// Nothing is ever sought while clips play, because under load each seek stalls a decoder and makes the drift worse.
// If a machine cannot decode as many clips as are on the screen, one of them can play alone: the one that is chosen by
// the pointer or the focus. The others hold their frame.
(function (tm) {
  "use strict";

  const CHECK_MS = 200;
  const START_MS = 3000; // after this long, clips that are not ready yet join later
  const MANY = 16; // clips that most machines play at full speed
  const SLOW_TICKS = 15; // so long the clock goes at less than half its speed before somebody is told
  const READY = 3; // HTMLMediaElement.HAVE_FUTURE_DATA

  class Group {
    members = new Map(); // video -> clip
    playing = false; // what the user asked for
    suspended = false; // the page is not visible
    speed = 1;
    loop = true;
    alone = false; // whether only the chosen clip plays
    chosen = null; // the video that the pointer or the focus was on last
    onSlow = () => {}; // told once if there are too many clips for this machine
    slowTicks = 0;
    time = 0;
    listeners = new Set();
    timer = null;
    run = 0; // counts starts, so that a late one does nothing

    /** Add a video that has its src; it joins the clock when its first frame is there. */
    add(video, clip) {
      this.members.set(video, clip);
      const join = () => {
        if (!this.members.has(video)) return;
        video.playbackRate = this.speed;
        if (!this.playing) this.changed(); // no clock tells of it
        const late = this.mayPlay(video) && this.time > 0.05 && Math.abs(video.currentTime - this.time) > 0.05;
        if (late) video.currentTime = this.playing ? Math.min(this.time, endOf(clip))
          : middle(frameAt(this.time, clip), clip);
        if (this.playing && !this.suspended && this.mayPlay(video) && (!late || this.time < endOf(clip))) play(video);
      };
      if (video.readyState >= 2) join();
      else video.addEventListener("loadeddata", join, { once: true });
    }

    remove(video) {
      this.members.delete(video);
    }

    mayPlay(video) {
      return !this.alone || video === this.chosen || this.members.size === 1;
    }

    /** The videos on the clock, with their clips: all, or the one that plays alone. */
    get active() {
      return [...this.members].filter(([video]) => this.mayPlay(video));
    }

    /** Let only the chosen clip play, or all. */
    async setAlone(alone) {
      this.alone = alone;
      this.halt();
      this.changed();
      if (!alone) await this.seekAll(Math.min(this.time, this.duration));
      if (this.playing && !this.suspended) await this.start();
    }

    /** The pointer or the focus is on a clip: if clips play alone, it is this one, from its beginning. */
    choose(video) {
      if (!video || video === this.chosen) return;
      this.chosen = video;
      if (!this.alone || !this.members.has(video)) return; // a video that is not loaded yet plays when it is
      this.halt();
      if (!this.playing) this.showFrame(0);
      else this.seekAll(0).then(() => this.chosen === video && this.playing && !this.suspended && this.start());
    }

    onChange(listener) {
      this.listeners.add(listener);
      return () => this.listeners.delete(listener);
    }

    changed() {
      for (const listener of this.listeners) listener(this);
    }

    get duration() {
      return Math.max(0, ...this.active.map(([, clip]) => clip.frames / clip.fps || 0));
    }

    /** Frames per second that most members share; frame stepping moves by one of these. */
    get fps() {
      return [...this.members.values()].find((clip) => clip.fps)?.fps || 30;
    }

    get frame() {
      return Math.floor(this.time * this.fps + 1e-3);
    }

    toggle() {
      if (this.playing) this.pause();
      else this.play();
    }

    async play() {
      this.playing = true;
      this.changed();
      if (this.time >= this.duration - 0.5 / this.fps) await this.seekAll(0);
      await this.start();
    }

    async start() {
      const run = ++this.run;
      const videos = this.active.map(([video]) => video);
      await Promise.race([Promise.all(videos.map(ready)), wait(START_MS)]);
      if (run !== this.run || !this.playing || this.suspended) return;
      for (const [video, clip] of this.active) {
        video.playbackRate = this.speed;
        if (!video.ended && video.currentTime < endOf(clip)) play(video);
      }
      clearInterval(this.timer);
      this.timer = setInterval(() => this.tick(), CHECK_MS);
    }

    /** Stop on a whole frame, the same one in all clips. */
    pause() {
      this.playing = false;
      this.halt();
      this.showFrame(this.frame);
    }

    halt() {
      this.run++;
      clearInterval(this.timer);
      for (const video of this.members.keys()) video.pause();
    }

    /** Called when the page is hidden or shown; the user's choice stays. */
    suspend(hidden) {
      if (hidden === this.suspended) return;
      this.suspended = hidden;
      if (hidden) this.halt();
      else if (this.playing) this.start();
    }

    setSpeed(speed) {
      this.speed = speed;
      for (const video of this.members.keys()) video.playbackRate = speed;
      this.changed();
    }

    setLoop(loop) {
      this.loop = loop;
      this.changed();
    }

    /** Show frame n of all clips; shorter ones hold their last. */
    showFrame(number) {
      const last = Math.max(0, Math.round(this.duration * this.fps) - 1);
      const frame = Math.min(Math.max(0, number), last);
      this.time = frame / this.fps;
      for (const [video, clip] of this.active) {
        if (video.readyState >= 1) video.currentTime = middle(frameAt(this.time, clip), clip);
      }
      this.changed();
    }

    stepFrame(by) {
      if (this.playing) this.pause();
      this.showFrame(this.frame + by);
    }

    async seekAll(time) {
      this.time = time;
      await Promise.race([
        Promise.all(this.active.map(([video, clip]) => seek(video, middle(frameAt(time, clip), clip)))),
        wait(START_MS),
      ]);
      this.changed();
    }

    /** Match the rates to the slowest, and start again when all have ended. */
    tick() {
      const members = this.active;
      const active = members.filter(([video, clip]) => !video.ended && video.readyState >= 2
        && video.currentTime < endOf(clip));
      const moving = active.filter(([video]) => !video.paused);
      if (!moving.length) {
        if (members.length && !active.length) this.ended();
        return;
      }
      const slowest = Math.min(...moving.map(([video]) => video.currentTime));
      for (const [video] of moving) {
        const rate = this.speed * Math.min(1, Math.max(0.25, 1 - 4 * (video.currentTime - slowest)));
        if (Math.abs(video.playbackRate - rate) > 0.01) video.playbackRate = rate;
      }
      this.watchSpeed(moving.length, slowest - this.time);
      this.time = slowest;
      this.changed();
    }

    /** Tell if the clock has been too slow for a while, with more clips than most machines can play. */
    watchSpeed(count, passed) {
      const isSlow = count > MANY && passed < (0.5 * this.speed * CHECK_MS) / 1000;
      this.slowTicks = isSlow ? this.slowTicks + 1 : 0;
      if (this.slowTicks === SLOW_TICKS) this.onSlow(count);
    }

    async ended() {
      clearInterval(this.timer);
      this.time = this.duration;
      if (!this.loop) {
        this.playing = false;
        this.changed();
        return;
      }
      const run = this.run;
      await this.seekAll(0);
      if (this.playing && run === this.run) await this.start();
    }
  }

  /** The time in the middle of a frame: seeking to its edge shows its neighbour in one case of three. */
  const middle = (frame, clip) => (frame + 0.5) / (clip.fps || 30);
  const frameAt = (time, clip) => Math.min(Math.max(0, (clip.frames || 1) - 1),
    Math.floor(time * (clip.fps || 30) + 1e-3));
  const endOf = (clip) => (clip.frames && clip.fps ? (clip.frames - 0.5) / clip.fps : Infinity);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const play = (video) => video.play().catch(() => {}); // interrupted by a pause or a new src

  function ready(video) {
    if (video.readyState >= READY || video.error) return Promise.resolve();
    return new Promise((resolve) => {
      video.addEventListener("canplay", resolve, { once: true });
      video.addEventListener("error", resolve, { once: true });
    });
  }

  function seek(video, time) {
    if (video.readyState < 1) return Promise.resolve();
    return new Promise((resolve) => {
      video.addEventListener("seeked", resolve, { once: true });
      video.currentTime = time;
    });
  }

  /** Tell of each frame that a video shows while it is followed, by the frame's time: `currentTime` is not exact. */
  function follow(video, clip, show, isFollowed) {
    if (!video.requestVideoFrameCallback) return;
    const next = (now, { mediaTime }) => {
      if (!isFollowed()) return;
      show(Math.round(mediaTime * (clip.fps || 30)));
      video.requestVideoFrameCallback(next);
    };
    video.requestVideoFrameCallback(next);
    // A busy browser may show the frame that a pause went to before it calls back: there, the time is a frame's middle.
    video.addEventListener("seeked", () => isFollowed() && video.paused && show(frameAt(video.currentTime, clip)));
  }

  tm.player = { Group, middle, follow, wait };
})((window.tuneMedia = window.tuneMedia || {}));
