// All episodes of a gallery as one table. The server answers the same questions from Parquet files (episode_table.py);
// a page from disk has no server, so here each column is a file, and the page filters, sorts and counts.
(function (tm) {
  "use strict";

  const SHORT = { return: "episode_return", length: "episode_length", iteration: "training_iteration" };
  const NOT_STRANGE = new Set(["step", "training_iteration", "seed"]);
  const FLAGS = new Set(["terminated", "success"]); // columns of numbers that are truth values to people
  const BINS = 30;
  const ROUNDING = 1e-9; // of the largest number
  const STRANGE = 3.5; // of a robust z score
  const last = (name) => name.split("/").pop();
  const [CLIPS, TAPES] = [Symbol("clips"), Symbol("tapes")]; // not columns, whose names are anything
  const ABOUT = [CLIPS, TAPES];
  const CONFIG = "config/";
  const isConfig = (name) => name.startsWith(CONFIG);

  /** Return a function that answers what the table asks for; `load(name)` reads a data file of the gallery. */
  function table(load) {
    const loaded = new Map();
    let about = null;

    /** Read columns, each once, as arrays. */
    async function read(names) {
      about = about || (await load("episodes"));
      await Promise.all(names(about).map(async (name) => {
        if (loaded.has(name)) return;
        const column = await load(`episodes-${ABOUT.includes(name) ? name.description : about.columns.indexOf(name)}`);
        const value = tm.model.reader(column);
        loaded.set(name, Array.from({ length: about.count }, (_, row) => value(row)));
      }));
    }

    function resolve(name) {
      const wanted = SHORT[name] || name;
      const { columns } = about;
      return columns.find((full) => full === wanted) || columns.find((full) => full.slice(full.indexOf("/") + 1) === wanted || last(full) === wanted) || null;
    }

    function found(where) {
      const rows = Array.from({ length: about.count }, (_, row) => row);
      if (!where.trim()) return rows;
      const texts = about.texts.map((name) => loaded.get(name));
      const find = (name) => {
        const full = resolve(name);
        const values = full && loaded.get(full);
        if (full === "trial") return (row) => tm.model.namesOf({ name: values[row] });
        if (FLAGS.has(full)) return (row) => (values[row] == null ? null : Boolean(values[row]));
        return values && (isConfig(full) ? (row) => plain(values[row]) : (row) => values[row]);
      };
      const filter = tm.filter.parse(where, find, (row) => texts.map((values) => values[row] ?? "").join("\n"), [...Object.keys(SHORT), ...about.columns.map(last), ...about.columns]);
      if (filter.problem) throw new Error(filter.problem.replace("hyperparameter or metric", "column"));
      return rows.filter((row) => filter.test(row, null));
    }

    function sorted(rows, name, isDown) {
      const values = loaded.get(name);
      return [...rows].sort((a, b) => tm.model.compare(values[a], values[b], isDown ? -1 : 1) || a - b);
    }

    const isNumeric = (name) => !about.texts.includes(name);
    const numbersOf = (rows, name) => Float64Array.from(rows, (row) => Number(loaded.get(name)[row] ?? NaN));

    /** Return the strangest episodes, see EpisodeTable.strangest. */
    function strangest(rows, count) {
      const names = about.columns.filter((name) => isNumeric(name) && !isConfig(name) && !NOT_STRANGE.has(name));
      const reasons = [];
      for (const name of names) {
        const values = numbersOf(rows, name);
        const { middle, distance } = middleOf(values);
        if (!distance) continue;
        const scores = values.map((value) => (Number.isFinite(value) ? (value - middle) / (distance / 0.6745) : 0));
        for (const sign of [1, -1]) reasons.push({ name, scores, places: furthest(scores, sign, count) });
      }
      const taken = new Map();
      while (taken.size < count) {
        const turn = [];
        for (const { name, scores, places } of reasons) {
          while (places.length && taken.has(places[0])) places.shift();
          if (places.length) turn.push([places[0], name, scores[places[0]]]);
        }
        if (!turn.length) break;
        turn.sort(([a, , z], [b, , other]) => Math.abs(other) - Math.abs(z) || a - b);
        for (const [at, name, z] of turn) if (taken.size < count && !taken.has(at)) taken.set(at, [name, z]);
      }
      return { rows: [...taken.keys()].map((at) => rows[at]), why: [...taken.values()] };
    }

    function histogram(rows, name) {
      const values = isNumeric(name) ? numbersOf(rows, name).filter(Number.isFinite) : [];
      if (!values.length) return { name, edges: [], counts: [], outliers: [] };
      let [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
      if (low === high) [low, high] = [low - 0.5, high + 0.5];
      const counts = new Array(BINS).fill(0);
      const outliers = new Array(BINS).fill(0);
      const z = robustZ(values);
      values.forEach((value, at) => {
        const bin = Math.min(BINS - 1, Math.floor((BINS * (value - low)) / (high - low)));
        counts[bin]++;
        if (Math.abs(z[at]) > STRANGE) outliers[bin]++;
      });
      return { name, edges: Array.from({ length: BINS + 1 }, (_, at) => low + ((high - low) * at) / BINS), counts, outliers };
    }

    return async function answer({ where = "", sort = "", descending, offset = 0, limit = 100, strangest: strange, histogram: counted, histogram_where: among = where }) {
      await read(({ columns }) => [...columns, ...ABOUT]);
      const name = sort && resolve(sort);
      let rows = found(where);
      const answered = { total: about.count, left_out: about.left_out, read: 1, columns: about.columns, count: rows.length };
      if (counted) answered.histogram = histogram(found(among), resolve(counted) || counted);
      if (strange) {
        ({ rows, why: answered.why } = strangest(rows, strange));
        answered.count = rows.length;
      } else if (name) rows = sorted(rows, name, descending);
      const page = strange ? rows : rows.slice(offset, offset + limit);
      const value = (column, row) => loaded.get(column)[row];
      return {
        ...answered, rows: page.map((row) => about.columns.map((column) => value(column, row))), places: page.map((row) => [value("trial", row), value(CLIPS, row), value(TAPES, row)]),
      };
    };
  }

  /** Return a hyperparameter as it was before its column became texts, because not all of its values are numbers. */
  function plain(value) {
    if (value === "True" || value === "False") return value === "True";
    return typeof value === "string" && value.trim() && !Number.isNaN(Number(value)) ? Number(value) : value;
  }

  /** Return the distance of each number from the median, in units of the median distance, see episode_table.robust_z. */
  function robustZ(values) {
    const { known, middle, distance } = middleOf(values);
    if (!known.length) return new Float64Array(values.length);
    const unit = distance / 0.6745 || (known.reduce((sum, value) => sum + Math.abs(value - middle), 0) / known.length) * 1.253314;
    return values.map((value) => (unit && Number.isFinite(value) ? (value - middle) / unit : 0));
  }

  /** Return the finite values, their median, and their median distance from it; 0 if that is rounding. */
  function middleOf(values) {
    const known = values.filter(Number.isFinite);
    if (!known.length) return { known, middle: NaN, distance: 0 };
    const middle = median(known);
    const distance = median(known.map((value) => Math.abs(value - middle)));
    const size = known.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    return { known, middle, distance: distance > ROUNDING * size ? distance : 0 };
  }

  /** Return the places of the scores furthest above 0 (sign 1) or below it (-1), the furthest first. */
  function furthest(scores, sign, count) {
    const found = [];
    for (let at = 0; at < scores.length; at++) {
      const score = sign * scores[at];
      if (!(score > 0) || (found.length === count && score <= sign * scores[found[count - 1]])) continue;
      let place = found.length;
      while (place && sign * scores[found[place - 1]] < score) place--;
      found.splice(place, 0, at);
      found.length = Math.min(found.length, count);
    }
    return found;
  }

  function median(values) {
    const order = Float64Array.from(values).sort();
    return (order[(order.length - 1) >> 1] + order[order.length >> 1]) / 2;
  }

  tm.episodeColumns = { table, SHORT, CONFIG, FLAGS, isConfig };
})((window.tuneMedia = window.tuneMedia || {}));
