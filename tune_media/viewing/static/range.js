// A range of values that is kept, on a histogram: two handles for the keyboard and the pointer. The range
// lives in the text of the filter, as if somebody had typed it.
(function (tm) {
  "use strict";

  const { html } = tm.ui;
  const DIGITS = 4; // of an end, more if the values lie closer together
  const MOST_DIGITS = 15;
  const SHORTEST = 0.012; // of an axis: a shorter drag is a click, which clears; so near an end, the range has no end
  const PAGE = 0.1; // of an axis: what Page Up and Page Down go

  /** Return a pattern that finds the comparisons of a name that a range writes: `lr=1..2`. */
  function patternOf(name) {
    const start = tm.filter.token(name, "").replace(/""$/, "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const one = `${start}(?:"[^"]*"|[^\\s()"]+)`;
    return new RegExp(`(?<!\\b(?:NOT|OR)\\s*)(?:^|\\s)(?:(?:AND|&&?)\\s+)?${one}(?=\\s|$)(?!\\s+OR\\b)`, "gi");
  }

  /** Return whether a filter is an OR of parts, outside of its parentheses. */
  function isEither(filter) {
    let [text, inner] = [filter.replace(/"[^"]*"?/g, '""'), ""];
    while (text !== inner) [text, inner] = [text.replace(/\([^()]*\)/g, "()"), text];
    return /(?:^|\s)(?:or|\|\|?)(?:\s|$)/i.test(text);
  }

  /** Return the filter without the comparisons of a name, and with another one instead, if there is one. */
  function replaced(filter, name, token) {
    const left = filter.replace(patternOf(name), "").trim().replace(/^(?:and|&&?)\s+/i, "");
    return `${token && isEither(left) ? `(${left})` : left} ${token}`.trim();
  }

  /** Return the comparison of a name that a range has written into the filter; "" if there is none. */
  const tokenIn = (filter, name) => filter.match(patternOf(name))?.[0] || "";

  /** Return the ends of the range of a name that the filter has; null if it has none. */
  function endsIn(filter, name) {
    const [, low, high] = /=(-?[\d.e+-]*?)\.\.(-?[\d.e+-]*)$/i.exec(tokenIn(filter, name)) || [];
    return low == null ? null : [low === "" ? -Infinity : Number(low), high === "" ? Infinity : Number(high)];
  }

  /** Return a number with a few digits that is not below (sign 1) or not above (-1) another one. */
  function outward(value, sign, digits) {
    const near = Number(value.toPrecision(digits));
    if (sign * near >= sign * value) return near;
    return Number((near + sign * 10 ** (Math.floor(Math.log10(Math.abs(value))) - digits + 1)).toPrecision(digits));
  }

  /** Return the comparison for the values between two shares of an axis; "" for all. `valueAt(share)` is a value. */
  function tokenOf(name, [from, to], valueAt) {
    const [first, last] = [valueAt(0), valueAt(1)];
    const closer = Math.floor(Math.log10(Math.max(Math.abs(first), Math.abs(last)) / (last - first)));
    const digits = Math.min(MOST_DIGITS, DIGITS + Math.max(0, closer || 0));
    const low = from < SHORTEST ? "" : outward(valueAt(from), -1, digits);
    const high = to > 1 - SHORTEST ? "" : outward(valueAt(to), 1, digits);
    return low === "" && high === "" ? "" : tm.filter.token(name, `${low}..${high}`);
  }

  /** Return the two shares in their order; null for a click. */
  const ordered = (a, b) => (Math.abs(a - b) < SHORTEST ? null : [Math.min(a, b), Math.max(a, b)]);

  /**
   * The kept range of an axis and its two handles. `stops` are the shares at which the arrow keys stop, `textOf`
   * returns the text of a stop, and `onKeep` gets the new shares, or null if nothing is left out. A pointer that takes
   * a handle calls `onGrab` with the share of the other handle.
   */
  function Range({ name, range, stops, textOf, onKeep, onGrab }) {
    const last = stops.length - 1;
    if (last < 1) return null;
    const [from, to] = range || [0, 1];
    const low = Math.max(0, stops.findIndex((share) => share >= from - 1e-9));
    const high = Math.max(low, stops.findLastIndex((share) => share <= to + 1e-9));

    const onKey = (event, isLow) => {
      const at = isLow ? low : high;
      const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
      let next = { Home: 0, End: last, PageUp: stops.findIndex((share) => share >= stops[at] + PAGE),
        PageDown: stops.findLastIndex((share) => share <= stops[at] - PAGE) }[event.key];
      if (by) next = at + by;
      else if (next === -1) next = event.key === "PageUp" ? last : 0;
      const isClearing = event.key === "Escape" && range;
      if (next == null && !isClearing) return;
      event.preventDefault();
      event.stopPropagation(); // the page's own keys
      if (isClearing) {
        onKeep(null);
        return;
      }
      const ends = isLow ? [Math.min(Math.max(0, next), high), high] : [low, Math.max(Math.min(last, next), low)];
      if (ends[0] === low && ends[1] === high) return;
      onKeep(ends[0] === 0 && ends[1] === last ? null
        : [ends[0] === 0 ? 0 : stops[ends[0]], ends[1] === last ? 1 : stops[ends[1]]]);
    };
    const handle = (isLow) => {
      const at = isLow ? low : high;
      return html`<b class=${isLow ? "handle low" : "handle high"} style=${{ left: `${100 * (isLow ? from : to)}%` }}
        role="slider" tabindex="0" aria-orientation="horizontal"
        aria-label=${`${isLow ? "Lowest" : "Highest"} kept value of ${name}`} aria-valuemin="0" aria-valuemax=${last}
        aria-valuenow=${at} aria-valuetext=${`${textOf(at)}${range ? "" : ", all values are kept"}`}
        title="Arrow keys and Page Up, Page Down move this end; Esc keeps all values"
        onKeyDown=${(event) => onKey(event, isLow)} onPointerDown=${(event) => onGrab(event, isLow ? to : from)}></b>`;
    };
    return html`${range && html`<i class="kept"
      style=${{ left: `${100 * from}%`, width: `${100 * (to - from)}%` }}></i>`}${handle(true)}${handle(false)}`;
  }

  tm.range = { Range, replaced, endsIn, tokenOf, ordered };
})((window.tuneMedia = window.tuneMedia || {}));
