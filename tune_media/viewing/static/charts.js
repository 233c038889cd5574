// Charts: uPlot with the page's colours, a cursor that can be set from outside, and a click that tells its x.
(function (tm) {
  "use strict";

  const { html, Component } = tm.ui;

  // The distances of the ticks on an axis of whole numbers: no training iteration 1.5.
  const WHOLE = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

  const [PAD_LEFT, PAD_RIGHT] = [56, 12]; // style.css has them, too: a time line is as wide as the charts below it
  const LABEL_RIGHT = 28; // room for half of the last label under an axis

  const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Return the dash of a line if so many before it have its color: in no chart two look alike. See looks.py, too. */
  const dashOf = (before) => [[], [8, 4], [2, 3]][before] || [8, 3, ...new Array(before - 2).fill([2, 3]).flat()];

  /** Draw a vertical line at an x, over all that a chart shows. */
  function drawVertical(plot, value, color = "--accent") {
    const x = Math.round(plot.valToPos(value, "x", true));
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([]); // that of the last series
    ctx.strokeStyle = cssColor(color);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  /** Return the lowest and the highest point of stacked values: what is negative is stacked downwards. */
  function stackRange(series) {
    let [low, high] = [0, 0];
    for (let at = 0; at < (series[0]?.values.length || 0); at++) {
      let [below, above] = [0, 0];
      for (const { values } of series) {
        if (values[at] < 0) below += values[at];
        else above += values[at] || 0;
      }
      [low, high] = [Math.min(low, below), Math.max(high, above)];
    }
    return low === high ? [0, 1] : [low - 0.03 * (high - low), high + 0.03 * (high - low)];
  }

  /** Draw the values of each x as bars on top of each other. */
  function drawStack(plot, x, series) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const half = Math.min(...x.slice(1).map((value, at) => value - x[at]), Infinity) / 2;
    const width = Number.isFinite(half) ? half : 0.5;
    x.forEach((value, at) => {
      const [left, right] = [value - width, value + width].map((edge) => Math.round(plot.valToPos(edge, "x", true)));
      let [below, above] = [0, 0];
      for (const { values, color } of series) {
        const own = values[at] || 0;
        const from = own < 0 ? below : above;
        if (own < 0) below += own;
        else above += own;
        const [start, end] = [from, from + own].map((edge) => plot.valToPos(edge, "y", true));
        ctx.fillStyle = color;
        ctx.fillRect(left, Math.min(start, end), Math.max(1, right - left), Math.abs(end - start));
      }
    });
    ctx.restore();
  }

  /** Draw the intervals of each series, as far as there are any. */
  function drawIntervals(plot, x, series) {
    const { ctx } = plot;
    ctx.save();
    ctx.setLineDash([]); // that of the last series
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (const { lows, highs, color } of series.filter((line) => line.lows)) {
      ctx.strokeStyle = color;
      ctx.beginPath();
      x.forEach((value, at) => {
        if (lows[at] == null || highs[at] == null) return;
        const middle = plot.valToPos(value, "x", true);
        const ends = [lows[at], highs[at]].map((end) => plot.valToPos(end, "y", true));
        const cap = 3 * devicePixelRatio;
        for (const [from, to, left, right] of [[...ends, 0, 0], ...ends.map((end) => [end, end, cap, cap])]) {
          ctx.moveTo(middle - left, from);
          ctx.lineTo(middle + right, to);
        }
      });
      ctx.stroke();
    }
    ctx.restore();
  }

  /** Return the range of a chart with intervals. */
  function intervalRange(series) {
    const values = series.flatMap((line) => [...line.values, ...(line.lows || []), ...(line.highs || [])])
      .filter((value) => value != null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.08 * (high - low || 1);
    return [low - room, high + room];
  }

  /** A uPlot chart as wide as the element `place`. A subclass has `place`, `size` and `draw()`, which sets `plot`. */
  class Plot extends Component {
    componentDidMount() {
      this.observer = new ResizeObserver(() => this.plot && this.place.clientWidth && this.plot.setSize(this.size));
      this.observer.observe(this.place);
      this.draw();
    }

    componentWillUnmount() {
      this.observer.disconnect();
      this.plot?.destroy();
    }

    /** What all axes have in common. */
    get axis() {
      return { stroke: cssColor("--muted"), grid: { stroke: cssColor("--line"), width: 1 }, ticks: { show: false },
        font: "11px system-ui" };
    }
  }

  /**
   * A line chart. Props: x (numbers), series ([{label, values, color, points, lows, highs}]; the last two are the ends
   * of an interval at each x, or null), xLabel, height, onPick(x, index), mark (x of a vertical line that stays),
   * markColor, theme (drawn again if it changes), span (the ends of the x axis, which then has no label; by default
   * those of x), stacked (whether the values of the series are bars on top of each other).
   */
  class Chart extends Plot {
    get place() {
      return this.base;
    }

    get size() {
      return { width: this.base.clientWidth || 600, height: this.props.height };
    }

    componentDidUpdate(before) {
      const same = ["x", "series", "theme", "height", "stacked"].every((name) => before[name] === this.props[name]);
      if (!same) this.draw();
      else if (before.mark !== this.props.mark) this.plot?.redraw(false, false);
    }

    draw() {
      this.plot?.destroy();
      const { x, series, xLabel, span, stacked } = this.props;
      const { axis } = this;
      const hasIntervals = series.some(({ lows }) => lows);
      const yRange = stacked ? () => stackRange(series) : hasIntervals ? () => intervalRange(series) : null;
      const labelled = { label: xLabel, labelSize: 18, labelFont: axis.font, size: 34 };
      this.plot = new window.uPlot({
        ...this.size,
        padding: [8, span ? PAD_RIGHT : LABEL_RIGHT, 0, 0],
        scales: { x: { time: false, ...(span ? { range: () => span } : {}) }, y: yRange ? { range: yRange } : {} },
        axes: [
          { ...axis, ...(x.every(Number.isInteger) ? { incrs: WHOLE } : {}), ...(span ? { size: 26 } : labelled) },
          { ...axis, size: PAD_LEFT },
        ],
        legend: { live: true, markers: { dash: (plot, at) => (plot.series[at].dash?.length ? "dotted" : "solid") } },
        cursor: { drag: { setScale: false, x: false, y: false } },
        series: [
          { label: xLabel, value: (plot, value) => tm.ui.number(value) },
          ...series.map((line, at) => ({
            label: line.label, stroke: line.color, fill: stacked ? line.color : undefined, width: 1.75, spanGaps: true,
            dash: line.dash ?? dashOf(series.slice(0, at).filter(({ color }) => color === line.color).length),
            ...(stacked ? { paths: () => null } : {}),
            points: { show: stacked ? false : line.points ?? line.values.length < 2, size: 6, fill: line.color },
            value: (plot, value) => tm.ui.number(value),
          })),
        ],
        hooks: { ready: [() => this.cursor != null && this.setCursor(this.cursor)],
          drawAxes: [(plot) => stacked && drawStack(plot, x, series)],
          draw: [(plot) => drawIntervals(plot, x, series),
            (plot) => this.props.mark != null && drawVertical(plot, this.props.mark, this.props.markColor)] },
      }, [x, ...series.map((line) => line.values)], this.base);
      this.plot.over.addEventListener("click", (event) => this.pick(event));
      this.plot.over.addEventListener("pointermove", (event) => event.buttons === 1 && this.pick(event));
      this.drawnAt = null;
    }

    /** Tell the x under the pointer. The chart's own cursor would be wrong: it follows the video while that plays. */
    pick(event) {
      const index = this.plot.posToIdx(event.clientX - this.plot.over.getBoundingClientRect().left);
      if (this.props.x.length) this.props.onPick?.(this.props.x[index], index);
    }

    /** Move the cursor to an x, as the video plays. */
    setCursor(x) {
      this.cursor = x;
      if (!this.plot || !this.plot.over.clientHeight) return;
      this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: this.plot.over.clientHeight / 2 }, false);
      this.plot.setLegend({ idx: this.plot.posToIdx(this.plot.valToPos(x, "x")) });
    }

    shouldComponentUpdate(props) {
      return ["x", "series", "theme", "height", "mark", "stacked"].some((name) => props[name] !== this.props[name]);
    }

    render({ label }) {
      return html`<div class="chart" role="img" aria-label=${label}></div>`;
    }
  }

  tm.charts = { Plot, Chart, WHOLE, LABEL_RIGHT, cssColor, dashOf, drawVertical };
})((window.tuneMedia = window.tuneMedia || {}));
