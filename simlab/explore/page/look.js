// The looks of charts: colours and dashes of the project, axes, and the layout of several panels.

import { inside } from "./compare.js";
import { short } from "./text.js";

const NARROW = 760; // pixels of a chart below which its panels stand one above the other
const LETTER = 7; // pixels of a letter of a title, about
const MARGINS = { l: 58, r: 18 }; // pixels at the sides of a chart
// Pixels: of a letter of its names, of a line's sample, of a row, and how far below the plot it begins.
const LEGEND = { letter: 6.9, sample: 48, row: 21, below: 60 };
export const SHARES = [-0.02, 1.03]; // the range of an axis of probabilities
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

export function inks() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { text: of("--text"), faint: of("--faint"), grid: of("--grid"), card: of("--card") };
}

// The project's colours, moved towards the text's where they would hardly be seen on the ground; black is the text's.
export function paletteOn(palette, ink) {
  return palette.map((colour) => (colour === "#000000" ? ink.text : legible(colour, ink)));
}

const channels = (colour) => /^#(..)(..)(..)$/.exec(colour).slice(1).map((pair) => parseInt(pair, 16));

// The relative luminance of a colour, and the contrast of two, as WCAG 2.2 has them.
function luminance(colour) {
  const [r, g, b] = channels(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((left, right) => left - right);
  return (high + 0.05) / (low + 0.05);
}

const LEAST_CONTRAST = 3.4; // of a line on its ground; WCAG 2.2 asks graphics for 3

function legible(colour, { text, card }) {
  const [from, to] = [channels(colour), channels(text)];
  for (let share = 0; ; share += 0.05) {
    const mixed = from.map((part, i) => Math.round(part + (to[i] - part) * share));
    const result = `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
    if (share >= 1 || contrast(result, card) >= LEAST_CONTRAST) return result;
  }
}

export class Look {
  constructor(description, width) {
    this.ink = inks();
    this.width = width;
    this.narrow = width < NARROW;
    this.dashes = description.dashes;
    this.palette = paletteOn(description.palette, this.ink);
    this.scale = [[0, this.ink.card], [1, this.palette[0]]]; // of a map
    this.signed = [[0, "#b2182b"], [0.5, this.ink.card], [1, "#2166ac"]]; // of one with numbers of both signs
  }

  colour(index) {
    return this.palette[index % this.palette.length];
  }

  dash(index) {
    return this.dashes[index % this.dashes.length];
  }

  // The number of times that all colours were taken before this one: lines of one colour have other dashes, or other marks.
  turn(colour) {
    return typeof colour === "number" ? Math.floor(colour / this.palette.length) : 0;
  }

  line(name, x, y, { colour = 0, dash = this.turn(colour), width = 2, panel = 0, ...more } = {}) {
    return {
      type: "scatter", mode: "lines", name, x, y, hoverinfo: "all", ...axes(panel),
      line: { color: typeof colour === "number" ? this.colour(colour) : colour, dash: this.dash(dash), width },
      ...more,
    };
  }

  marker(x, y, { colour = 0, panel = 0, ...more } = {}) {
    return {
      type: "scatter", mode: "markers", x, y, showlegend: false, hoverinfo: "skip", ...axes(panel),
      marker: { color: this.colour(colour), size: 10, line: { color: this.ink.card, width: 2 } },
      ...more,
    };
  }

  // A band between two lines, drawn under the lines; none where an end is null.
  band(x, low, high, colour, panel) {
    const places = x.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
    const around = [...places, ...[...places].reverse()];
    return {
      type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, meta: "band", ...axes(panel),
      x: around.map((i) => x[i]), y: around.map((i, place) => (place < places.length ? low : high)[i]),
      fill: "toself", fillcolor: transparent(colour, 0.22),
    };
  }

  // A mean with the band of its half-widths, which only the CSV names; of a quantity from 0 to `high`, if that is said.
  meanLines(name, x, mean, half, { panel = 0, colour = 0, csv = name, high, ...more }) {
    const shifted = (sign) => mean.map((value, i) => (value === null || half[i] === null ? value : inside(value, sign * half[i], high)));
    return [
      this.band(x, shifted(-1), shifted(1), this.colour(colour), panel),
      this.line(name, x, mean, { panel, colour, csv, hovertemplate: "%{y:.4f}", ...more }),
      { ...this.line("", x, half, { panel }), visible: false, csv: `${csv}, half-width of the 95 % band` },
    ];
  }

  // A layout of panels side by side, or one above the other where it is narrow. Each panel says {title, x, y}: the
  // title above it, and the properties of its axes.
  layout(panels, { height = 420, columns = panels.length, legend = true } = {}) {
    const across = this.narrow ? 1 : columns;
    const down = Math.ceil(panels.length / across);
    const rows = Math.max(...panels.slice(0, across).map(({ title }) => this.titled(title, across).split("<br>").length));
    const tall = down > 1 ? down * (this.narrow ? 300 : 250) + 60 : height;
    const layout = {
      height: tall,
      margin: { l: MARGINS.l, r: MARGINS.r, t: 16 + 18 * rows, b: legend ? LEGEND.below + 34 : this.narrow ? 72 : 46 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 13, color: this.ink.text },
      hovermode: "x unified",
      hoverlabel: { bgcolor: this.ink.card, bordercolor: this.ink.grid, font: { color: this.ink.text, size: 12 } },
      showlegend: legend,
      legend: {
        orientation: "h", x: 0, xanchor: "left", y: -LEGEND.below / (tall - 16 - 18 * rows - LEGEND.below - 34), yanchor: "top", font: { size: 12.5 }, traceorder: "normal",
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
    const [gapX, gapY] = [across > 1 ? 0.075 : 0, down > 1 ? (this.narrow ? 96 : 84) / inside : 0];
    const [width, height] = [(1 - gapX * (across - 1)) / across, (1 - gapY * (down - 1)) / down];
    const left = column * (width + gapX);
    const bottom = 1 - (row + 1) * height - row * gapY;
    const suffix = index ? String(index + 1) : "";
    const shared = {
      gridcolor: this.ink.grid, zeroline: false, linecolor: this.ink.faint, ticks: "outside", ticklen: 4,
      tickcolor: this.ink.faint, showline: true, automargin: false, tickfont: { size: 12 },
    };
    layout[`xaxis${suffix}`] = { ...shared, showgrid: false, domain: [left, left + width], anchor: `y${suffix}`, ...titled(panel.x) };
    layout[`yaxis${suffix}`] = { ...shared, domain: [bottom, bottom + height], anchor: `x${suffix}`, ...titled(panel.y) };
    if (panel.title) {
      layout.annotations.push({
        text: this.titled(panel.title, across), x: left, y: bottom + height, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom",
        showarrow: false, align: "left", yshift: 8, font: { size: 13.5, color: this.ink.text },
      });
    }
  }

  titled(title, across) {
    return wrapped(title, (0.92 * (this.width - MARGINS.l - MARGINS.r)) / across / LETTER);
  }

  hair(x, panel = 0) {
    return this.line("", [x, x], SHARES, { colour: this.ink.faint, dash: 2, width: 1, panel, showlegend: false, hoverinfo: "skip" });
  }
}

// Gives the legend as many rows as its names need, and the chart as much more height.
export function fitLegend(traces, layout, width) {
  if (!layout.showlegend) return;
  const names = traces.filter(({ showlegend, visible, name }) => name && showlegend !== false && visible !== false).map(({ name }) => name);
  const room = width - layout.margin.l - layout.margin.r;
  const widest = Math.max(0, ...names.map((name) => LEGEND.sample + LEGEND.letter * name.replace(/<[^>]*>/g, "").length));
  const more = LEGEND.row * (Math.ceil(names.length / Math.max(Math.floor(room / widest), 1)) - 1);
  if (more <= 0) return;
  layout.margin.b += more;
  layout.height += more;
}

// The range of an axis that holds 0 and all values of some lists. It is rounded, so that it seldom changes in a drag.
export function rangeOf(lists) {
  const values = lists.flat().filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const digit = 10 ** Math.floor(Math.log10(high - low || 1));
  const step = [0.1, 0.2, 0.5, 1].map((part) => part * digit).find((one) => (high - low) / one <= 6) || digit;
  const margin = 0.02 * (high - low || 1);
  return [low < 0 ? Math.floor((low - margin) / step) * step : -margin, Math.ceil((high + margin) / step) * step];
}

const MOST_TICKS = 10;

// An axis of a map, with a place for each label.
export function places(labels) {
  const every = Math.ceil(labels.length / MOST_TICKS);
  const tickvals = labels.map((_, i) => i).filter((i) => i % every === 0);
  const ticktext = tickvals.map((i) => (typeof labels[i] === "number" ? short(labels[i]) : String(labels[i])));
  return { tickvals, ticktext, range: [-0.5, labels.length - 0.5], showgrid: false, fixedrange: every === 1 };
}

// A map of values by the places of its axes.
export function heat(name, z, panel, look, more) {
  return { type: "heatmap", name, x: z[0].map((_, i) => i), y: z.map((_, i) => i), z, ...axes(panel), showlegend: false, colorscale: look.scale,
    colorbar: { thickness: 9, len: 1, tickfont: { size: 10 }, outlinewidth: 0 }, hovertemplate: "%{customdata}<extra></extra>", ...more };
}

export function axes(panel) {
  const suffix = panel ? String(panel + 1) : "";
  return { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
}

// Puts the colours of a map beside it.
export function placeColours({ colorbar, xaxis, yaxis }, layout) {
  const [[, right], [low, high]] = [layout[xaxis.replace("x", "xaxis")].domain, layout[yaxis.replace("y", "yaxis")].domain];
  Object.assign(colorbar, { x: right + 0.008, xanchor: "left", y: (low + high) / 2, len: high - low });
}

// A title in lines of so many letters; what stands in <...> takes no room, and <br> begins a line.
export function wrapped(title, letters) {
  return title.split("<br>").map((line) => {
    const rows = [""];
    for (const word of line.split(/ (?![^<]*>)/)) {
      const longer = rows.at(-1) ? `${rows.at(-1)} ${word}` : word;
      if (rows.at(-1) && longer.replace(/<[^>]*>/g, "").length > letters) rows.push(word);
      else rows[rows.length - 1] = longer;
    }
    return rows.join("<br>");
  }).join("<br>");
}

function titled({ title, ...more }) {
  return { title: { text: title, font: { size: 12.5 }, standoff: 8 }, ...more };
}

export function transparent(colour, alpha) {
  const parts = /^#?(..)(..)(..)$/.exec(colour).slice(1).map((pair) => parseInt(pair, 16));
  return `rgba(${parts.join(",")},${alpha})`;
}
