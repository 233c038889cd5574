// All episodes as a table: filtered, sorted and paged by the server, with a histogram of the column that is sorted by.
(function (tm) {
  "use strict";

  const { html, Component, number, plural, lastPart, Checks, PeekClip, SortHead } = tm.ui;
  const PAGE = 100;
  const TYPING_MS = 250;
  const AGAIN_MS = 700; // at most, while the server reads files; few are read soon
  const PEEK_HEIGHT = 190;
  const NAMES = new Set(["seed", "config/seed"]); // numbers that are names, not amounts
  const TITLED = new Set(["trial", "episode_id", "note"]); // columns whose cells may be cut
  const FLAGS = new Set(["terminated", "success", "success_once", "success_at_end"]); // 0 and 1 are false and true
  const CONFIG = "config/";
  const typed = { episode_return: "return", episode_length: "length", training_iteration: "iteration" };
  const SHORT = { ...typed, episode_id: "id" };
  const header = (name) => SHORT[name] || name.replace(/^(metrics|values)\//, "").replace(/^config\//, "⚙ ");

  /** Return the shortest name by which the filter knows a column. */
  function filterName(name, columns) {
    const within = (full) => full.slice(full.indexOf("/") + 1);
    const short = within(name);
    return typed[name] || (columns.some((other) => other !== name
      && [other, within(other), lastPart(other), typed[other]].includes(short)) ? name : short);
  }

  /** What the server is told of the rows that are wanted, and their order. */
  const rowsOf = ({ where, order, orderDown }) => ({ where, sort: order, descending: orderDown ? 1 : "" });

  class AllEpisodes extends Component {
    state = { found: null, problem: null, isReading: false, peek: null };

    componentDidMount() {
      this.read();
    }

    componentDidUpdate() {
      this.read();
    }

    componentWillUnmount() {
      clearTimeout(this.timer);
      this.asked = null;
    }

    /** Read the first page again if the filter, the order or the data have changed. */
    read() {
      const { state, data } = this.props.app;
      const asked = JSON.stringify([state.where, state.order, state.orderDown, data.metricsAt]);
      if (asked === this.asked) return;
      const isTyping = this.asked && JSON.parse(this.asked)[0] !== state.where;
      this.asked = asked;
      this.askedAt = performance.now();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.load(asked, 0), isTyping ? TYPING_MS : 0);
    }

    async load(asked, offset, limit = PAGE) {
      const { app } = this.props;
      const { where, order } = app.state;
      this.setState({ isReading: true });
      const counted = order || "episode_return";
      try {
        const page = await app.source.episodes({
          ...rowsOf(app.state), offset, limit, histogram: counted,
          histogram_where: tm.range.replaced(where, this.nameOf(counted), ""),
        });
        if (asked !== this.asked) return;
        const before = offset ? this.state.found : null;
        const found = before
          ? { ...page, rows: [...before.rows, ...page.rows], places: [...before.places, ...page.places] } : page;
        this.setState({ found, problem: null, isReading: false });
        if (page.read < 1) this.timer = setTimeout(() => this.load(asked, 0, Math.max(PAGE, found.rows.length)),
          Math.min(AGAIN_MS, performance.now() - this.askedAt));
      } catch (error) {
        if (asked === this.asked) this.setState({ problem: error.message, isReading: false });
      }
    }

    /** Return the name of a column in the filter. */
    nameOf(column) {
      return filterName(column, this.state.found?.columns || []);
    }

    /** Put a range of a column into the filter in place of its former one; "" clears it. */
    keep(column, token) {
      const { app } = this.props;
      app.set({ where: tm.range.replaced(app.state.where, this.nameOf(column), token) });
    }

    /** Sort by a column; a second click turns the order around. */
    sort(name) {
      const { app } = this.props;
      const again = app.state.order === name;
      app.set({ order: name, orderDown: again ? !app.state.orderDown : true });
    }

    /** Play the clip of the episode whose button the pointer is on, beside it. */
    peek(button, clip) {
      const { right, top } = button.getBoundingClientRect();
      this.setState({ peek: clip
        ? { clip, left: right + 10, top: Math.max(8, Math.min(top - 60, innerHeight - PEEK_HEIGHT)) } : null });
    }

    render({ app }, { found, problem, isReading, peek }) {
      const { state } = app;
      const hidden = tm.model.listed(state.hidden);
      const isShown = (name, at) => !hidden.includes(name)
        && (name !== "task" || found.rows.some((row) => row[at] != null));
      const shown = found ? found.columns.map((name, at) => ({ name, at })).filter(({ name, at }) => isShown(name, at))
        : [];
      const order = state.orderDown ? "descending" : "ascending";
      const more = found && found.rows.length < found.count;
      return html`<main class="episodes-view">
        <header class="heading"><button onClick=${() => app.up()} title="Back (Esc)">← ${app.above}</button>
          <div class="heading-title"><h2 tabindex="-1">All episodes</h2>
            <p class="muted" role="status">${found ? (found.count === found.total ? plural(found.total, "episode")
              : `${number(found.count)} of ${plural(found.total, "episode")}`) : ""}
              ${found?.left_out > 0 ? `, the newest; ${number(found.left_out)} older ones are not in this gallery` : ""}
              ${found?.read < 1 ? ` so far: ${Math.floor(100 * found.read)} % of the trials are read …`
                : isReading ? " reading …" : ""}</p></div></header>
        <div class="panel-head">
          <input class="filter where" type="search" aria-label="Filter episodes" value=${state.where}
            placeholder="return < 20 and length > 100"
            title="Comparisons of any column, with and, or, not and parentheses"
            onInput=${(event) => app.set({ where: event.target.value })} />
          ${found && html`<button onClick=${() => app.show(Columns, { columns: found.columns })}>
            ${shown.length === found.columns.length ? plural(shown.length, "column")
              : `${shown.length} of ${plural(found.columns.length, "column")}`} …</button>
            <a class="button" download=${`${lastPart(app.data.title) || "all"}_episodes.csv`}
              href=${app.source.csvOfEpisodes({ ...rowsOf(state),
                hidden: found.columns.filter((name, at) => !isShown(name, at)).join("\n") })}
              title="The episodes that the filter lets through, in this order, with these columns and all digits">
                Export CSV</a>`}
          ${problem && html`<span class="problem" role="alert">${problem}</span>`}</div>
        ${found?.histogram?.counts.length > 0 && html`<${Histogram} key=${found.histogram.name} ...${found.histogram}
          filterName=${this.nameOf(found.histogram.name)} where=${state.where}
          onKeep=${(token) => this.keep(found.histogram.name, token)} />`}
        ${found && !found.rows.length && found.read >= 1 && html`<p class="message" role="status">${found.total
          ? html`No episode matches ${state.where ? html`“${state.where}”` : "this"}. <button class="link"
            onClick=${() => app.set({ where: "" })}>Show all ${plural(found.total, "episode")}</button>`
          : "No episodes were recorded."}</p>`}
        ${found?.rows.length > 0 && html`<div class="table-place" tabindex="0" role="region" aria-label="All episodes">
          <table class="episodes">
          <thead><tr><th scope="col">clip</th>
            ${shown.map(({ name }) => html`<${SortHead} label=${header(name)} title=${name}
              order=${state.order === name ? order : undefined} onClick=${() => this.sort(name)} />`)}</tr></thead>
          <tbody>${found.rows.map((row, at) => html`<${Row} app=${app} row=${row} columns=${shown}
            episode=${row[found.columns.indexOf("episode_id")]} onPeek=${(button, clip) => this.peek(button, clip)}
            place=${found.places[at]} />`)}</tbody>
        </table></div>`}
        ${peek && html`<div class="peek beside" style=${{ left: `${peek.left}px`, top: `${peek.top}px` }}>
          <${PeekClip} key=${peek.clip.url} clip=${peek.clip} /></div>`}
        ${more && html`<button class="more" onClick=${() => this.load(this.asked, found.rows.length)}>
          Show ${number(Math.min(PAGE, found.count - found.rows.length))} more</button>`}
      </main>`;
    }
  }

  function Row({ app, row, columns, episode, place: [trial, clip, tape], onPeek }) {
    const own = app.data.named.get(trial);
    const path = clip || (app.source.tape && tape ? tm.tape.pathOf(tape, episode) : null);
    const enter = (event) => onPeek(event.currentTarget, own && tm.model.clipNamed(own, clip));
    const leave = (event) => onPeek(event.currentTarget, null);
    const text = (value, name) => (
      name.startsWith(CONFIG) && own ? own.texts[name.slice(CONFIG.length)] ?? String(value)
        : FLAGS.has(name) && value != null ? (value ? "yes" : "no") : NAMES.has(name) && value != null ? String(value)
          : name === "trial" ? own?.shortName || value : number(value));
    return html`<tr>
      <td class="clip-cell">${clip ? html`<button title="Play the clip of this episode" aria-label="Play the clip"
        onPointerEnter=${enter} onPointerLeave=${leave} onFocus=${enter} onBlur=${leave}
        onClick=${() => app.go({ view: "clip", trial, clip })}>▶</button>`
        : tape ? html`<${tm.tape.PlayTape} app=${app} trial=${trial} report=${tape} episode=${episode} />`
          : html`<span class="muted">–</span>`}
        ${own && path && html`<${tm.compare.Tick} app=${app} trial=${own} path=${path}
          label=${`episode ${episode}`} isStop />`}</td>
      ${columns.map(({ name, at }) => html`<td class=${name === "note" ? "note" : undefined}
        title=${TITLED.has(name) ? row[at] : undefined}>${text(row[at], name)}</td>`)}</tr>`;
  }

  /** How often values of a column occur; outliers are marked. A dragged range goes into the filter. */
  class Histogram extends Component {
    share(event) {
      const { left, width } = this.place.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - left) / width));
    }

    /** A drag begins: of a new range, or of one of its ends, if the share of the other one is given. */
    start(event, other) {
      event.stopPropagation();
      event.currentTarget.setPointerCapture(event.pointerId);
      this.setState({ drag: { from: other ?? this.share(event), to: this.share(event), isEnd: other != null } });
    }

    move(event) {
      if (this.state.drag) this.setState({ drag: { ...this.state.drag, to: this.share(event), isMoved: true } });
    }

    end() {
      const { drag } = this.state;
      if (!drag) return;
      this.setState({ drag: null });
      if (!drag.isEnd || drag.isMoved) this.keep(tm.range.ordered(drag.from, drag.to));
    }

    keep(range) {
      const { edges, filterName: name, onKeep } = this.props;
      const [low, high] = [edges[0], edges[edges.length - 1]];
      const bins = edges.length - 1;
      const valueAt = (share) => edges.find((_, at) => at / bins === share) ?? low + share * (high - low);
      onKeep(range ? tm.range.tokenOf(name, range, valueAt) : "");
    }

    /** Return the range that the filter has, as shares; null if it has none. */
    kept() {
      const { edges, filterName: name, where } = this.props;
      const [low, high] = [edges[0], edges[edges.length - 1]];
      return tm.range.endsIn(where, name)?.map((end) => Math.min(1, Math.max(0, (end - low) / (high - low)))) || null;
    }

    render({ name, edges, counts, outliers, filterName: short, where }, { drag }) {
      const most = Math.max(...counts);
      const sum = outliers.reduce((a, b) => a + b, 0);
      const bins = counts.length;
      const range = drag ? [drag.from, drag.to].sort((a, b) => a - b) : this.kept();
      const hasRange = tm.range.endsIn(where, short) != null;
      return html`<figure class="histogram">
        <figcaption><b>${header(name)}</b> from ${number(edges[0])} to ${number(edges[bins])}
          ${sum > 0 && html`, <span class="outliers">${plural(sum, "outlier")}</span>`}.
            ${" "}${hasRange ? html`<button class="link" aria-label=${`Clear the range of ${header(name)}`}
              onClick=${() => this.keep(null)}>Clear the range</button>`
              : "Drag, or move a handle, to keep a range, which goes into the filter."}</figcaption>
        <div class="brushed" ref=${(place) => { this.place = place; }} onPointerDown=${(event) => this.start(event)}
          onPointerMove=${(event) => this.move(event)} onPointerUp=${() => this.end()}
          onPointerCancel=${() => this.setState({ drag: null })}>
          <div class="bins" role="img" aria-label=${`Histogram of ${header(name)}`}>${counts.map((count, at) => html`<i
            style=${{ height: `${count ? Math.max(3, (100 * count) / most) : 0}%` }} class=${outliers[at] ? "out" : ""}
            title=${`${number(edges[at])} to ${number(edges[at + 1])}: ${plural(count, "episode")}${outliers[at]
              ? `, ${plural(outliers[at], "outlier")}` : ""}`}></i>`)}</div>
          <${tm.range.Range} name=${header(name)} range=${range} stops=${edges.map((_, at) => at / bins)}
            textOf=${(at) => number(edges[at])} onKeep=${(ends) => this.keep(ends)}
            onGrab=${(event, other) => this.start(event, other)} />
        </div></figure>`;
    }
  }

  /** The dialog in which the columns are chosen that the table shows. */
  function Columns({ app, columns }) {
    const hidden = tm.model.listed(app.state.hidden);
    const show = (shown) => app.set({ hidden: columns.filter((name) => !shown.includes(name)).join("\n") });
    return html`<${Checks} app=${app} title="Columns" names=${columns}
      chosen=${columns.filter((name) => !hidden.includes(name))} onChange=${show}
      sets=${[["all", columns], ["all but metrics", columns.filter((name) => !name.startsWith("metrics/"))]]} />`;
  }

  tm.episodes = { AllEpisodes, Columns };
})((window.tuneMedia = window.tuneMedia || {}));
