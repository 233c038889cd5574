// The page of a gate: its colors, and both clips of a seed, which play in step.
(function () {
  "use strict";

  const FARTHEST = 0.1; // seconds that a clip may be off before it is moved

  const dark = matchMedia("screen and (prefers-color-scheme: dark)"); // paper is light
  const paint = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", paint);
  paint();

  /** Return a clip with the steps that it shows: the first one, the last one, and how many in a second. */
  const clipOf = (video) => ({ video, first: Number(video.dataset.first), last: Number(video.dataset.last),
    stride: Number(video.dataset.stride), fps: Number(video.dataset.fps),
    rate: Number(video.dataset.fps) * Number(video.dataset.stride) });

  /** Show a step: the middle of the frame that has it, or the last frame. */
  function show({ video, first, last, stride, fps }, step) {
    const frame = Math.round((Math.min(Math.max(step, first), last) - first) / stride);
    video.currentTime = Math.min((frame + 0.5) / fps, video.duration || Infinity);
  }

  /** Return the step that a clip shows. */
  const stepOf = ({ video, first, last, stride, fps }) =>
    Math.min(last, first + Math.floor(video.currentTime * fps + 1e-6) * stride);

  function connect(seed) {
    const clips = [...seed.querySelectorAll("video")].map(clipOf);
    const controls = seed.querySelector(".controls");
    if (!clips.length) return;
    const [button, slider, output] = ["button", "input", "output"].map((name) => controls.querySelector(name));
    const leader = clips.reduce((one, other) => (other.last > one.last ? other : one));
    const others = clips.filter((clip) => clip !== leader);
    const name = button.getAttribute("aria-label").replace(/^Play/, "");

    const tell = (step) => {
      slider.value = step;
      slider.setAttribute("aria-valuetext", `step ${step}`);
      output.textContent = `step ${step}`;
    };
    const turn = (isPlaying) => {
      button.textContent = isPlaying ? "❚❚" : "▶";
      button.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"}${name}`);
    };
    const tick = () => {
      const step = stepOf(leader);
      tell(step);
      for (const { video, first, last, rate } of others) {
        const due = (leader.first + leader.video.currentTime * leader.rate - first) / rate;
        if (!video.ended && step < last && Math.abs(video.currentTime - due) > FARTHEST) video.currentTime = due;
      }
      if (leader.video.ended || leader.video.paused) turn(false);
      else requestAnimationFrame(tick);
    };
    const pause = () => { for (const { video } of clips) video.pause(); };
    button.addEventListener("click", () => {
      if (!leader.video.paused && !leader.video.ended) {
        pause();
        return;
      }
      const from = stepOf(leader) >= leader.last ? leader.first : stepOf(leader);
      for (const clip of clips) {
        show(clip, from);
        clip.video.playbackRate = leader.rate / clip.rate;
        if (from < clip.last) clip.video.play().catch(() => {});
      }
      turn(true);
      requestAnimationFrame(tick);
    });
    slider.addEventListener("input", () => {
      pause();
      for (const clip of clips) show(clip, Number(slider.value));
      tell(Number(slider.value));
    });
    for (const { video } of clips) video.controls = false;
    controls.hidden = false;
    tell(leader.first);
  }

  document.querySelectorAll(".seed").forEach(connect);
})();
