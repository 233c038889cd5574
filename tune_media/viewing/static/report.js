// A report on two policies, made of figures that `evaluation/findings.py` computed: nothing is computed here but places.
(function (tm) {
  "use strict";

  const { html, render, Component } = window.htmPreact;
  const HEIGHT = 100;

  /** A number as the sentences have it: four digits. */
  const shown = (value, sign) => `${sign && value > 0 ? "+" : ""}${Number(value.toPrecision(4))}`;
  const steps = (count) => `${count} ${count === 1 ? "step" : "steps"}`;

  /** The differences of the seeds as bars, the largest gain first. */
  function Seeds({ facts }) {
    const seeds = facts.by_seed.map((one) => ({ ...one, value: one.better_by })).sort((a, b) => b.value - a.value);
    const most = Math.max(...seeds.map(({ value }) => value), 0);
    const least = Math.min(...seeds.map(({ value }) => value), 0);
    const scale = HEIGHT / (most - least || 1);
    const zero = most * scale;
    const ties = seeds.length - facts.won - facts.lost;
    const told = `won ${facts.won}, lost ${facts.lost}${ties ? `, equal ${ties}` : ""} of ${seeds.length} seeds`;
    return html`<section><h2>Seeds won and lost</h2>
      <p class="muted">Each bar is a seed: how much better the candidate is than the base, by ${facts.metric}${facts.mode === "min" ? ", of which less is better" : ""}.</p>
      <svg class="chart" viewBox=${`0 0 ${seeds.length} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`The candidate's differences by seed: ${told}`}>
        ${seeds.map(({ seed, value }, at) => html`<rect class=${value > 0 ? "won" : "lost"} x=${at + 0.1} width="0.8" y=${value > 0 ? zero - value * scale : zero}
          height=${Math.max(Math.abs(value) * scale, 0.6)}><title>seed ${seed}: ${shown(value, true)}</title></rect>`)}
        <line class="zero" x1="0" x2=${seeds.length} y1=${zero} y2=${zero} /></svg>
      <p class="ends"><span>won ${facts.won} · best ${shown(most, true)}</span>${ties > 0 && html`<span>equal ${ties}</span>`}<span>lost ${facts.lost} · worst ${shown(least, true)}</span></p>
      <details><summary>All seeds</summary><div class="wide" tabindex="0" role="region" aria-label="All seeds"><table>
        <thead><tr><th scope="col">seed</th><th scope="col">base</th><th scope="col">candidate</th><th scope="col">better by</th></tr></thead>
        <tbody>${seeds.map((one) => html`<tr><th scope="row">${one.seed}</th><td>${shown(one.base)}</td><td>${shown(one.candidate)}</td><td>${shown(one.value, true)}</td></tr>`)}</tbody></table></div></details>
    </section>`;
  }

  /** Both clips of a seed, which run together. */
  class Seed extends Component {
    constructor(props) {
      super(props);
      this.videos = [null, null];
      this.state = { time: 0, runs: false };
      this.tick = this.tick.bind(this);
    }

    get clips() {
      return this.props.one.clips;
    }

    get there() {
      return this.videos.filter(Boolean);
    }

    get duration() {
      return Math.max(...this.clips.map((clip) => (clip ? clip.frames / clip.fps : 0)));
    }

    /** The video that lasts longer: it says what time it is. */
    get longer() {
      const [one, other] = this.clips.map((clip) => (clip ? clip.frames / clip.fps : -1));
      return this.videos[one >= other ? 0 : 1];
    }

    componentWillUnmount() {
      cancelAnimationFrame(this.frame);
    }

    tick() {
      const { longer } = this;
      const time = longer.currentTime;
      for (const video of this.there) if (video !== longer && !video.ended && Math.abs(video.currentTime - time) > 0.15) video.currentTime = Math.min(time, video.duration || time);
      this.setState({ time, runs: !longer.ended && !longer.paused });
      if (!longer.ended && !longer.paused) this.frame = requestAnimationFrame(this.tick);
    }

    toggle() {
      if (this.state.runs) {
        for (const video of this.there) video.pause();
        this.setState({ runs: false });
        return;
      }
      const from = this.longer.ended || this.state.time >= this.duration - 0.05 ? 0 : this.state.time;
      this.seek(from);
      for (const video of this.there) if (from < (video.duration || Infinity)) video.play().catch(() => {});
      this.setState({ runs: true });
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(this.tick);
    }

    seek(time) {
      for (const video of this.there) video.currentTime = Math.min(time, Number.isFinite(video.duration) ? video.duration : time);
      this.setState({ time });
    }

    render({ one, facts, names }, { time, runs }) {
      const clip = this.clips[0] || this.clips[1];
      const step = clip && Math.min(clip.first + Math.floor(time * clip.fps + 1e-6) * clip.stride, Math.max(...this.clips.filter(Boolean).map(({ last }) => last)));
      const differs = clip && one.differs_at !== null ? (one.differs_at - clip.first) / clip.stride / clip.fps / this.duration : null;
      const gain = one.better_by;
      const has = facts.conditions.length > 1;
      const where = `seed ${one.seed}${has ? `, ${one.condition}` : ""}`;
      return html`<div class="seed"><h3>Seed ${one.seed}${has && ` (${one.condition})`}: ${gain > 0 ? "won" : "lost"} by ${shown(Math.abs(gain))}</h3>
        <p>${one.differs_at === null ? "Where they begin to differ is not known." : `They differ from step ${one.differs_at} on.`}</p>
        <div class="both">${["base", "candidate"].map((role, at) => html`<figure>
          <figcaption><i class=${`swatch ${role}`}></i><b>${role}</b> ${facts.metric} ${shown(one[role])}${this.clips[at] ? `, ${steps(this.clips[at].length)}` : ""}</figcaption>
          <div class="frame">${this.clips[at] ? html`<video ref=${(video) => { this.videos[at] = video; }} src=${this.clips[at].src} muted playsinline preload="auto" aria-label=${`${names[at]}, ${where}`}></video>
            <img src=${this.clips[at].end} alt=${`Last frame: ${names[at]}, ${where}`} />` : html`<p>No clip.</p>`}</div></figure>`)}</div>
        ${clip && html`<div class="controls"><button class="play" onClick=${() => this.toggle()} aria-label=${`${runs ? "Pause" : "Play"} ${where}`}>${runs ? "❚❚" : "▶"}</button>
          <div class="scrub"><input type="range" min="0" max=${this.duration} step=${1 / clip.fps} value=${time} aria-label=${`Time of ${where}`} aria-valuetext=${`step ${step}`}
            onInput=${(event) => { for (const video of this.there) video.pause(); this.seek(Number(event.target.value)); this.setState({ runs: false }); }} />
            ${differs !== null && html`<i style=${{ left: `calc(8px + (100% - 16px) * ${Math.min(1, Math.max(0, differs))})` }} title="They begin to differ here"></i>`}</div>
          <output>step ${step}</output></div>`}
      </div>`;
    }
  }

  const Decisive = ({ facts, names }) => facts.decisive.length > 0 && html`<section><h2>The seeds that differ most</h2>
    <p class="muted">Both play the same seed side by side, from just before their first difference${" "}(the mark on the time line) to the end of the shorter episode.</p>
    ${facts.decisive.map((one) => html`<${Seed} one=${one} facts=${facts} names=${names} />`)}</section>`;

  const Rows = ({ values }) => html`<div class="wide" tabindex="0" role="region" aria-label="Values of the episodes"><table>
    <thead><tr><th scope="col">value</th><th scope="col">base</th><th scope="col">candidate</th><th scope="col">difference</th><th scope="col">95% interval</th>${values.some(({ p }) => p !== null) && html`<th scope="col">p, corrected</th>`}</tr></thead>
    <tbody>${values.map((one) => html`<tr class=${one.is_sure ? "sure" : "unsure"}><th scope="row">${one.name}</th><td>${one.cells[0]}</td><td>${one.cells[1]}</td>
      <td class="diff">${one.cells[2]}</td><td>${one.cells[3]}</td>${one.p !== null && html`<td>${one.p < 0.001 ? "< 0.001" : one.p.toFixed(3)}</td>`}</tr>`)}</tbody></table></div>`;

  /** What differs with the metric: the sure values first, all others to unfold. */
  function Reasons({ facts }) {
    const others = facts.values.filter(({ is_sure }) => !is_sure);
    const corrected = facts.values.length === 1 ? "no others were looked at" : `corrected for the ${facts.values.length} values that were looked at`;
    const early = facts.interval === "sequential" ? " The gate stopped as soon as it was sure of the result, which is often too early for other values: tune-media report on both policies plays all seeds." : "";
    const told = facts.reasons.length ? `${facts.reasons.length === 1 ? "This value of the episodes differs" : "These values of the episodes differ"} surely; ${corrected}. That they differ together does not show that one causes the other.`
      : !facts.difference.is_sure ? "No difference is found, so no reasons are given." : !facts.values.length ? "The episodes have no other values that differ." : `None of the other values of the episodes differs surely; ${corrected}.${early}`;
    return html`<section><h2>What differs with it</h2><p class="muted">${told}</p>
      ${facts.reasons.length > 0 && html`<${Rows} values=${facts.reasons} />`}
      ${others.length > 0 && html`<details><summary>${others.length} that ${others.length === 1 ? "is" : "are"} not sure</summary><${Rows} values=${others} /></details>`}</section>`;
  }

  /** The fact that tells the seeds that are won from the others. */
  function Split({ facts }) {
    const { split, facts_tried: tried } = facts;
    return html`<section><h2>Which seeds it wins</h2>
      ${split ? html`<p>With <b>${split.condition}</b>, the candidate wins <b>${split.won} of ${split.seeds}</b> seeds; of the others, <b>${split.others_won} of ${split.others}</b>.</p>
        <p class="muted">Found on half of the seeds, among ${tried.length} ${tried.length === 1 ? "fact" : "facts"}; the figures are those of the other half (Fisher's exact test, p ${split.p < 0.001 ? "< 0.001" : `= ${split.p.toFixed(3)}`}). Seeds without a winner do not count.</p>`
        : html`<p class="muted">${tried.length ? `None of the ${tried.length} facts that both episodes of a seed have in common separates the seeds that are won from the others, so that it holds on the half that was held out.` : "Nothing is known that both episodes of a seed have in common, such as a condition of the env."}</p>`}</section>`;
  }

  function Endings({ facts }) {
    const most = Math.max(...facts.endings.map(({ base, candidate }) => Math.max(base, candidate)), 1);
    return html`<section><h2>How the episodes ended</h2><div class="wide" tabindex="0" role="region" aria-label="How the episodes ended"><table>
      <thead><tr><th scope="col">end</th><th scope="col">base</th><th scope="col">candidate</th><th scope="col">both as bars</th></tr></thead>
      <tbody>${facts.endings.map(({ name, base, candidate }) => html`<tr><th scope="row">${name}</th><td>${base}</td><td>${candidate}</td>
        <td><div class="bars" aria-hidden="true"><div class="bar-of base" style=${{ width: `${(100 * base) / most}%` }}></div><div class="bar-of candidate" style=${{ width: `${(100 * candidate) / most}%` }}></div></div></td></tr>`)}</tbody></table></div></section>`;
  }

  /** The table as text, to copy. */
  class Paper extends Component {
    constructor(props) {
      super(props);
      this.state = { format: "markdown", told: "" };
    }

    async copy(text) {
      try {
        await navigator.clipboard.writeText(text);
        this.setState({ told: "Copied." });
      } catch {
        getSelection().selectAllChildren(this.text); // a page from disk may not write to the clipboard
        this.setState({ told: "Selected: press Ctrl+C or ⌘C." });
      }
    }

    render({ facts }, { format, told }) {
      return html`<section><h2>A table for a paper</h2><div class="formats"><span class="choice">
          ${["markdown", "latex"].map((one) => html`<button aria-pressed=${format === one} onClick=${() => this.setState({ format: one, told: "" })}>${one === "latex" ? "LaTeX" : "Markdown"}</button>`)}</span>
          <button onClick=${() => this.copy(facts[format])}>Copy</button><span class="muted" role="status">${told}</span></div>
        <pre tabindex="0" ref=${(text) => { this.text = text; }}>${facts[format]}</pre></section>`;
    }
  }

  function Method({ facts }) {
    const fixed = facts.metric === "success" ? "Newcombe's interval for paired rates" : "Student's t interval of the paired differences";
    return html`<section><h2>How it was made</h2><ul class="notes">
      <li>${facts.interval === "sequential" ? "The episodes are a gate's, which stopped as soon as it was sure. Its interval holds at any number of seeds, each end in 95 of 100 gates; those of the other values are corrected for how many there are."
        : `All seeds were played. The interval is ${fixed}, 95 %; p is corrected by Holm's method.`}</li>
      <li>Both policies played each seed once${facts.conditions.length ? `, with ${facts.conditions.join("; and with ")}` : ""}. No difference is called sure that fewer than six seeds show.</li>
      ${facts.problems.map((problem) => html`<li class="problem">${problem}</li>`)}
      <li class="muted">${facts.made}, tune_media ${facts.version}</li></ul></section>`;
  }

  function Report({ facts }) {
    const names = [facts.base, facts.candidate];
    return html`<main class="report"><h1>${facts.sentence}</h1>
      <ul class="sides">${["base", "candidate"].map((role, at) => html`<li><i class=${`swatch ${role}`}></i>${role}: <b>${names[at]}</b></li>`)}</ul>
      <${Seeds} facts=${facts} /><${Decisive} facts=${facts} names=${names} /><${Reasons} facts=${facts} /><${Split} facts=${facts} />
      <${Endings} facts=${facts} /><${Paper} facts=${facts} /><${Method} facts=${facts} /></main>`;
  }

  const dark = matchMedia("screen and (prefers-color-scheme: dark)"); // paper is light
  const paint = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", paint);
  paint();
  render(html`<${Report} facts=${tm.facts} />`, document.getElementById("report"));
})((window.tuneMedia = window.tuneMedia || {}));
