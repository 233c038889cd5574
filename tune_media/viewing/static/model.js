// The data behind all views: clips, trials, scores, sorting and filtering. Nothing here touches the page.
(function (tm) {
  "use strict";

  const ABANDONED =
    "its driver was killed before Tune knew this trial, which started again under another id; not ranked";

  const SMALLER_IS_BETTER = /loss|error|cost|regret|violation/i;
  const CLIP_SCORE = "clip";
  const ALL_TRIALS = "all trials"; // a configuration without hyperparameters
  const UNKNOWN = "unknown (params.json damaged)";
  const CLIP_FACTS = ["return", "length", "step", "frames", "iteration", "seed"];
  const SUCCESS_RATE = "success_rate";
  const OWN_NAMES = ["score", "name", "status", "error", "rank"];
  const FEWEST_DIGITS = 4;
  const SHOWN_PARAMS = 4; // in a title and on a card; the others are a "+2"
  // the trainable, and the id, which is all that differs between trials
  const TUNES_NAME = /^(.+)_([0-9a-f]{5}_\d{5})$/;
  const lastPart = (name) => name.split("/").pop();
  let changes = 0; // how often metrics came
  const COLORS = []; // of trials and configurations, as the server has them: a figure has the same
  const labels = new Map(); // of the metrics that say how good a policy is, best first, as the server names them

  /** Return a function (parts, make) that returns what it made last until one of the parts is another. */
  function memo() {
    let [parts, value] = [null, null];
    return (wanted, make) => {
      if (!parts || wanted.some((part, at) => part !== parts[at])) [parts, value] = [wanted, make()];
      return value;
    };
  }

  /** Return the names in a part of the link, one a line. */
  const listed = (text) => (text ? text.split("\n") : []);

  /** Return a list of names with one more, or without it if it is there. */
  const toggled = (names, name) => (names.includes(name) ? names.filter((other) => other !== name) : [...names, name]);

  /** Return a function from row number to value for one of the three forms of a column. */
  function reader(column) {
    if ("same" in column) return () => column.same;
    if ("of" in column) return (row) => column.of[column.at[row]];
    return (row) => column.all[row];
  }

  /** Return a class of clips that read the columns: a hundred thousand of them take a few MB, and no time to make. */
  function clipClass(payload) {
    class Clip {
      constructor(row, trial) {
        this.row = row;
        this.trial = trial;
      }

      get path() {
        return this.folder ? `${this.folder}/${this.file}` : this.file;
      }

      get url() {
        return payload.media?.[`${this.trial.id}/${this.path}`] || this.trial.url + encodePath(this.path);
      }

      /** Whether an <img> shows it, which has no frames to go to: a picture, or a GIF. */
      get isPicture() {
        return this.kind === "image" || this.suffix.toLowerCase() === ".gif";
      }

      get poster() {
        return payload.posters && !this.isPicture ? this.url + payload.posters : undefined;
      }
    }
    for (const [name, column] of Object.entries(payload.clips)) {
      if (name === "count" || name === "trial") continue;
      const read = reader(column);
      Object.defineProperty(Clip.prototype, name, { get() { return read(this.row); } });
    }
    return Clip;
  }

  /** Turn the server's index into trials with their clips. */
  function decode(payload) {
    COLORS.splice(0, Infinity, ...payload.colors);
    const trials = payload.trials.map((trial, number) => ({
      ...trial, params: tm.filter.readAll(trial.params), number, color: COLORS[number % COLORS.length],
      groups: new Map(), metrics: byName(), clipCount: 0,
      texts: byName(), status: "", error: "", order: { names: payload.params, telling: 0 },
    }));
    for (const name of payload.params) {
      textsOf(trials.map((trial) => trial.params[name]))
        .forEach((text, number) => { trials[number].texts[name] = text; });
    }
    for (const trial of trials) trial.shownName = shownName(trial.name === "." ? { name: payload.title } : trial);
    const named = trials.map((trial) => TUNES_NAME.exec(trial.shownName));
    const areAlike = named.every((parts) => parts && parts[1] === named[0][1]);
    trials.forEach((trial, at) => { trial.shortName = areAlike ? named[at][2] : trial.shownName; });
    const Clip = clipClass(payload);
    const [trialOf, kindOf, sectionOf, keyOf] =
      ["trial", "kind", "section", "key"].map((name) => reader(payload.clips[name]));
    for (let row = 0; row < payload.clips.count; row++) {
      const trial = trials[trialOf(row)];
      const kind = kindOf(row);
      if (kind !== "video" && kind !== "image") continue;
      const clip = new Clip(row, trial);
      const group = groupName(sectionOf(row), keyOf(row));
      const clips = trial.groups.get(group);
      if (clips) clips.push(clip);
      else trial.groups.set(group, [clip]);
      trial.clipCount++;
    }
    for (const trial of trials) {
      for (const [name, clips] of trial.groups) clips.sort(isWorst(name) ? (a, b) => order(a, b, -1) : order);
    }
    for (const [name, label] of Object.entries(payload.returns)) labels.set(name, label);
    const model = { title: payload.title, gate: payload.gate || null, params: payload.params, trials,
      sections: sectionsOf(trials), metricNames: [], scoreNames: [], main: [], newest: null, pending: 0, unreadable: [],
      judged: payload.judged || null, plays: Boolean(payload.plays) };
    if (payload.metrics) addMetrics(model, payload.metrics);
    model.byId = new Map(trials.map((trial) => [trial.id, trial]));
    model.named = new Map(trials.map((trial) => [trial.name, trial]));
    return model;
  }

  /**
   * Order clips by step. Of several at one step the last one is shown: the best that was not rolled back. Without steps
   * they stay in the order of their names.
   */
  function order(a, b, sign = 1) {
    if (a.step == null && b.step == null) return 0;
    return a.step - b.step || Number(b.rolled_back) - Number(a.rolled_back) || sign * compareReturns(a, b) || 0;
  }

  const isWorst = (group) => /worst/.test(group);
  const groupName = (section, key) => JSON.stringify([section, key]);
  /** Return an object for names that people chose: in `{}`, "constructor" and others have a value from the start. */
  const byName = () => Object.create(null);
  const encodePath = (path) => path.split("/").map(encodeURIComponent).join("/");

  /** Return {section: [keys]}, evaluation first, keys with "best" before the others. */
  function sectionsOf(trials) {
    const sections = byName();
    for (const trial of trials) {
      const ofTapes = trial.tapes.map((tape) => groupName(tape.section, tape.key));
      for (const name of [...trial.groups.keys(), ...ofTapes]) {
        const [section, key] = JSON.parse(name);
        (sections[section] = sections[section] || new Set()).add(key);
      }
    }
    const rank = (key) => (/best/.test(key) ? 0 : /worst/.test(key) ? 1 : 2);
    const sorted = byName();
    for (const section of Object.keys(sections).sort()) {
      sorted[section] = [...sections[section]].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
    }
    return sorted;
  }

  const clipsOf = (trial, section, key) => trial.groups.get(groupName(section, key)) || [];

  /** Return the steps at which any trial has a clip of this section and key. */
  const stepsOf = (trials, section, key) =>
    [...new Set(trials.flatMap((trial) => clipsOf(trial, section, key)).map(({ step }) => step))].sort((a, b) => a - b);

  /** Return the range of steps and returns of the clips of all trials. */
  function scaleOf(trials, section, key) {
    const scale = { first: Infinity, last: -Infinity, low: Infinity, high: -Infinity };
    for (const { step, return: value } of trials.flatMap((trial) => clipsOf(trial, section, key))) {
      if (value == null || step == null) continue;
      [scale.first, scale.last] = [Math.min(scale.first, step), Math.max(scale.last, step)];
      [scale.low, scale.high] = [Math.min(scale.low, value), Math.max(scale.high, value)];
    }
    return scale;
  }

  /** Return how many of some sorted items are at a step, or before it. */
  function countUpTo(items, step, stepOf = (item) => item) {
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stepOf(items[middle]) <= step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Return the clip that a trial shows at a step: the last one up to it, or else the first one after it. */
  function clipAt(trial, section, key, step) {
    const clips = clipsOf(trial, section, key);
    return clips[Math.max(0, countUpTo(clips, step, (clip) => clip.step) - 1)] || null;
  }

  /** Return a trial's clip with the highest return, if possible not rolled back; of equal ones the first. */
  function bestClip(trial, section, key) {
    let best = null;
    for (const clip of clipsOf(trial, section, key)) {
      const lead = best ? compareBest(clip, best) : 1;
      if (lead > 0 || (lead === 0 && clip.return == null)) best = clip;
    }
    return best;
  }

  const compareBest = (a, b) => Number(b.rolled_back) - Number(a.rolled_back) || compareReturns(a, b);
  const compareReturns = (a, b) => (a.return ?? -Infinity) - (b.return ?? -Infinity) || 0;

  const clipNamed = (trial, path) => [...trial.groups.values()].flat().find((clip) => clip.path === path);

  /** Take in the last metrics of trials, and what follows from them, see `metrics_payload` in payload.py. */
  function addMetrics(model, payload) {
    const { trials, metrics, status, main = [], params = [], newest = null, pending = 0, unreadable = [],
      iterations = null, apart = {} } = payload;
    const place = new Map(trials.map((id, at) => [id, at]));
    const metricNames = Object.keys(metrics);
    const scoreNames = metricNames.filter((name) => metrics[name].some(Number.isFinite));
    const behind = new Map(Object.entries(apart).map(([name, ids]) => [name, new Set(ids)]));
    Object.assign(model, { metricNames, scoreNames, main, newest, pending, unreadable, iterations });
    model.metricsAt = ++changes;
    model.rates = model.metricNames.filter((name) => lastPart(name) === SUCCESS_RATE)
      .sort((a, b) => Number(b.startsWith("evaluation/")) - Number(a.startsWith("evaluation/")));
    const isKnown = new Set(model.params);
    // those that matter first
    model.params = [...new Set([...params.filter((name) => isKnown.has(name)), ...model.params])];
    for (const trial of model.trials) {
      trial.params = Object.assign(byName(),
        Object.fromEntries(model.params.map((name) => [name, trial.params[name]])));
      const at = place.get(trial.id);
      Object.assign(trial, { metrics: byName(), isBehind: (name) => Boolean(behind.get(name)?.has(trial.id)) });
      if (at == null) continue;
      for (const name of model.metricNames) trial.metrics[name] = tm.filter.read(metrics[name][at]);
      if (status) [trial.status, trial.error] = status[at];
    }
  }

  /** Decode the configurations. Each shows a clip of the trial nearest to the mean: no lucky seed stands for all. */
  function decodeConfigurations({ names: found, configurations: given, verdict, axes, importance }, model) {
    const configurations = given.map((one) => ({ ...one, params: tm.filter.readAll(one.params) }));
    const names = [...found].sort((a, b) => model.params.indexOf(a) - model.params.indexOf(b));
    const texts = new Map(names.map((name) => [name, textsOf(configurations.map(({ params }) => params[name]))]));
    const all = configurations.map((one, place) => {
      const leftOut = new Set(one.left_out);
      const own = one.trials.map((id) => model.byId.get(id)).filter(Boolean);
      const counting = own.filter((trial) => !leftOut.has(trial.id) && trial.score != null);
      const typical = model.byId.get(one.typical) || own[0];
      return {
        ...one, rank: one.n ? place + 1 : null, id: one.trials.join(), names, color: COLORS[one.place % COLORS.length],
        texts: Object.fromEntries(names.map((name) => [name, texts.get(name)[place]])), order: { names, telling: 0 },
        trials: own, counting, leftOut: own.filter((trial) => leftOut.has(trial.id)), typical,
        runs: one.runs.map(([id, score, state, step]) => ({ trial: model.byId.get(id), score, state, step }))
          .filter(({ trial }) => trial),
      };
    });
    return { names, all: all.filter(({ typical }) => typical), verdict, axes, importance,
      hasRuns: configurations.some(({ trials }) => trials.length > 1) };
  }

  /** Return hyperparameters, [[name, text], ...], as text: the first of them, and how many others there are. */
  function titleText(pairs, most = SHOWN_PARAMS, others = ` · +${pairs.length - most}`) {
    return pairs.slice(0, most).map(([name, text]) => `${lastPart(name)} ${text}`).join(" · ")
      + (pairs.length > most ? others : "");
  }

  /** Return the hyperparameters of a trial or a configuration with their texts, in the order of titles. */
  const pairsOf = ({ order, texts, called }) => order.names.map((name) => [name, texts[name]])
    .filter(([, text]) => !called || text !== "unset");

  /** Return how many hyperparameters its title has: more if so many do not tell it from the others that are shown. */
  const countIn = ({ order }, most = SHOWN_PARAMS) => Math.max(most, order.telling);

  /** Return the title of a trial or a configuration, with so many hyperparameters, or as many as tell it apart. */
  function titleOf(one, most, others) {
    const settings = () => titleText(pairsOf(one), countIn(one, most), others);
    const text = one.unknown ? UNKNOWN : [one.called, settings()].filter(Boolean).join(" · ");
    const only = one.only ?? (one.unknown ? one.shortName : null);
    if (only == null) return text || one.shownName || ALL_TRIALS;
    return text ? `${text} (trial ${only})` : `trial ${only}`;
  }

  /** Order the titles of all: what differs most among those shown comes first, but seeds, not `chosen`, last. */
  function arrange(all, shown, params, chosen = params) {
    const known = (shown.length > 1 ? shown : all).filter(({ unknown }) => !unknown);
    const kinds = (names) => new Set(known.map(({ texts }) => names.map((name) => texts[name]).join("\n"))).size;
    const counts = new Map(params.map((name) => [name, kinds([name])]));
    const names = [...params].sort((a, b) => chosen.includes(b) - chosen.includes(a) || counts.get(b) - counts.get(a));
    let telling = 0;
    while (kinds(names.slice(0, telling)) < kinds(names)) telling++;
    for (const one of all) one.order = { names, telling };
  }

  /** Return the score that ranks unless one is chosen: a known return, or the best clip; another metric never. */
  const firstScore = (names) => (labels.has(names[0]) || names[0] === CLIP_SCORE ? names[0] : "");

  /** Return the scores that can be chosen: returns, then the best clip, then others. A gate has none. */
  function scoresOf(model) {
    if (model.gate) return [];
    const names = new Set(model.scoreNames);
    const known = [...labels.keys()].filter((name) => names.has(name));
    const hasReturns = model.trials
      .some((trial) => [...trial.groups.values()].some((clips) => clips.some((clip) => clip.return != null)));
    const clip = hasReturns ? [CLIP_SCORE] : [];
    return [...new Set([...known, ...clip, ...model.main.filter((name) => names.has(name)), ...model.scoreNames])];
  }

  const scoreLabel = (name) => (name === CLIP_SCORE ? "best return of a clip" : labels.get(name) || name);
  const isSmallerBetter = (name) => SMALLER_IS_BETTER.test(lastPart(name));

  /** Return a trial's score, or null; an abandoned trial has none, nor has one whose metric is not finite. */
  function scoreOf(trial, name, section) {
    if (!name || trial.abandoned) return null;
    return name === CLIP_SCORE ? highestReturn(trial, section) : finite(trial.metrics[name]);
  }

  const finite = (value) => (Number.isFinite(value) ? value : null);

  /** Return the highest return of a trial's clips in a section, under any key; not of rolled back ones if possible. */
  function highestReturn(trial, section) {
    let best = null;
    for (const [group, clips] of trial.groups) {
      if (JSON.parse(group)[0] !== section) continue;
      for (const clip of clips) if (clip.return != null && (!best || compareBest(clip, best) > 0)) best = clip;
    }
    return best && best.return;
  }

  /** Return the lowest and the highest of some values. */
  const rangeOf = (values) => values.filter((value) => value != null)
    .reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  /** Return the range of values with room for their intervals, no more than its own width at each end. */
  function roomy([low, high], [least, most]) {
    return low < high ? [Math.max(least, 2 * low - high), Math.min(most, 2 * high - low)] : [least, most];
  }

  /** Give each trial a score and rank: of equal ones the first is ahead, those apart are last, failed ones get none. */
  function rank(trials, name, section, smallerIsBetter) {
    const sign = smallerIsBetter ? 1 : -1;
    for (const trial of trials) {
      trial.score = scoreOf(trial, name, section);
      trial.reported = trial.score ?? (trial.abandoned ? null : trial.metrics[name] ?? null); // also NaN and infinity
      Object.assign(trial, { rank: null, isApart: Boolean(trial.isBehind?.(name)) }); // of another return
    }
    const scored = trials.filter((trial) => trial.score != null && !isFailed(trial))
      .sort((a, b) => a.isApart - b.isApart || sign * (a.score - b.score));
    scored.forEach((trial, place) => { trial.rank = place + 1; });
  }

  /** Return a trial's last success rate, [rate, low, high], if possible of an evaluation; null if it has none. */
  function successOf(trial, { rates = [] }) {
    const name = trial.abandoned ? null : rates.find((one) => finite(trial.metrics[one]) != null);
    return name ? [name, `${name}_low`, `${name}_high`].map((one) => finite(trial.metrics[one])) : null;
  }

  /** Return the value by which a trial is filtered, and that the table shows; `clip` is the one that it shows. */
  function valueOf(trial, name, clip) {
    if (name.startsWith("param:")) return trial.params[name.slice(6)];
    if (name === "score") return trial.reported ?? null;
    if (OWN_NAMES.includes(name)) return trial[name] ?? null;
    if (name.startsWith("clip:")) return clip?.[name.slice(5)] ?? null;
    return trial.metrics[name.replace(/^metric:/, "")] ?? null;
  }

  /** Return the value by which a trial is sorted: one that is not finite, or of another return, ranks nothing. */
  function orderOf(trial, name, clip) {
    const value = name === "score" && trial.isApart ? null : valueOf(trial, name, clip);
    return typeof value === "number" && !name.startsWith("param:") ? finite(value) : value;
  }

  /** Compare two values of any type; missing ones come last in both directions. */
  function compare(a, b, sign) {
    const { isLacking } = tm.filter;
    const missing = Number(isLacking(a)) - Number(isLacking(b));
    if (missing || isLacking(a)) return missing;
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  /** Parse a filter, see filter.js; returns {test(trial, clip), problem}. */
  function parseFilter(text, model) {
    const find = (name) => {
      const full = resolve(name, model);
      return full && (full === "name" ? namesOf : (trial, clip) => valueOf(trial, full, clip));
    };
    const known = [...[...model.params, ...model.metricNames].map(lastPart), ...CLIP_FACTS, ...OWN_NAMES];
    return tm.filter.parse(text, find, describe, known);
  }

  /** Find a value's full name by its name or its last part: hyperparameters, then the clip's facts, then metrics. */
  function resolve(name, model) {
    const param = model.params.find((full) => full === name) || model.params.find((full) => lastPart(full) === name);
    if (param) return `param:${param}`;
    const own = name.replace(/^clip\./, "");
    if (CLIP_FACTS.includes(own)) return `clip:${own}`;
    if (OWN_NAMES.includes(name)) return name;
    if (name === "trial") return "name";
    const metric = model.metricNames.find((full) => full === name)
      || model.metricNames.find((full) => lastPart(full) === name);
    return metric ? `metric:${metric}` : null;
  }

  /** Return a trial's name, its status and its differing hyperparameters as one text. */
  const describe = (trial) => [trial.name, trial.status, ...(isFailed(trial) ? ["failed", trial.error] : []),
    ...(trial.abandoned ? ["abandoned"] : []),
    ...Object.entries(trial.params).map(([name, value]) => `${name}=${tm.filter.shown(value)}`)].join(" ");

  const isFailed = (trial) => trial.status === "error";

  /** Return a hyperparameter's values as texts with as few digits as tell them apart, and no separators (seeds). */
  function textsOf(values) {
    const isBroken = (value) => Number.isFinite(value) && !Number.isInteger(value);
    const numbers = [...new Set(values.filter(Number.isFinite))];
    let digits = FEWEST_DIGITS;
    const short = (value) => String(isBroken(value) ? Number(value.toPrecision(digits)) : value);
    while (digits < 17 && new Set(numbers.map(short)).size < numbers.length) digits++;
    return values.map((value) => (isBroken(value) ? short(value) : tm.filter.plain(tm.filter.shown(value))));
  }

  /** Return the names that a trial may be called by: its own, the one that is shown, and its id. */
  function namesOf({ name }) {
    const shown = shownName({ name });
    return [name, shown, TUNES_NAME.exec(shown)?.[2] || shown];
  }

  /** Return how a command names a trial: the path of its experiment, and its name there. */
  function sourceOf({ title }, { name }) {
    const path = name.split("/");
    const own = path.pop();
    return [path.join("/") || lastPart(title) || "my_sweep", own];
  }

  /** Return the name of a trial as people read it: Tune's, without the hyperparameters and the time at its end. */
  const shownName = (trial) => /^(.+_[0-9a-f]{5}_\d{5})_\d+_/.exec(lastPart(trial.name))?.[1] || lastPart(trial.name);

  tm.model = {
    memo, listed, namesOf, sourceOf, toggled, reader, decode, addMetrics, stepsOf, scaleOf, countUpTo, clipAt, bestClip,
    clipsOf, clipNamed, firstScore, scoresOf, scoreOf, scoreLabel, isSmallerBetter, rangeOf, roomy, rank, successOf,
    valueOf, orderOf, compare, knownScores: () => [...labels.keys()], parseFilter, isFailed, decodeConfigurations,
    titleText, arrange, pairsOf, countIn, lastPart, titleOf, textsOf, SHOWN_PARAMS, CLIP_SCORE, ABANDONED, COLORS,
  };
})((window.tuneMedia = window.tuneMedia || {}));
