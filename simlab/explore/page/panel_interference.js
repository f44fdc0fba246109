// The panel of interference: pass@1 and pass@k while prompts that share features are trained, and the map of many runs.

import { atLevel, crossing, placeOn } from "./closed_forms.js";
import { halfWidth, joined } from "./compare.js";
import { axes, SHARES } from "./look.js";
import { sweepCommand } from "./settings.js";
import { element, short, signed } from "./text.js";
import { tableOf } from "./tools.js";

const OF_A_CELL = ["weight", "overlap", "conflict", "group_size", "hard_rate", "temperature", "learning_rate", "optimizer"];
const SHOWN = [1, 256]; // the k that are followed over steps
const ERRORS = 2; // by which pass@k is below the base model's where a cell of the map says so
const LOW = "#b2182b"; // of cells where pass@k falls
const HIGH = "#2166ac";

// A number to two significant digits, without an exponent.
const twoDigits = (number) => (number === null ? "" : String(Number(number.toPrecision(2))));

const passed = (result, place) => result.k.map((k) => result.metrics[`pass_at_${k}`].mean[place]);

function overSteps(result, k, panel, look) {
  const metric = result.metrics[`pass_at_${k}`];
  const half = halfWidth(metric, result.seeds);
  const ends = [0, result.step.at(-1)];
  return [
    ...look.meanLines("trained, at the end", result.step, metric.mean, half,
      { panel, width: 2.4, showlegend: panel === 0, csv: `pass@${k}, mean of ${result.seeds} seeds` }),
    look.line("base model", ends, ends.map(() => metric.mean[0]), { panel, colour: look.ink.text, dash: 1, width: 1.6,
      showlegend: panel === 0, hovertemplate: "%{y:.4f}", csv: `pass@${k} of the base model` }),
  ];
}

function overK(result, level, look) {
  const line = (name, curve, options) => look.line(name, result.k, curve,
    { panel: 2, hovertemplate: "k = %{x}: %{y:.4f}", ...options });
  const traces = [
    line("trained", passed(result, result.step.length - 1), { width: 2.4, showlegend: false, csv: "pass@k at the end" }),
    line("base model", passed(result, 0), { colour: look.ink.text, dash: 1, width: 1.6, showlegend: false,
      csv: "pass@k of the base model" }),
  ];
  const reached = atLevel(result, level);
  traces.push(line(`trained, where pass@1 = ${short(level)}`, reached ? reached.curve : result.k.map(() => null),
    { colour: 1, dash: 2, width: 2.4, csv: `pass@k where pass@1 reaches ${short(level)}` }));
  return traces;
}

function mapTraces(all, one, values, look, panel) {
  const largest = Math.max(...Object.values(all.maps).flatMap(({ mean }) => mean.flat().map(Math.abs)));
  const below = (row, column) => one.mean[row][column] !== null && one.mean[row][column] < -ERRORS * one.error[row][column];
  const cells = {
    type: "heatmap", name: "map", x: all.overlap.map((_, i) => i), y: one.values.map((_, i) => i), z: one.mean,
    ...axes(panel), zmin: -largest, zmax: largest, xgap: 1, ygap: 1, hoverongaps: true, showlegend: false,
    colorscale: [[0, LOW], [0.5, look.ink.card], [1, HIGH]],
    text: one.mean.map((row, i) => row.map((_, j) => (below(i, j) ? twoDigits(one.crossing[i][j]) : ""))),
    texttemplate: "%{text}", textfont: { size: 11 },
    customdata: one.mean.map((row, i) => row.map((_, j) => cellInWords(all, one, i, j))),
    hovertemplate: "%{customdata}<extra></extra>",
    colorbar: { title: { text: "gain", font: { size: 11 } }, thickness: 9, len: 1, tickfont: { size: 10 }, outlinewidth: 0,
      tickvals: [-0.4, -0.2, 0, 0.2, 0.4].filter((tick) => Math.abs(tick) <= largest) },
  };
  const [x, y] = [[], []];
  (one.threshold || []).forEach((pair, row) => pair.forEach((place) => {
    const at = place === null ? null : placeOn(all.overlap, place);
    if (at !== null) {
      x.push(at, at, null);
      y.push(row - 0.5, row + 0.5, null);
    }
  }));
  const quiet = { hoverinfo: "skip", showlegend: false, hovertemplate: undefined, meta: "map" };
  const traces = [cells, look.line("edge by theory", x, y, { panel, colour: look.ink.text, width: 3, ...quiet })];
  const here = [placeOn(all.overlap, values.overlap), placeOn(one.values, values[one.setting])];
  const isSeen = here.every((at) => at !== null) && values.optimizer === one.settings.optimizer;
  traces.push(look.marker(isSeen ? [here[0]] : [], isSeen ? [here[1]] : [], { panel, meta: "map",
    marker: { symbol: "square-open", size: 22, color: look.ink.text, line: { width: 2.5 } } }));
  return traces;
}

function cellInWords(all, one, row, column) {
  const where = `overlap ${short(all.overlap[column])}, ${one.label} ${short(one.values[row])}`;
  const mean = one.mean[row][column];
  if (mean === null) return `${where}:<br>not all runs reach pass@1 = ${all.level}`;
  const from = one.crossing[row][column];
  return `${where}:<br>pass@${all.k} ${signed(mean, 3)}` +
    `${mean < 0 && from !== null ? `<br>below the base model's from k = ${twoDigits(from)} on` : ""}`;
}

function mapPanel(all, one, narrow) {
  const ticks = (values) => ({ tickvals: values.map((_, i) => i), ticktext: values.map((value) => short(value)),
    range: [-0.5, values.length - 0.5], showgrid: false, fixedrange: true });
  return {
    title: `map: pass@${all.k} less the base model's`,
    x: { title: "overlap of features", ...ticks(all.overlap), tickangle: narrow ? -60 : 0, tickfont: { size: 10.5 } },
    y: { title: one.label, ...ticks(one.values) },
  };
}

function stepPanels() {
  const share = { title: "", range: SHARES };
  return [
    ...SHOWN.map((k) => ({ title: `pass@${k}`, x: { title: "step", rangemode: "tozero" }, y: share })),
    { title: "pass@k", y: share,
      x: { title: "samples k", type: "log", range: [0, Math.log10(4096)], tickvals: [1, 4, 16, 64, 256, 1024, 4096],
        ticktext: ["1", "4", "16", "64", "256", "1024", "4096"] } },
  ];
}

function compute({ values, description, look, result }) {
  const all = description.interference;
  const one = all.maps[values.map];
  const simulated = stepPanels();
  const panel = simulated.length;
  const lines = result
    ? [...SHOWN.flatMap((k, place) => overSteps(result, k, place, look)), ...overK(result, values.level, look)]
    : simulated.map((_, place) => look.line("", [1, values.steps], [null, null], { panel: place, showlegend: false }));
  const layout = look.layout([...simulated, mapPanel(all, one, look.narrow)],
    { columns: 2, height: 460 });
  const suffix = String(panel + 1);
  for (const name of ["xaxis", "xaxis2"]) layout[name].range = [0, values.steps];
  layout.hovermode = "closest";
  // Cells that hold nothing show this ground.
  layout.shapes = [{ type: "rect", xref: `x${suffix} domain`, yref: `y${suffix} domain`, x0: 0, x1: 1, y0: 0, y1: 1,
    fillcolor: look.ink.grid, line: { width: 0 }, layer: "below" }];
  const traces = [...lines, ...mapTraces(all, one, values, look, panel)];
  makeRoom(traces, layout, suffix, look.narrow ? 0 : 0.06);
  return { traces, layout, readout: readout(values, description, result), command: command(values, description), notes: [],
    table: tableWithMap(lines, all, one) };
}

// Narrows the map by what its labels at the left need, a share of its width, and puts its colours beside it.
function makeRoom(traces, layout, suffix, labels) {
  const [left, right] = layout[`xaxis${suffix}`].domain;
  const [low, high] = layout[`yaxis${suffix}`].domain;
  layout[`xaxis${suffix}`].domain = [left + (right - left) * labels, left + (right - left) * 0.88];
  const { colorbar } = traces.find(({ type }) => type === "heatmap");
  Object.assign(colorbar, { x: left + (right - left) * 0.89, xanchor: "left", y: (low + high) / 2, len: high - low });
}

function tableWithMap(lines, all, one) {
  const { columns, rows } = tableOf(lines);
  const cells = one.values.flatMap((value, row) => all.overlap.map((overlap, column) =>
    [`map: pass@${all.k} less the base model's, ${one.label} = ${value}`, overlap, one.mean[row][column]]));
  return { columns, rows: [...rows, ...cells] };
}

export function crossingInWords(k, base, curve) {
  const from = crossing(k, curve.map((value, i) => value - base[i]));
  if (from !== null) return `pass@k is below the base model from <b>k = ${twoDigits(from)}</b> on`;
  const isBelow = curve.every((value, i) => value < base[i]);
  return isBelow ? "pass@k is below the base model at <b>every k</b>" : "pass@k is <b>nowhere below</b> the base model";
}

function readout(values, description, result) {
  if (!result) return "";
  const base = passed(result, 0);
  const end = passed(result, result.step.length - 1);
  const shown = (k) => {
    const { mean } = result.metrics[`pass_at_${k}`];
    return `pass@${k} ${short(mean[0], 3)} → <b>${short(mean.at(-1), 3)}</b>`;
  };
  const reached = atLevel(result, values.level);
  const there = reached
    ? `At step ${Math.round(reached.step)}, where pass@1 reaches ${short(values.level)}: ${crossingInWords(result.k, base, reached.curve)}.`
    : `Mean pass@1 does not reach ${short(values.level)}.`;
  return `${shown(1)}, ${shown(256)} after ${result.step.at(-1)} steps, over ${result.seeds} seeds: ` +
    `${crossingInWords(result.k, base, end)}. ${there} ${edgeInWords(result.edge)}`;
}

function edgeInWords(edge) {
  if (edge === null) return "First-order theory has no edge for this optimiser or estimator.";
  const overlaps = edge.filter((place) => place !== null && Math.abs(place) <= 1).map((place) => `<b>${short(place, 3)}</b>`);
  if (!overlaps.length) return "By first-order theory the first step harms no hard prompt at any overlap.";
  return `By first-order theory the first step harms hard prompts beyond an overlap of ${overlaps.join(" and ")}.`;
}

function command(values, description) {
  const parameters = Object.fromEntries(["overlap", "conflict", "hard_rate"].map((name) => [`problem.${name}`, values[name]]));
  const options = [`--pass-at-k ${Array.from({ length: 13 }, (_, power) => 2 ** power).join(",")}`];
  return sweepCommand("interference", values, description,
    { records: 40, options, parameters: { ...parameters, "run.temperature": values.temperature } });
}

function setTo({ state, change, description }, row, column) {
  const all = description.interference;
  const one = all.maps[state.values["interference.map"]];
  const cell = { ...one.settings, overlap: all.overlap[column], [one.setting]: one.values[row] };
  for (const setting of OF_A_CELL) {
    const name = `interference.${setting}`;
    const usual = description.controls.find((control) => control.name === name).default;
    change(name, setting in cell ? cell[setting] : usual);
  }
}

// The cells of the map for whoever has no mouse: two choices, and a button.
function extra(tools) {
  const all = tools.description.interference;
  const overlap = element("select", { id: "cell-overlap" });
  all.overlap.forEach((value, column) => overlap.append(element("option", { value: column, text: short(value) })));
  const setting = element("select", { id: "cell-setting" });
  const label = element("label", { for: "cell-setting" });
  const go = element("button", { type: "button", text: "Set the sliders to this cell",
    onclick: () => setTo(tools, Number(setting.value), Number(overlap.value)) });
  const node = element("div", { class: "control choice cell" },
    element("div", { class: "heading" }, element("label", { for: "cell-overlap", text: "cell: overlap" }), overlap),
    element("div", { class: "heading" }, label, setting), go);
  let shown = "";
  function show(values) {
    if (values.map === shown) return;
    shown = values.map;
    const one = all.maps[shown];
    label.textContent = one.label;
    setting.replaceChildren(...one.values.map((value, row) => element("option", { value: row, text: short(value) })));
  }
  return { node, show };
}

export default {
  id: "interference",
  title: "Interference",
  question: "Where does pass@k fall below the base model, by how much, and at which k?",
  note: "16 easy prompts (solve rate 0.3) that one answer solves, and 16 hard ones for which that answer is wrong, where they " +
    "are in conflict; one linear head for all. The map holds 16 seeds a cell, read where pass@1 reaches 0.4; a number is the k " +
    "from which on pass@k is below the base model's, grey says that not all runs reach the level, and the thick line is the " +
    "edge of first-order theory. The square shows where the sliders of both axes stand. A click on a cell sets all sliders to it.",
  symbols: ["pass@k", "k", "G"],
  compute,
  extra,
  click: ({ data, x, y }, tools) => { if (data.type === "heatmap") setTo(tools, y, x); },
  locked: (setting) => !["level", "map"].includes(setting),
  simulated: { join: joined, seeds: (values) => values.seeds },
};
