// The env steps of an episode: which frame shows which step, every series by step, the terms of the reward, the
// moments that stand out, and the first step at which episodes differ. Nothing here touches the page.
(function (tm) {
  "use strict";

  const REWARD = "reward";
  const SO_FAR = "return so far";
  const MOST_ELEMENTS = 16; // of a vector that become series
  const MOST_TERMS = 12; // that are tried in all combinations
  const MOST_CHECKED = 24; // combinations that are added up at every step
  const SPREAD = 8;
  const FEWEST_AT_LIMIT = 3; // steps in a row
  const FEWEST_STILL = 5;
  const STILL_SHARE = 0.05; // of the episode
  const ROUNDING = 1e-6; // of a series' largest value: what differs by less is equal; decisive.py has it, too
  const ROLES = ["action", "observation", "reward", "value", "info"]; // what tells most of a difference comes first
  const CONTROLS = /(^|[/_.])(action|torque|thrust|throttle|steer\w*|control|ctrl|force)s?([/_.]|$)/i;
  const TERMS = /reward|cost|penalty|bonus/i;

  /** Env steps from one frame to the next, as recorded, or else as the numbers of steps and frames suggest. */
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

  /** The last env step of an episode, as far as its clip and its record say. */
  const lastStep = (clip) => clip.length || stepOf(clip, Math.max(0, (clip.frames || 1) - 1));

  /**
   * Return all series of an episode, what was collected first: [{name, kind, role, x: [env step], y: [number, null]}].
   * Kinds: "reward", "value" (collected), "info", "action", "observation", and "derived". The role of a collected value
   * is "action" or "observation" if it is one. What was collected and is in the trajectory, too, is there once.
   */
  function seriesOf(details, clip) {
    const found = new Map();
    const add = (name, kind, x, y) => {
      if (found.has(name) || !y.some((value) => typeof value === "number")
        || !y.every((value) => value == null || typeof value === "number")) return;
      const role = kind === "value" && CONTROLS.test(name) ? "action" : kind;
      found.set(name, { name, kind, role, x, y });
    };
    for (const [name, values] of Object.entries(details?.series || {})) {
      const stride = details.every?.[name] || 1;
      const offset = stride === 1 && clip.length && values.length === clip.length ? 1 : 0; // without the reset's value
      add(name, name === REWARD ? "reward" : "value", values.map((_, at) => at * stride + offset), values);
    }
    const columns = details?.steps || {};
    const rows = columns.episode_step || [];
    for (const [name, values] of Object.entries(columns)) {
      if (name === REWARD) add(name, "reward", rows.slice(1), values.slice(1));
      else if (name === "info") addInfo(add, rows, values);
      else if (/^action/.test(name)) addColumn(add, name, "action", rows.slice(1), values.slice(1));
      else if (/^observation/.test(name)) addColumn(add, name, "observation", rows, values);
    }
    for (const [name, values] of Object.entries(details?.actions || {})) {
      add(name, "action", values.map((_, at) => at + 1), values);
    }
    for (const value of [...found.values()].filter(({ kind }) => kind === "value")) {
      for (const own of found.values()) {
        if (!["info", "action", "observation"].includes(own.kind) || !isDouble(own, value)) continue;
        found.delete(own.name);
        if (own.kind !== "info") value.role = own.kind;
      }
    }
    const reward = found.get(REWARD);
    if (reward && isWhole(reward, clip)) {
      let sum = 0;
      add(SO_FAR, "derived", reward.x, reward.y.map((value) => (sum += value || 0)));
    }
    return [...found.values()];
  }

  /** Return whether a series has a value for each step: a sum over a thinned one would be wrong. */
  const isWhole = ({ x }, clip) => !clip.length || x.length >= clip.length;

  /** Return whether values of a trajectory are the collected ones; constants with two names are not. */
  function isDouble(own, { name, x, y }) {
    const [at, most] = [byStep(own), ROUNDING * sizeOf([own])];
    return (y.some((value) => value !== y[0]) || tm.model.lastPart(own.name) === tm.model.lastPart(name))
      && x.every((step, place) => at.has(step) && !differ(at.get(step), y[place], most));
  }

  /** Return whether two values, which may be missing, differ by more than an amount. */
  const differ = (a, b, most) => (a == null || b == null ? a !== b : Math.abs(a - b) > most);
  const sizeOf = (all) => all.reduce((most, { y }) => y.reduce((size, one) => Math.max(size, Math.abs(one)), most), 0);

  /** Add a column of a trajectory: numbers, or vectors, each element of which is a series. */
  function addColumn(add, name, kind, x, values) {
    const first = values.find((value) => value != null);
    if (!Array.isArray(first)) add(name, kind, x,
      values.map((value) => (typeof value === "boolean" ? Number(value) : value)));
    else for (let at = 0; at < Math.min(first.length, MOST_ELEMENTS); at++) add(`${name}/${at}`, kind, x,
      values.map((value) => value?.[at] ?? null));
  }

  /** Add the numbers of the steps' infos, which are JSON texts, by their paths. */
  function addInfo(add, rows, texts) {
    const found = new Map();
    const walk = (value, path, at) => {
      if (typeof value === "number") {
        if (!found.has(path)) found.set(path, new Array(texts.length).fill(null));
        found.get(path)[at] = value;
      } else if (value && typeof value === "object" && !Array.isArray(value)) {
        for (const [name, inner] of Object.entries(value)) walk(inner, path ? `${path}/${name}` : name, at);
      }
    };
    texts.forEach((text, at) => {
      try {
        if (text) walk(JSON.parse(text), "", at);
      } catch (error) {
        // a text that is no JSON has no numbers
      }
    });
    for (const [name, values] of found) add(name, "info", rows, values);
  }

  const byStep = ({ x, y }) => new Map(x.map((step, at) => [step, y[at]]));

  /** Return the series that may be terms of the reward; those that are called so come first. */
  function termCandidates(series) {
    const all = series.filter(({ name, kind }) => (kind === "value" || kind === "info") && name !== REWARD);
    return all.sort((a, b) => Number(TERMS.test(b.name)) - Number(TERMS.test(a.name)));
  }

  /** Return the names of the most series, at least two, that add up to the reward at each step; [] if none do. */
  function rewardTerms(series) {
    const reward = series.find(({ kind }) => kind === "reward");
    if (!reward) return [];
    const steps = reward.x.filter((step) => step > 0);
    const wanted = byStep(reward);
    const size = Math.max(...steps.map((step) => Math.abs(wanted.get(step) || 0)), 0);
    if (!size) return [];
    const candidates = termCandidates(series).map((own) => ({ name: own.name, at: byStep(own) }))
      .filter(({ at }) => steps.every((step) => at.has(step)) && steps.some((step) => at.get(step)))
      .slice(0, MOST_TERMS);
    const isSame = (value, step) => Math.abs(value - (wanted.get(step) || 0)) <= 1e-5 * size;
    const found = combinationsOf(candidates, probesOf(candidates, steps), isSame)
      .map((mask) => candidates.filter((_, at) => mask & (1 << at)));
    const add = (chosen, step) => chosen.reduce((total, { at }) => total + (at.get(step) || 0), 0);
    const best = found.filter(({ length }) => length > 1).sort((a, b) => b.length - a.length).slice(0, MOST_CHECKED)
      .find((chosen) => steps.every((step) => isSame(add(chosen, step), step)));
    return (best || []).map(({ name }) => name);
  }

  /** Return a few steps that tell the series apart: evenly spread ones, and the one at which each is largest. */
  function probesOf(candidates, steps) {
    const spread = Array.from({ length: SPREAD },
      (_, at) => steps[Math.round((at * (steps.length - 1)) / (SPREAD - 1))]);
    const largest = ({ at }) => {
      let [found, size] = [steps[0], -1];
      for (const step of steps) if (Math.abs(at.get(step) || 0) > size) [found, size] =
        [step, Math.abs(at.get(step) || 0)];
      return found;
    };
    return [...new Set([...spread, ...candidates.map(largest)])];
  }

  /** Return the combinations of series, as bits, whose sums are right at all probes; each sum takes one addition. */
  function combinationsOf(candidates, probes, isSame) {
    let found = Array.from({ length: 1 << candidates.length }, (_, mask) => mask);
    for (const step of probes) {
      const sums = new Float64Array(1 << candidates.length);
      candidates.forEach(({ at }, bit) => {
        const own = at.get(step) || 0;
        for (let mask = 1 << bit; mask < 2 << bit; mask++) sums[mask] = sums[mask - (1 << bit)] + own;
      });
      found = found.filter((mask) => isSame(sums[mask], step));
    }
    return found;
  }

  /** Return the runs of steps at which `holds(at)` is true: [[first, last], ...], as places in a list of `count`. */
  function runsOf(count, holds) {
    const runs = [];
    for (let at = 0; at < count; at++) {
      if (!holds(at)) continue;
      if (runs.length && runs[runs.length - 1][1] === at - 1) runs[runs.length - 1][1] = at;
      else runs.push([at, at]);
    }
    return runs;
  }

  const longest = (runs) =>
    runs.reduce((best, run) => (!best || run[1] - run[0] > best[1] - best[0] ? run : best), null);

  /**
   * Return the moments of an episode that stand out: [{step, until, kind, text}], in the order of their steps. They are
   * the largest and the smallest reward, an action that stays at its limit, a standstill, and the end. `terms` are the
   * names of the terms of the reward.
   */
  function momentsOf(series, terms, clip, record) {
    const found = [];
    const reward = series.find(({ kind }) => kind === "reward");
    const rewards = reward
      ? reward.x.map((step, at) => [step, reward.y[at]]).filter(([step, value]) => step > 0 && value != null) : [];
    const values = rewards.map(([, value]) => value);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const text = tm.ui.number;
    if (high > low) {
      const first = (wanted) => rewards.find(([, value]) => value === wanted)[0];
      found.push({ step: first(high), kind: "high", text: `largest reward: ${text(high)}` });
      if (low < 0) found.push({ step: first(low), kind: "low", text: `smallest reward: ${text(low)}` });
    }
    found.push(...limitsOf(series), ...standstillsOf(series, terms, clip));
    const ended = record?.terminated === true ? "the env ended the episode"
      : record?.terminated === false ? "the episode was cut off" : "the end";
    found.push({ step: lastStep(clip), kind: "end", text: ended });
    return found.sort((a, b) => a.step - b.step);
  }

  /** Actions that never change, and continuous ones that stay at their largest or smallest value: the longest times. */
  function limitsOf(series) {
    const found = [];
    for (const { name, role, x, y } of series) {
      if (role !== "action") continue;
      const values = y.filter((value) => value != null);
      if (values.length >= FEWEST_AT_LIMIT && values.every((value) => value === values[0])) {
        found.push({ step: x[0], until: x[x.length - 1], kind: "limit", length: values.length,
          text: `${name} is ${tm.ui.number(values[0])} all the time` });
        continue;
      }
      if (values.every((value) => Number.isInteger(value) && value >= 0)) continue; // the numbers of discrete actions
      const [low, high] = [Math.min(...values), Math.max(...values)];
      for (const limit of [low, high]) {
        const run = longest(runsOf(y.length, (at) => y[at] === limit));
        const length = run[1] - run[0] + 1;
        if (length < FEWEST_AT_LIMIT) continue;
        found.push({ step: x[run[0]], until: x[run[1]], kind: "limit", length,
          text: `${name} stays at ${tm.ui.number(limit)} for ${length} steps` });
      }
    }
    return found.sort((a, b) => b.length - a.length).slice(0, 3);
  }

  /** The longest time in which the state does not change: the observation, or else the collected values. */
  function standstillsOf(series, terms, clip) {
    const observed = series.filter(({ role }) => role === "observation");
    const states = (observed.length ? observed : series.filter(({ name, role }) =>
      role === "value" && !TERMS.test(name) && !terms.includes(name)))
      .map((own) => ({ at: byStep(own), range: Math.max(...own.y) - Math.min(...own.y) }))
      .filter(({ range }) => range > 0);
    if (!states.length) return [];
    const last = lastStep(clip);
    const rests = (step) => states.every(({ at, range }) => {
      const [before, after] = [at.get(step), at.get(step + 1)];
      return before != null && after != null && Math.abs(after - before) <= 1e-3 * range;
    });
    const run = longest(runsOf(last, rests));
    const length = run ? run[1] - run[0] + 1 : 0;
    if (length < Math.max(FEWEST_STILL, STILL_SHARE * last)) return [];
    return [{ step: run[0], until: run[1] + 1, kind: "still", text: `standstill for ${length} steps` }];
  }

  /**
   * Return the first env step at which the actions of episodes differ: {step, name, values}, by the series that all of
   * them have. If no action differs, it is the first step at which an observation does, or else a reward, or another
   * value; null if none does.
   */
  function firstDifference(episodes) {
    let first = null;
    for (const wanted of ROLES) {
      for (const { name } of (episodes[0]?.series || []).filter(({ role }) => role === wanted)) {
        const own = episodes.map(({ series }) => series.find((other) => other.name === name));
        if (!own.every(Boolean)) continue;
        const maps = own.map(byStep);
        const most = ROUNDING * sizeOf(own);
        const step = own[0].x.find((at) => maps.every((map) => map.has(at)) // one of them may keep fewer steps
          && maps.some((map) => differ(map.get(at), maps[0].get(at), most)));
        if (step != null && !(first?.step <= step)) first = { step, name, values: maps.map((map) => map.get(step)) };
      }
      if (first) break;
    }
    return first;
  }

  tm.steps = { strideOf, stepOf, frameOf, lastStep, seriesOf, rewardTerms, termCandidates, momentsOf,
    firstDifference, SO_FAR };
})((window.tuneMedia = window.tuneMedia || {}));
