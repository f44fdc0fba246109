// How charts look: colours and dashes of the project, axes, and where several panels of one chart stand.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

// The colours of the page's theme, as its style sheet has them.
export function inks() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { text: of("--text"), faint: of("--faint"), grid: of("--grid"), card: of("--card"), good: of("--good") };
}

export class Look {
  constructor(description, narrow) {
    this.ink = inks();
    this.narrow = narrow;
    this.dashes = description.dashes;
    // Black is the last colour of the palette, and the text's colour in the dark.
    this.palette = description.palette.map((colour) => (colour === "#000000" ? this.ink.text : colour));
    this.labels = description.labels;
  }

  colour(index) {
    return this.palette[index % this.palette.length];
  }

  dash(index) {
    return this.dashes[index % this.dashes.length];
  }

  // A line; `name` stands in the legend, where there is one.
  line(name, x, y, { colour = 0, dash = 0, width = 2, panel = 0, ...more } = {}) {
    return {
      type: "scatter", mode: "lines", name, x, y, hoverinfo: "all", ...axes(panel),
      line: { color: typeof colour === "number" ? this.colour(colour) : colour, dash: this.dash(dash), width },
      ...more,
    };
  }

  // A vertical line of hairs at the present value, and points on it.
  marker(x, y, { colour = 0, panel = 0, ...more } = {}) {
    return {
      type: "scatter", mode: "markers", x, y, showlegend: false, hoverinfo: "skip", ...axes(panel),
      marker: {
        color: typeof colour === "number" ? this.colour(colour) : colour, size: 10,
        line: { color: this.ink.card, width: 2 },
      },
      ...more,
    };
  }

  // A band around a mean, drawn under the lines.
  band(x, low, high, colour, panel) {
    const shared = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [
      { ...shared, x, y: low, ...axes(panel), meta: "band" },
      { ...shared, x, y: high, ...axes(panel), meta: "band", fill: "tonexty", fillcolor: transparent(colour, 0.22) },
    ];
  }

  // A layout of panels side by side, or one above the other where it is narrow. Each panel says {title, x, y}: the
  // title above it, and the properties of its axes.
  layout(panels, { height = 420, columns = panels.length, legend = true } = {}) {
    const across = this.narrow ? 1 : columns;
    const down = Math.ceil(panels.length / across);
    const tall = down > 1 ? down * (this.narrow ? 300 : 250) + 60 : height;
    const layout = {
      height: tall,
      margin: { l: 58, r: 18, t: 34, b: legend ? 84 : 46 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 13, color: this.ink.text },
      hovermode: "x unified",
      hoverlabel: { bgcolor: this.ink.card, bordercolor: this.ink.grid, font: { color: this.ink.text, size: 12 } },
      showlegend: legend,
      legend: {
        orientation: "h", x: 0, xanchor: "left", y: -50 / (tall - 118), yanchor: "top", font: { size: 12.5 }, traceorder: "normal",
      },
      annotations: [],
      shapes: [],
      uirevision: "kept",
    };
    panels.forEach((panel, index) => this.place(layout, panel, index, across, down));
    return layout;
  }

  place(layout, panel, index, across, down) {
    const [column, row] = [index % across, Math.floor(index / across)];
    const inside = layout.height - layout.margin.t - layout.margin.b;
    const [gapX, gapY] = [across > 1 ? 0.075 : 0, down > 1 ? (this.narrow ? 96 : 72) / inside : 0];
    const [width, height] = [(1 - gapX * (across - 1)) / across, (1 - gapY * (down - 1)) / down];
    const left = column * (width + gapX);
    const bottom = 1 - (row + 1) * height - row * gapY;
    const suffix = index ? String(index + 1) : "";
    const shared = {
      gridcolor: this.ink.grid, zeroline: false, linecolor: this.ink.faint, ticks: "outside", ticklen: 4,
      tickcolor: this.ink.faint, showline: true, automargin: false, tickfont: { size: 12 },
    };
    layout[`xaxis${suffix}`] = {
      ...shared, showgrid: false, domain: [left, left + width], anchor: `y${suffix}`, ...titled(panel.x),
    };
    layout[`yaxis${suffix}`] = {
      ...shared, domain: [bottom, bottom + height], anchor: `x${suffix}`, ...titled(panel.y),
    };
    if (panel.title) {
      layout.annotations.push({
        text: panel.title, x: left, y: bottom + height, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom",
        showarrow: false, align: "left", yshift: 8, font: { size: 13.5, color: this.ink.text },
      });
    }
  }

  // A hairline at a value of the x axis of a panel.
  hair(x, panel = 0) {
    const { xaxis, yaxis } = axes(panel);
    return {
      type: "line", x0: x, x1: x, y0: 0, y1: 1, xref: xaxis, yref: `${yaxis} domain`,
      line: { color: this.ink.faint, width: 1, dash: "dot" }, layer: "below",
    };
  }
}

// The range of an axis that holds 0 and all values of some lists. It is rounded, so that it seldom changes in a drag.
export function rangeOf(lists) {
  const values = lists.flat().filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const digit = 10 ** Math.floor(Math.log10(high - low || 1));
  const step = [0.1, 0.2, 0.5, 1].map((part) => part * digit).find((one) => (high - low) / one <= 6) || digit;
  const margin = 0.02 * (high - low || 1);
  return [
    low < 0 ? Math.floor((low - margin) / step) * step : -margin,
    Math.ceil((high + margin) / step) * step,
  ];
}

export function axes(panel) {
  const suffix = panel ? String(panel + 1) : "";
  return { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
}

function titled({ title, ...more }) {
  return { title: { text: title, font: { size: 12.5 }, standoff: 8 }, ...more };
}

// A hex colour, seen through.
export function transparent(colour, alpha) {
  const parts = /^#?(..)(..)(..)$/.exec(colour).slice(1).map((pair) => parseInt(pair, 16));
  return `rgba(${parts.join(",")},${alpha})`;
}
