// The keyboard, and the page that lists its keys.
(function (tm) {
  "use strict";

  const { html, Component } = tm.ui;

  let before = null; // what had the focus before the filter

  const KEYS = [
    [["Space"], "play or pause", (app) => app.group.toggle(), " "],
    [[","], "one frame back", (app) => app.group.stepFrame(-1)],
    [["."], "one frame forward", (app) => app.group.stepFrame(1)],
    [["<"], "slower", (app) => tm.bars.changeSpeed(app, -1)],
    [[">"], "faster", (app) => tm.bars.changeSpeed(app, 1)],
    [["l"], "loop, or hold the last frame", (app) => app.group.setLoop(!app.group.loop)],
    [["h"], "play all clips, or only the one under the pointer", (app) => app.setAlone(!app.group.alone)],
    [["←"], "previous training step", (app) => app.moveStep(-1), "ArrowLeft"],
    [["→"], "next training step", (app) => app.moveStep(1), "ArrowRight"],
    [["Home"], "first step", (app) => app.moveStep(-Infinity), "Home"],
    [["End"], "last step", (app) => app.moveStep(Infinity), "End"],
    [["b"], "each trial's best clip, or the same step for all",
      (app) => app.set({ step: app.state.step === "best" ? "last" : "best" })],
    [["k"], "next kind of clip: best, worst …", (app) => app.cycle("key")],
    [["s"], "training or evaluation", (app) => app.cycle("section")],
    [["r"], "reverse the order", (app) => app.set({ descending: !app.state.descending })],
    [["/"], "filter; Esc goes back to where the focus was", (app) => {
      before = document.activeElement;
      app.setState({ menu: true }, () => document.querySelector(".filter")?.focus());
    }],
    [["["], "smaller cards", (app) => tm.bars.resize(app, -1)],
    [["]"], "larger cards", (app) => tm.bars.resize(app, 1)],
    [["x"], "tick a trial or a clip for comparing", (app) => tm.compare.toggleFocused(app)],
    [["v"], "compare what is ticked", (app) => tm.compare.open(app)],
    [["o"], "the next run, or dot, of the row; Enter opens it", nextDot],
    [["e"], "a card for each run of a configuration", () => pressOnCard(".runs .link:not(.best-worst)")],
    [["m"], "worst, median and best clip of a configuration", () => pressOnCard(".best-worst")],
    [["n"], "next moment of the episode", (app) => app.timeline?.jump(1)],
    [["N"], "previous moment", (app) => app.timeline?.jump(-1)],
    [["Tab", "Enter"], "choose a trial, open it"],
    [["Tab", "←", "→"], "an end of the range that a histogram keeps; Esc keeps all"],
    [["w"], "the winner over training", (app) => app.winner && app.open(app.winner)],
    [["t"], "the trial of this clip", (app) => app.state.trial && app.go({ view: "trial" })],
    [["↑"], "previous trial", (app) => app.state.trial && app.nextTrial(-1), "ArrowUp"],
    [["↓"], "next trial", (app) => app.state.trial && app.nextTrial(1), "ArrowDown"],
    [["Esc"], "back", (app) => app.up(), "Escape"],
    [["c"], "copy a link to this view", (app) => app.copyLink()],
    [["d"], "light or dark", (app) => app.toggleTheme()],
    [["?"], "this page", (app) => app.show(Help)],
  ];
  const SIGNS = [
    [["▶"], "plays the clip of an episode"],
    [["▷"], "plays an episode again from its tape"],
    [["≠"], "the clip is of another training step than the chosen one"],
    [["⚙"], "a hyperparameter, among the columns of all episodes"],
  ];
  const ACTIONS = new Map(KEYS.filter(([, , action]) => action)
    .map(([shown, , action, key]) => [key || shown[0], action]));
  const SCROLLING = ["ArrowUp", "ArrowDown", "Home", "End"];

  /** Press a button of the card that has the focus. */
  const pressOnCard = (button) => document.activeElement.closest(".card")?.querySelector(button)?.click();

  /** Give the focus to the next dot of the row that has it; after the last one to the first. */
  function nextDot() {
    const { activeElement } = document;
    const dots = [...(activeElement.closest(".verdict-row")?.querySelectorAll(".dot") || [])];
    dots[(dots.indexOf(activeElement) + 1) % dots.length]?.focus();
  }

  function onKey(app, event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !app.data || document.querySelector("dialog[open]")) return;
    const { target } = event;
    if (event.key === "Escape" && target.matches("input, select")) {
      target.blur();
      if (target.matches(".filter")) before?.focus();
      return;
    }
    const typing = target.matches("input[type=search], input[type=text], textarea");
    const choosing = target.matches("select, input[type=range]") && /^(Arrow|Home|End| $)/.test(event.key);
    const pressing = target.matches("button, a") && event.key === " ";
    const scrolling = event.key.startsWith("Arrow")
      && ((app.state.view === "grid" && SCROLLING.includes(event.key)) || target.closest?.(".table-place"));
    const action = tm.verdict.actionOf(event.key) || ACTIONS.get(event.key);
    if (!action || typing || choosing || pressing || scrolling) return;
    event.preventDefault();
    action(app);
  }

  const Rows = ({ rows }) => html`<dl>${rows.map(([shown, meaning]) => html`<div>
    <dt>${shown.map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${meaning}</dd></div>`)}</dl>`;

  class Help extends Component {
    componentDidMount() {
      const { source } = this.props.app;
      if (source.diskUse) tm.ui.readInto(this, "diskUse", source.diskUse(), () => true);
    }

    render({ app }, { diskUse, problem }) {
      return html`<${tm.ui.Dialog} app=${app} title="Keyboard">
        <p><button onClick=${() => app.toggleTheme()}>${app.theme === "dark" ? "☀ Light" : "☾ Dark"}</button></p>
        <${Rows} rows=${KEYS} />
        <h2>Signs</h2><${Rows} rows=${SIGNS} />
        ${app.source.diskUse && html`<h2>Disk use</h2>
          <p class="disk-use" role="status">${problem || diskUse || "The files are counted …"}</p>`}
      <//>`;
    }
  }

  tm.keys = { onKey, Help };
})((window.tuneMedia = window.tuneMedia || {}));
