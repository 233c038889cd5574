// Forks on the page: where an episode was forked, from which step on another policy could not save it, and the seeds
// that continuations do not have.
(function (tm) {
  "use strict";

  const { html } = tm.ui;
  const { lastStep } = tm.steps;
  const CHART_HEIGHT = 130;
  const NAMES = { success: "P(success)" };

  /** The step at which a trial's episodes were forked; null: they were not. */
  const forkedAt = (trial) => trial.fork?.at ?? null;

  /** What a trial of a fork is called beside the others; of any other trial nothing. */
  const titleOf = ({ fork }) => fork && (fork.at == null ? "original" : `forked at ${fork.at}`);

  /** The seed of a clip's episode. A continuation has none: it has a number, and the world of its original. */
  const seedOf = (clip) => (forkedAt(clip.trial) == null ? clip.seed : null);

  /** Return the moment at which a clip's episode was forked, as a list. */
  const forkMoments = (clip) => (forkedAt(clip.trial) == null ? [] : [{ step: forkedAt(clip.trial), kind: "fork", text: "forked here" }]);

  /** Return the moments from which on a policy could not save the episode, and the steps that these may be instead. */
  function blameMoments(blames, clip) {
    return blames.filter(({ step }) => step != null && step < lastStep(clip)).flatMap(({ step, between, sentence, policy }) => [
      ...(between[0] < between[1] ? [{ step: between[0], until: between[1], kind: "unsure", text: sentence, isSaid: true }] : []),
      { step, kind: "blame", text: `too late for ${policy} from here on` },
    ]);
  }

  /** Return the chart of what becomes of an episode if a policy takes over after so many steps. */
  function curveOf({ curve, metric, threshold }) {
    const [x, values, lows, highs] = [0, 1, 2, 3].map((part) => curve.map((point) => point[part]));
    const color = tm.charts.cssColor("--accent");
    const saved = { label: "saved above", values: x.map(() => threshold), color: tm.charts.cssColor("--muted"), dash: [4, 4], points: false };
    return { x, series: [{ label: NAMES[metric] || metric, values, lows, highs, color, points: true }, ...(threshold == null ? [] : [saved])] };
  }

  /** A chart for each policy of which is known from which step on it could not save the episode. `refs(at, chart)`. */
  const Blames = ({ app, clip, blames, curves, refs, onGo }) => blames.map((blame, at) => html`<figure class="overlaid blamed" key=${blame.policy + at}>
    <figcaption>${blame.sentence}</figcaption>
    <${tm.charts.Chart} ref=${(chart) => refs(at, chart)} x=${curves[at].x} series=${curves[at].series} xLabel="taken over after step" height=${CHART_HEIGHT} theme=${app.theme}
      span=${[0, lastStep(clip)]} mark=${blame.step < lastStep(clip) ? blame.step : null} markColor="--problem" label=${`${NAMES[blame.metric] || blame.metric} if ${blame.policy} takes over`} onPick=${onGo} /></figure>`);

  tm.forks = { forkedAt, titleOf, seedOf, forkMoments, blameMoments, curveOf, Blames };
})((window.tuneMedia = window.tuneMedia || {}));
