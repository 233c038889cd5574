// Small pieces that all views use: numbers as text, a lazily loaded player, a trial's card, a sparkline.
(function (tm) {
  "use strict";

  const { html, Component } = window.htmPreact;
  const LOAD_AFTER_MS = 150; // a fast scroll past a clip does not load it
  const SCROLLS_MS = 300; // so long after the page moved, it may still be moving
  const FIRST_LOADS = 4; // clips that are loaded before the first of them can be seen; more would make it wait
  const FEW_PIXELS = 160; // a clip that is narrower is enlarged pixel by pixel
  const FIRST_CARDS = 12; // taken to be on the screen until the browser has told which are
  const WIDE = 3; // from this ratio on, a card's badges would hide much of a clip
  const PEEK_AFTER_MS = 120;
  const MANY_NAMES = 15; // from which on one searches
  const FIRST_MS = 500; // after this long, the others no longer wait for it
  const SAVED_AFTER_MS = 1000; // the browser has read what it saves
  const GONE = "The file could not be loaded. It may have been deleted, or be damaged.";
  const H264 = 'video/mp4; codecs="avc1.42E01E"'; // browsers tell of a codec that they lack as of a file that is gone
  const NO_H264 =
    "This browser cannot decode H.264: Firefox on Linux needs ffmpeg (apt install ffmpeg). Chrome, Edge, Safari can.";

  let scrolledAt = -Infinity;
  addEventListener("scroll", () => { scrolledAt = performance.now(); }, { capture: true, passive: true });
  const isScrolling = () => performance.now() - scrolledAt < SCROLLS_MS;

  /** Resolves when the first clip or picture of the page can be seen. */
  const firstPicture = new Promise((resolve) => {
    const see = (event) => event.target.matches?.(".screen video, .screen img") && resolve();
    addEventListener("loadeddata", see, { capture: true });
    addEventListener("load", see, { capture: true });
  });

  let loads = 0;
  let mayLoadAll = false;
  let loadAll;
  /** Resolves when all clips on the screen may load. */
  const allLoad = new Promise((resolve) => { loadAll = resolve; });
  firstPicture.then(loadAll);
  allLoad.then(() => { mayLoadAll = true; });

  /** Return a number in at most four digits or so: 0.0001 as 1e-4, 12345 as 12,345. */
  function number(value) {
    if (value == null) return "–";
    if (typeof value !== "number") return String(value);
    if (!Number.isFinite(value)) return tm.filter.shown(value);
    if (Number.isInteger(value)) return value.toLocaleString("en-US");
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    if (size < 1) return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    return value.toLocaleString("en-US", { maximumFractionDigits: size >= 100 ? 1 : 2 });
  }

  const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
  const { lastPart, titleOf } = tm.model;

  /** Return how many hyperparameters, [[name, text], ...], have room: at least one, at most as many as a title has. */
  function fitting(pairs, room, widthOf) {
    let count = 0;
    for (const [name, text] of pairs.slice(0, tm.model.SHOWN_PARAMS)) {
      room -= widthOf(lastPart(name), text);
      if (room < 0) break;
      count++;
    }
    return Math.max(1, count);
  }

  /** Return a clip's aspect ratio as CSS has it. */
  const ratioOf = (clip) => (clip?.width && clip?.height ? `${clip.width} / ${clip.height}` : "3 / 2");

  /** The classes of a clip's screen. Badges lie on a clip, but above a wide one: they would hide half of it. */
  const screenOf = (clip, more = "") => `screen${more}${clip?.width > WIDE * clip?.height ? " wide" : ""}`;

  /** Return the name under which a browser saves a clip, without a suffix: experiment, trial, key and step. */
  const downloadName = (app, { trial, key, step }) =>
    [lastPart(tm.model.sourceOf(app.data, trial)[0]), trial.shownName, lastPart(key),
      `step${step}`].join("_").replace(/[^\w.,=+-]+/g, "_").slice(-180);

  /** One observer for all that wants to know whether it is on the screen. */
  class Sight {
    onPage = () => {}; // told whether the page is on the screen
    visible = new Set();
    callbacks = new Map();
    observer = new IntersectionObserver((entries) => this.look(entries), { rootMargin: "250px" });

    /** Take in what came and went. If nothing is left because the whole page is hidden, all stays as it is. */
    look(entries) {
      const gone = entries.filter((entry) => !entry.isIntersecting).map((entry) => entry.target);
      const left = [...this.visible].filter((element) => !gone.includes(element) && element.isConnected);
      const come = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
      const isHidden = !left.length && !come.length && isPageHidden();
      this.onPage(!isHidden);
      if (isHidden) return;
      for (const element of gone) this.tell(element, false);
      for (const element of come) this.tell(element, true);
    }

    tell(element, isVisible) {
      if (isVisible) this.visible.add(element);
      else this.visible.delete(element);
      this.callbacks.get(element)?.(isVisible);
    }

    watch(element, callback) {
      this.callbacks.set(element, callback);
      this.observer.observe(element);
    }

    forget(element) {
      this.observer.unobserve(element);
      this.callbacks.delete(element);
      this.visible.delete(element);
    }
  }

  /** Return whether TensorBoard hides the frame: it makes it invisible and zero pixels high. */
  function isPageHidden() {
    try {
      return document.hidden || innerHeight === 0 || getComputedStyle(window.frameElement).visibility === "hidden";
    } catch (error) {
      return document.hidden; // not in a frame
    }
  }

  const sight = new Sight();

  /** A clip or a picture that is loaded only while it is on the screen, and plays with its group. */
  class Player extends Component {
    state = { failed: "" };

    componentDidMount() {
      this.shown = null;
      if (this.props.isVisible) {
        this.isVisible = true; // its card is there only while it is on the screen
        this.update();
        return;
      }
      sight.watch(this.base, (isVisible) => {
        this.isVisible = isVisible;
        this.update();
      });
    }

    componentDidUpdate() {
      this.update();
    }

    componentWillUnmount() {
      sight.forget(this.base);
      this.release();
      this.shown = null;
    }

    shouldComponentUpdate(props, state) {
      return props.clip !== this.props.clip || props.label !== this.props.label || state.failed !== this.state.failed;
    }

    update() {
      const wanted = this.isVisible ? this.props.clip : null;
      if (wanted?.url === this.shown?.url) return;
      this.release();
      this.shown = wanted;
      if (!wanted) return;
      if (isScrolling()) this.timer = setTimeout(() => this.load(wanted), LOAD_AFTER_MS);
      else if (mayLoadAll) this.load(wanted);
      else if (loads++ < FIRST_LOADS) {
        this.load(wanted);
        setTimeout(loadAll, FIRST_MS);
      } else allLoad.then(() => this.shown === wanted && this.load(wanted));
    }

    load(clip) {
      const element = this.base.querySelector("video, img");
      if (!element) return;
      element.src = clip.url;
      if (element.tagName !== "VIDEO") return;
      const why = clip.suffix === ".mp4" && !element.canPlayType(H264) ? NO_H264 : GONE;
      element.onerror = () => this.shown === clip && this.setState({ failed: why });
      if (this.state.failed) this.setState({ failed: "" });
      this.props.group.add(element, clip);
    }

    release() {
      clearTimeout(this.timer);
      const video = this.base?.querySelector("video");
      if (!video || !video.hasAttribute("src")) return;
      this.props.group.remove(video);
      video.onerror = null;
      video.removeAttribute("src");
      video.load();
    }

    render({ clip, label, onOpen }, { failed }) {
      const picture = clip.isPicture
        ? html`<img alt=${label} />`
        : html`<video muted playsinline preload="auto" poster=${clip.poster || undefined} aria-label=${label}
          disablepictureinpicture></video>`;
      return html`<div class=${screenOf(clip, clip.width && clip.width < FEW_PIXELS ? " pixels" : "")}
        style=${{ aspectRatio: ratioOf(clip) }} onClick=${onOpen}
        onPointerEnter=${() => this.props.group.choose(this.base.querySelector("video"))}>
        ${picture}
        ${failed && html`<p class="failed">${failed}</p>`}
      </div>`;
    }
  }

  /**
   * A card of the grid, in two kinds: see grid.js and configurations.js. Off the screen it is an empty box of about the
   * same size, so that a thousand cost little. It is drawn again only if its state or a prop in `SHOWN` changes.
   */
  class Card extends Component {
    state = { isVisible: this.props.place < FIRST_CARDS };

    componentDidMount() {
      sight.watch(this.base, (isVisible) => this.setState({ isVisible }));
    }

    componentWillUnmount() {
      sight.forget(this.base);
    }

    shouldComponentUpdate(props, state) {
      if (Object.keys(state).some((name) => state[name] !== this.state[name])) return true;
      const isOther = (name) => !Object.is(props[name], this.props[name]);
      return Boolean(state.isVisible) && this.constructor.SHOWN.some(isOther);
    }

    /** The card of a trial and the clip that it shows; `facts` returns what is under the clip. */
    frame({ trial, clip, kind, ribbon, label }, facts) {
      const { app } = this.props;
      const { isVisible } = this.state;
      const open = () => app.open(trial, clip);
      const onKey = (event) => {
        if (event.target === event.currentTarget && event.key === "Enter") open();
      };
      const isTicked = tm.compare.isTicked(app, trial);
      return html`<article class=${`card${kind}${ribbon ? " winner" : ""}${isTicked ? " ticked" : ""}`} tabindex="0"
        onKeyDown=${onKey} onfocusin=${() => app.group.choose(this.base.querySelector("video"))}
        data-trial=${trial.name} aria-label=${label}>
        ${ribbon && html`<span class="ribbon">★ ${ribbon}</span>`}
        ${isVisible && html`<${tm.compare.Tick} app=${app} trial=${trial} />`}
        ${isVisible && clip
          ? html`<${Player} clip=${clip} group=${app.group} label=${captionOf(clip)} onOpen=${open} isVisible />`
          : html`<div class=${screenOf(clip, " empty")} style=${{ aspectRatio: ratioOf(clip) }}>
            ${!clip && html`<${tm.tape.NoClip} app=${app} trial=${trial} />`}</div>`}
        <div class="facts">${isVisible && facts()}</div>
      </article>`;
    }
  }

  /** Return the card of a trial, or its name in the table. */
  const cardOf = (name, at = `[data-trial=${JSON.stringify(name)}]`) =>
    document.querySelector(`:is(.card${at}, ${at} .name)`);

  /** A star; on a screen on which the best card comes only further down, the clip that it shows. */
  function BestClip({ app, trial }) {
    const clip = tm.grid.clipOf(trial, app.state);
    const open = () => app.open(trial, clip);
    return html`<span class="star" aria-hidden="true">★</span>
      ${clip && !app.isTable && html`<div class="best-clip">
        <${Player} clip=${clip} group=${app.group} label=${captionOf(clip)} onOpen=${open} /></div>`}`;
  }

  /** The playing clip of the thing under the pointer; a pointer that passes by loads none. Its key is the URL. */
  class PeekClip extends Component {
    componentDidMount() {
      this.timer = setTimeout(() => this.setState({ isLoaded: true }), PEEK_AFTER_MS);
    }

    componentWillUnmount() {
      clearTimeout(this.timer);
    }

    render({ clip }, { isLoaded }) {
      if (!isLoaded) return null;
      return clip.isPicture ? html`<img src=${clip.url} alt="" />`
        : html`<video src=${clip.url} muted autoplay=${!isCalm()} loop playsinline></video>`;
    }
  }

  /** The returns of a trial's clips over training, on one scale for all trials, with a line at the shown clip. */
  function Sparkline({ clips, shown, color, scale }) {
    const points = clips.filter((clip) => clip.return != null && clip.step != null);
    if (points.length < 2) return html`<span class="spark"></span>`;
    const { first, low } = scale;
    const span = scale.last - first || 1;
    const height = scale.high - low || 1;
    const x = (clip) => (2 + (96 * (clip.step - first)) / span).toFixed(1);
    const y = (clip) => (22 - (20 * (clip.return - low)) / height).toFixed(1);
    const line = points.map((clip) => `${x(clip)},${y(clip)}`).join(" ");
    return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <polyline points=${line} style=${{ stroke: color }} />
      ${shown?.return != null && html`<line class="now" x1=${x(shown)} x2=${x(shown)} y1="0" y2="24" />`}
    </svg>`;
  }

  /** The step of a clip; the name of its file if it has none. */
  const placeOf = (clip) => (clip.step == null ? clip.file : `step ${number(clip.step)}`);

  /** What a screen reader says of a clip. */
  const captionOf = (clip) =>
    `${titleOf(clip.trial)}: ${placeOf(clip)}` +
    (clip.return != null ? `, return ${number(clip.return)}` : "") +
    (clip.length != null ? `, ${plural(clip.length, "step")} long` : "");

  /** The head of a column by which a table can be sorted. `order` is "ascending" or "descending" if it is. */
  function SortHead({ label, title, order, isNumber, onClick }) {
    return html`<th scope="col" class=${isNumber ? "number" : undefined} aria-sort=${order}>
      <button onClick=${onClick} title=${title}>${label}
        ${order ? (order === "descending" ? " ↓" : " ↑") : ""}</button></th>`;
  }

  /** Read something into a view's state, under a name, or the problem; not if `isShown` says that it came too late. */
  async function readInto(view, name, reading, isShown) {
    const found = await reading.then((value) => ({ [name]: value, problem: null }),
      (error) => ({ [name]: null, problem: error.message }));
    if (isShown()) view.setState(found);
  }

  /** Save a Blob as a file of the user's. */
  function save(content, name) {
    const url = URL.createObjectURL(content);
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), SAVED_AFTER_MS);
  }

  /** A row of buttons of which one is pressed; a menu if there are many. */
  function Choice({ label, values, value, names, onChange }) {
    if (values.length < 2) return null;
    const name = (item) => (names ? names(item) : item);
    if (values.length > 4) {
      return html`<label class="field"><span>${label}</span>
        <select value=${value} onChange=${(event) => onChange(event.target.value)}>
          ${values.map((item) => html`<option value=${item} selected=${item === value}>${name(item)}</option>`)}
        </select></label>`;
    }
    return html`<div class="choice" role="group" aria-label=${label}>
      ${values.map((item) => html`<button aria-pressed=${item === value} onClick=${() => onChange(item)}>
        ${name(item)}</button>`)}
    </div>`;
  }

  /** A dialog of the browser's: it keeps the focus inside, Esc closes it, and the focus goes back to where it was. */
  class Dialog extends Component {
    componentDidMount() {
      this.base.showModal();
      if (!document.activeElement?.matches("dialog > .primary")) return;
      this.base.focus({ preventScroll: true }); // a text is read from its top, not from its button
      this.base.scrollTop = 0;
    }

    componentWillUnmount() {
      this.isGone = true; // its event comes later, when another dialog may be shown
      if (this.base.open) this.base.close(); // the focus goes back
    }

    render({ app, title, children }) {
      const close = () => this.isGone || app.close();
      const onClick = (event) => event.target === this.base && close(); // beside it
      return html`<dialog class="help" aria-label=${title} tabindex="0" onClose=${close} onCancel=${close}
        onClick=${onClick}><h2>${title}</h2>
        ${children}
        <button class="primary" onClick=${close}>Close</button>
      </dialog>`;
    }
  }

  /**
   * A dialog with a box for each name. `onChange` is told the names that are checked, in the order of `names`; `sets`,
   * [[text, names], ...], have a button.
   */
  class Checks extends Component {
    render({ app, title, names, label = (name) => name, chosen, onChange, sets = [] }, { text = "" }) {
      const toggle = (name) => onChange(names.filter((own) => chosen.includes(own) !== (own === name)));
      const found = names.filter((name) => label(name).toLowerCase().includes(text.trim().toLowerCase()));
      return html`<${Dialog} app=${app} title=${title}>
        <p>${sets.map(([own, all]) => html`<button class="chip" onClick=${() => onChange(all)}>${own}</button> `)}</p>
        ${names.length > MANY_NAMES && html`<input class="search" type="search" aria-label="Search"
          placeholder=${`Search ${plural(names.length, "name")}`} value=${text}
          onInput=${(event) => this.setState({ text: event.target.value })} />`}
        <ul class="names checks">${found.map((name) => html`<li key=${name}><label><input type="checkbox"
          checked=${chosen.includes(name)} onChange=${() => toggle(name)} /> ${label(name)}</label></li>`)}</ul>
      <//>`;
    }
  }

  /** A long list of names to choose one from, with a field to search in it; `children` stand above it. */
  class Picker extends Component {
    render({ app, title, names, label, chosen, onPick, children }, { text = "" }) {
      const wanted = text.toLowerCase().split(/\s+/);
      const found = names.filter((name) =>
        wanted.every((part) => `${name} ${label(name)}`.toLowerCase().includes(part)));
      return html`<${Dialog} app=${app} title=${title}>
        ${children}
        <input class="search" type="search" aria-label="Search"
          placeholder=${`Search ${plural(names.length, "metric")}`} value=${text}
          onInput=${(event) => this.setState({ text: event.target.value })}
          onKeyDown=${(event) => event.key === "Enter" && found.length && onPick(found[0])} />
        <ul class="names">${found.map((name) => html`<li>
          <button aria-current=${name === chosen} onClick=${() => onPick(name)}>${label(name)}
          ${label(name) !== name && html` <span class="muted">${name}</span>`}</button></li>`)}
          ${!found.length && html`<li class="muted">no metric has this in its name</li>`}</ul>
      <//>`;
    }
  }

  tm.ui = { html, Component, isCalm, cardOf, Dialog, Checks, Picker, PeekClip, number, plural, lastPart, titleOf,
    fitting, placeOf, captionOf, downloadName, Player, Card, BestClip, Sparkline, Choice, SortHead, readInto, save,
    sight, firstPicture, allLoad, FEW_PIXELS };
})((window.tuneMedia = window.tuneMedia || {}));
