// How far a running sweep is: what its trials do, their iterations, and how old the newest result is.
(function (tm) {
  "use strict";

  const { html, Component, number } = tm.ui;
  const WORDS = [["running", "running"], ["pending", "pending"], ["paused", "paused"], ["terminated", "ended"],
    ["error", "failed"], ["", "without a status"]];
  const ACTIVE = ["running", "pending", "paused"];
  const TICK_MS = 5000;
  const LONG_S = 1800; // without a result, after which the driver may be gone
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  const ageText = (seconds) => {
    const [size, unit] = UNITS.find(([length]) => seconds >= length) || [1, "s"];
    return `${Math.floor(Math.max(0, seconds) / size)} ${unit}`;
  };

  /** Return how many trials have each status: {word: count}; those that have no folder yet are pending. */
  function counts({ trials, pending }) {
    const found = { pending };
    for (const { status, abandoned } of trials) if (!abandoned) found[status] = (found[status] || 0) + 1;
    return found;
  }

  /** Whether trials run, or wait to. */
  function isActive(data) {
    const found = counts(data);
    return ACTIVE.some((word) => found[word]);
  }

  /** Return in about how many seconds all trials reach their last iteration, if as many as now run at once; or null. */
  function secondsLeft({ trials, pending, iterations }) {
    const running = trials.filter(({ status }) => status === "running");
    const paces = running.map(({ metrics: { time_total_s: time, training_iteration: at } }) => time / at);
    if (!iterations || !running.length || !paces.every(Number.isFinite)) return null;
    const pace = paces.reduce((sum, own) => sum + own, 0) / paces.length;
    const toDo = ({ metrics }) => Math.max(0, iterations - (metrics.training_iteration || 0));
    const left = running.map((trial, at) => toDo(trial) * paces[at]);
    const later = trials.filter(({ status }) => ["pending", "paused"].includes(status))
      .map((trial) => toDo(trial) * pace);
    const all = [...left, ...later].reduce((sum, own) => sum + own, pending * iterations * pace);
    return Math.max(...left, all / running.length);
  }

  /** The line above all others while trials run; nothing if all have ended, or in a gallery. */
  class Live extends Component {
    componentDidMount() {
      this.timer = setInterval(() => this.forceUpdate(), TICK_MS); // the age grows
    }

    componentWillUnmount() {
      clearInterval(this.timer);
    }

    render({ app }) {
      const { data, source } = app;
      const found = counts(data);
      if (!source.isServer || !isActive(data)) return null;
      const running = data.trials.filter(({ status }) => status === "running");
      const iterations = running.map(({ metrics }) => metrics.training_iteration).filter((value) => value != null);
      const [first, last] = [Math.min(...iterations), Math.max(...iterations)];
      const age = data.newest ? (Date.now() - source.ahead()) / 1000 - data.newest : null;
      const isOld = age > LONG_S;
      const left = isOld ? null : secondsLeft(data);
      return html`<p class="live">
        <span class=${`pulse${isOld || !running.length ? " old" : ""}`} aria-hidden="true"></span>
        ${WORDS.filter(([word]) => found[word]).map(([word, text]) =>
          html`<span class=${word === "error" ? "problem" : ""}><b>${number(found[word])}</b> ${text}</span>`)}
        ${iterations.length > 0 && html`<span>iteration <b>
          ${first === last ? number(first) : `${number(first)} to ${number(last)}`}</b>
          ${data.iterations && html` of <b>${number(data.iterations)}</b>`}</span>`}
        ${left != null && html`<span>about <b>${ageText(left)}</b> left</span>`}
        ${age != null && html`<span class=${isOld ? "problem" : ""}>
          newest result <b>${ageText(age)}</b> ago${isOld ? ": has the driver stopped?" : ""}</span>`}</p>`;
    }
  }

  tm.live = { Live, isActive };
})((window.tuneMedia = window.tuneMedia || {}));
