// Pins: trials and clips that somebody marked, each with a note. They live in the link and nowhere else.
(function (tm) {
  "use strict";

  const { html, number, titleOf } = tm.ui;
  const MOST_PINS = 30; // a link has an end
  const MOST_CHARACTERS = 200; // of a note

  const held = tm.model.memo(); // each card asks

  /** Return the pins of a link: [{trial, clip, frame, note}]. A link may come from anywhere: what is no pin is left out. */
  const read = (text) => held([text], () => parsed(text));

  function parsed(text) {
    try {
      const found = JSON.parse(text || "[]");
      return found.filter((pin) => Array.isArray(pin) && typeof pin[0] === "string").slice(0, MOST_PINS)
        .map(([trial, clip, frame, note]) => ({ trial, clip: String(clip || ""), frame: Number(frame) || 0, note: String(note || "").slice(0, MOST_CHARACTERS) }));
    } catch (error) {
      return [];
    }
  }

  const write = (pins) => (pins.length ? JSON.stringify(pins.map(({ trial, clip, frame, note }) => [trial, clip, frame, note])) : "");
  const indexOf = (pins, trial, clip) => pins.findIndex((pin) => pin.trial === trial && pin.clip === clip);
  const isPinned = (app, trial) => indexOf(read(app.state.pins), trial.name, "") >= 0;

  /** Pin a trial, or a clip at the frame that is shown; a second time, take the pin away. */
  function toggle(app, trial, clip = "", frame = 0) {
    const pins = read(app.state.pins);
    const at = indexOf(pins, trial, clip);
    if (at < 0 && pins.length === MOST_PINS) {
      app.toast(`A link holds ${MOST_PINS} pins. Take one away first.`);
      return;
    }
    app.set({ pins: write(at < 0 ? [...pins, { trial, clip, frame, note: "" }] : pins.filter((_, other) => other !== at)) });
  }

  function setNote(app, at, note) {
    app.set({ pins: write(read(app.state.pins).map((pin, other) => (other === at ? { ...pin, note } : pin))) });
  }

  /** The key p: pin what is open, or the card that has the focus. */
  function toggleShown(app) {
    const { state } = app;
    if (state.view === "clip" && app.clip) toggle(app, state.trial, app.clip.path, app.group.frame);
    else if (state.view === "trial" && app.trial) toggle(app, state.trial);
    else if (state.view === "grid") {
      const name = document.activeElement?.closest("[data-trial]")?.dataset.trial;
      if (name) toggle(app, name);
      else app.toast("Choose a card first, with Tab or the pointer, and press p to pin it.");
    }
  }

  /** The pin on a card: a card is one stop of the Tab key, so there it is the key p. */
  function CardPin({ app, trial }) {
    return html`<button class="pin" tabindex="-1" aria-pressed=${isPinned(app, trial)} title="Pin (p): the link keeps it, with a note" aria-label=${`Pin ${titleOf(trial)}`} onClick=${() => toggle(app, trial.name)}><${Icon} /></button>`;
  }

  const Icon = () => html`<svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d="M5.5 1.5h5l-.8 4.6 2.8 2.6v1.3H3.5V8.7l2.8-2.6zM8 10v5" /></svg>`;

  /** In the heading of a trial or a clip: the pin, and its note. */
  function HeadingPin({ app, trial }) {
    const clip = app.state.view === "clip" ? app.clip?.path || "" : "";
    const at = indexOf(read(app.state.pins), trial.name, clip);
    return html`<button aria-pressed=${at >= 0} onClick=${() => toggle(app, trial.name, clip, clip ? app.group.frame : 0)} title="The link keeps it, with a note (p)">${at >= 0 ? "Pinned" : "Pin"}</button>
      ${at >= 0 && html`<${Note} app=${app} at=${at} />`}`;
  }

  function Note({ app, at }) {
    const pin = read(app.state.pins)[at];
    return html`<input class="note" type="text" maxlength=${MOST_CHARACTERS} aria-label=${`Note on ${pin.trial}`} placeholder="Note" value=${pin.note} onInput=${(event) => setNote(app, at, event.target.value)} />`;
  }

  /** Above the cards: all pins, with their notes. */
  function PinsPanel({ app }) {
    const pins = read(app.state.pins);
    if (!pins.length) return null;
    return html`<section class="panel pins" aria-label="Pins">
      <div class="panel-head"><h2>Pinned</h2><span class="muted">The pins and notes are in this page's link.</span>
        <button onClick=${() => app.copyLink()} title="Copy a link to this view (c)">Copy link</button>
        <button onClick=${() => app.set({ pins: "" })}>Remove all</button></div>
      <ul>${pins.map((pin, at) => html`<${Pin} key=${`${pin.trial}|${pin.clip}`} app=${app} pin=${pin} at=${at} />`)}</ul>
    </section>`;
  }

  function Pin({ app, pin, at }) {
    const trial = app.data.named.get(pin.trial);
    const step = /step_0*(\d+)/.exec(pin.clip)?.[1];
    const place = pin.clip && tm.tape.isTape(pin.clip) ? " · an episode from its tape" : pin.clip && ` · step ${number(Number(step))}${pin.frame ? `, frame ${number(pin.frame + 1)}` : ""}`;
    const open = () => {
      if (pin.clip) app.group.pause();
      app.go({ view: pin.clip ? "clip" : "trial", trial: pin.trial, clip: pin.clip, frame: pin.frame });
      if (pin.clip) app.group.time = pin.frame / (tm.model.clipNamed(trial, pin.clip)?.fps || 30);
    };
    return html`<li>
      ${trial ? html`<button class="link" title=${pin.trial} onClick=${open}><i class="swatch" style=${{ background: app.colorOf(trial) }}></i>${titleOf(trial)}${place}</button>`
        : html`<span class="muted">${pin.trial} is not in this experiment</span>`}
      ${trial?.score != null && html`<b class="score-of">${number(trial.score)}</b>`}
      <${Note} app=${app} at=${at} />
      <button aria-label=${`Remove the pin of ${pin.trial}`} title="Remove" onClick=${() => toggle(app, pin.trial, pin.clip)}>✕</button></li>`;
  }

  tm.pins = { PinsPanel, HeadingPin, CardPin, isPinned, toggleShown };
})((window.tuneMedia = window.tuneMedia || {}));
