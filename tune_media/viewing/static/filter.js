// The filter, such as `lr>0.001 (gamma=0.9 OR gamma=None) "my name"=3 lr=0.001..0.01 not PPO`: a test of a trial.
(function (tm) {
  "use strict";

  const TOKEN = /\s*(?:([()])|((?:[^\s"()]|"[^"]*")+))/y;
  const COMPARISON = /^((?:[^"<>=!]|"[^"]*")+)(!=|<=|>=|==|=|<|>)(.*)$/;
  const MOST_LEVELS = 100; // parentheses and "not" inside each other
  const RANGE = /^(-?[\d.]*\d(?:e[-+]?\d+)?)?\.\.(-?[\d.]*\d(?:e[-+]?\d+)?)?$/i;
  const FEWEST_DIGITS = 4; // that the page shows of a number
  const WORDS = { or: "or", "|": "or", "||": "or", and: "and", "&": "and", "&&": "and", not: "not" };
  // What people write for values that are no texts and no finite numbers, and how titles show them; as in params.py
  const VALUES = new Map(Object.entries({ none: "None", null: "None", nan: "nan", inf: "inf", infinity: "inf",
    "-inf": "-inf", "-infinity": "-inf", unset: "unset", unknown: "unknown" }));
  const NOT_FINITE = new Map([["Infinity", Infinity], ["-Infinity", -Infinity], ["NaN", NaN]]);
  const LIKE_THESE = /^"*(?:-?Infinity|NaN)"*$/;
  /** Stands for a hyperparameter of a trial whose params.json is damaged; one that is not set is undefined. */
  const UNKNOWN = Object.freeze({ toString: () => "unknown" });
  const unquoted = (text) => text.replace(/"/g, "");

  /** Return what strict JSON tells of a hyperparameter, see `told_apart` in strict_json.py. */
  function read(value) {
    if (typeof value === "string") {
      return NOT_FINITE.has(value) ? NOT_FINITE.get(value) : LIKE_THESE.test(value) ? value.slice(1, -1) : value;
    }
    return value && typeof value === "object" && !Array.isArray(value) ? UNKNOWN : value;
  }

  /** Return hyperparameters by name, each as `read` returns it. */
  const readAll = (params) => Object.fromEntries(Object.entries(params).map(([name, value]) => [name, read(value)]));

  /** Return a text in quotes if it would else stand for another value. */
  const inQuotes = (text) => (VALUES.has(text.replace(/^"+|"+$/g, "").toLowerCase()) ? `"${text}"` : text);

  /** Return a hyperparameter as titles and filters have it. */
  function shown(value) {
    if (value == null) return value === null ? "None" : "unset";
    if (typeof value === "string") return inQuotes(value);
    return VALUES.get(String(value).toLowerCase()) || String(value);
  }

  /** Return whether a hyperparameter has no value that could be compared with others. */
  const isLacking = (value) => value == null || value === UNKNOWN || Number.isNaN(value);

  /** Return the number that a text stands for; NaN if none. */
  const numberOf = (text) => ({ inf: Infinity, "-inf": -Infinity })[VALUES.get(text.trim().toLowerCase())]
    ?? (text.trim() === "" ? NaN : Number(text));

  /** Return the tokens of a filter; blanks around an operator are no end of a token. */
  function tokensOf(text) {
    const parts = text.split(/("[^"]*"?)/); // every second one is quoted
    const joined = parts.map((part, index) => (index % 2 ? part
      : part.replace(/\s*(!=|<=|>=|==|=|<|>)\s*/g, "$1"))).join("");
    const found = [];
    TOKEN.lastIndex = 0;
    for (let match = TOKEN.exec(joined); match; match = TOKEN.exec(joined)) found.push(match[1] || match[2]);
    return found;
  }

  /**
   * Parse a filter. `find(name)` returns a function from (trial, clip) to the value of that name, or null; `describe`
   * returns the text of a trial that words are looked for in; `known` are the names that there are. Returns
   * {test(trial, clip), problem, equalities: [{value, text}]}: what has to equal which text.
   */
  function parse(text, find, describe, known) {
    const tokens = tokensOf(text);
    let at = 0;
    let level = 0;
    let problem = null;
    const equalities = [];
    const word = () => (at < tokens.length ? WORDS[tokens[at].toLowerCase()] || tokens[at] : null);

    function anyOf() {
      const tests = [allOf()];
      while (word() === "or") {
        at++;
        tests.push(allOf());
      }
      return (trial, clip) => tests.some((test) => test(trial, clip));
    }

    function allOf() {
      const tests = [];
      while (word() != null && word() !== "or" && word() !== ")") {
        if (word() === "and") at++;
        else tests.push(one());
      }
      return (trial, clip) => tests.every((test) => test(trial, clip));
    }

    function one() {
      level++;
      const test = level > MOST_LEVELS ? tooDeep() : part();
      level--;
      return test;
    }

    function tooDeep() {
      problem = `more than ${MOST_LEVELS} parentheses and “not” are inside each other`;
      at++;
      return () => true;
    }

    function part() {
      if (word() === "not") {
        at++;
        if (word() == null) return () => true; // still being typed
        const test = one();
        return (trial, clip) => !test(trial, clip);
      }
      const token = tokens[at++];
      if (token === "(") {
        const test = anyOf();
        if (word() === ")") at++;
        return test;
      }
      const [, name, operator, value] = COMPARISON.exec(token) || [];
      if (!name) {
        const wanted = unquoted(token).toLowerCase();
        return (trial) => describe(trial).toLowerCase().includes(wanted);
      }
      const read = find(unquoted(name).trim());
      if (!read) {
        const meant = nearest(unquoted(name).trim(), known);
        problem = `no hyperparameter or metric is called “${unquoted(name).trim()}”`;
        if (meant) problem += `; did you mean “${meant}”?`;
        return () => true;
      }
      const lacks = lackOf(name.trim(), operator, value.trim());
      if (lacks) {
        problem = lacks;
        return () => true;
      }
      const compares = comparison(operator, value.trim());
      if (operator === "=" || operator === "==") equalities.push({ value: read, text: unquoted(value) });
      return (trial, clip) => compares(read(trial, clip));
    }

    let test = anyOf();
    while (at < tokens.length) { // a ")" too many
      at++;
      const before = test;
      const rest = anyOf();
      test = (trial, clip) => before(trial, clip) && rest(trial, clip);
    }
    return { test, problem, equalities };
  }

  /** Return what a comparison lacks, or null: a value, or a number to be larger or smaller than. */
  function lackOf(name, operator, value) {
    if (value === "") return `“${name}${operator}” lacks a value, such as ${name}${operator}1`;
    const lacksNumber = /[<>]/.test(operator) && Number.isNaN(numberOf(unquoted(value)));
    return lacksNumber ? `“${unquoted(value)}” is no number, which ${name}${operator} needs` : null;
  }

  /** Return the name that a misspelt one most likely means, or null: at most two of five letters are others. */
  function nearest(name, known) {
    const ranked = known.map((one) => [distance(name.toLowerCase(), one.toLowerCase()), one])
      .sort((a, b) => a[0] - b[0]);
    return ranked.length && 5 * ranked[0][0] <= 2 * name.length ? ranked[0][1] : null;
  }

  /** Return how many letters have to be put in, left out or replaced to get from one text to another. */
  function distance(a, b) {
    let row = Array.from({ length: b.length + 1 }, (_, at) => at);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++) {
        next.push(Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] !== b[j - 1])));
      }
      row = next;
    }
    return row[b.length];
  }

  /** Return a test of a value: equal to a text, number or None, between two numbers, or smaller or larger than one. */
  function comparison(operator, raw) {
    const text = inQuotes(raw.slice(1, -1)) === raw ? raw : unquoted(raw);
    const number = numberOf(text);
    if (operator === "=" || operator === "==" || operator === "!=") {
      const same = equality(text, number, VALUES.get(raw.toLowerCase()));
      return (value) => same(value) === (operator !== "!=");
    }
    return (value) => {
      if (typeof value !== "number" || Number.isNaN(number)) return false;
      return { "<": value < number, "<=": value <= number, ">": value > number, ">=": value >= number }[operator];
    };
  }

  function equality(text, number, word) {
    const range = RANGE.exec(text);
    if (range && (range[1] || range[2])) {
      const [low, high] = [Number(range[1] ?? -Infinity), Number(range[2] ?? Infinity)];
      return (value) => ["number", "boolean"].includes(typeof value) && value >= low && value <= high; // true is 1
    }
    const lower = text.toLowerCase();
    const digits = /[.e]/i.test(text) ? text.trim().replace(/^-?[0.]*|e.*|\./gi, "").length : 0;
    const same = (value) => {
      if (Array.isArray(value)) return value.some(same); // the names of one thing
      if (isLacking(value)) return shown(value) === word;
      if (typeof value === "boolean") return String(value) === lower || (value ? "yes" : "no") === lower;
      const areNumbers = typeof value === "number" && !Number.isNaN(number);
      if (areNumbers) return isClose(value, number) || isShownAs(value, number, digits);
      return shown(value) === text || (typeof value === "string" && shown(plain(value)) === text);
    };
    return same;
  }

  /** Return the name of a function or class that stands as its repr, with Tune's id if it has one. */
  const plain = (text) => text.replace(/^<(?:function|class) '?(.+?)'?( [0-9a-f]{8})?>$/, "$1$2");

  /** Return whether two numbers are the same up to rounding: 0.9 + 0.05 is 0.95 to people. */
  const isClose = (a, b) => a === b
    || (Number.isFinite(a - b) && Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)));

  /** Return whether a value is shown as a number: rounded as on the page, or to the digits that were typed, if many. */
  const isShownAs = (value, number, digits) => isClose(Number(tm.ui.number(value).replace(/,/g, "")), number)
    || (digits >= FEWEST_DIGITS && digits <= 100 && isClose(Number(value.toPrecision(digits)), number));

  /** Return a comparison as the filter reads it: with quotes where a blank or a sign would end it. */
  function token(name, value) {
    const quoted = (text) => (/[\s()"<>=!|&]/.test(text) || text === "" ? `"${text.replace(/"/g, "")}"` : text);
    return `${quoted(name)}=${quoted(shown(value))}`;
  }

  /** Return the value that was meant by one that no row has, or null; `rows` are [trial, clip]. */
  function meantValue({ equalities }, rows) {
    for (const { value, text } of equalities) {
      const known = [...new Set(rows.map(([trial, clip]) => value(trial, clip)).filter((one) => typeof one === "string")
        .map(plain))];
      const meant = known.includes(text) ? null
        : nearest(text, known) || known.find((one) => one.toLowerCase().includes(text.toLowerCase()));
      if (meant) return meant;
    }
    return null;
  }

  tm.filter = { parse, token, plain, meantValue, read, readAll, shown, isLacking };
})((window.tuneMedia = window.tuneMedia || {}));
