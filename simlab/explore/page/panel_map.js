// The panel of the map: the ends of training over two settings, as a map, as curves, and the training of single cells.

import { least, placeOfLeast } from "./closed_forms.js";
import { halfWidth, highest, joined, theoryName, theoryOf } from "./compare.js";
import { pinList } from "./controls.js";
import { heat, placeColours, places, SHARES } from "./look.js";
import { atEqualRollouts, cellRun, cellsOf, drawnRollouts, mapCommand, nearestKnown, nextCell, rolloutsOf, wrongAxes } from "./map.js";
import { controlsOf } from "./settings.js";
import { element, power, short } from "./text.js";
import { play } from "./tour.js";

const METRICS = {
  run: { "correct mass": "q_pos", "retained mass": "retained_mass", entropy: "entropy", "tail misses": "tail_miss_rate",
    "pass@16": "pass_at_16", "pass@256": "pass_at_256" },
  interference: { "correct mass": "pass_at_1", "pass@16": "pass_at_16", "pass@256": "pass_at_256" },
};
const TIMES = Array.from({ length: 26 }, (_, i) => i / 25); // at which the training is played
const REDRAWN = 250; // milliseconds between redrawings while cells come in

const pairOf = (text) => text.split(",").map(Number);
const pairsOf = (text) => (text ? text.split(";").map(pairOf) : []);

const metricsOf = ({ problem }, { mapped }) => METRICS[mapped[problem]];

// The metric of a quantity, a note, and the quantity that is shown: correct mass where the map of a problem has not the one asked for.
function metricOf(values, description) {
  const [{ problem, quantity }, known] = [values, metricsOf(values, description)];
  return known[quantity] ? [known[quantity], "", quantity]
    : [known["correct mass"], `the map of ${problem} has no ${quantity}; shown: correct mass; allowed: ${Object.keys(known).join(", ")}`, "correct mass"];
}

function wrongSettings(values, description) {
  const axesWrong = wrongAxes(values, description);
  if (axesWrong) return axesWrong;
  const [low, high] = rolloutsOf(values, description);
  if (atEqualRollouts(values) && (values.rollouts < low || values.rollouts > high)) {
    return `${power(values.rollouts)} rollouts pay for no step of the largest groups, or for too many of the smallest; allowed: ${power(low)} to ${power(high)}`;
  }
  try {
    cellRun(values, [description.axes[values.across].values[0], description.axes[values.down].values[0]], description);
    return "";
  } catch (error) {
    return error.message;
  }
}

// The runs of all cells, and of the pinned cells and the pointed one if they lie between them.
function runs(values, description) {
  if (wrongSettings(values, description)) return [];
  return [...cellsOf(values, description).map(({ x, y }) => [x, y]), ...singleCells(values)].map((pair) => cellRun(values, pair, description));
}

const singleCells = (values) => [...pairsOf(values.cell).slice(0, 1), ...pairsOf(values.pinned)];

function placeOf({ across, down }, [x, y], description) {
  const nearest = (list, value) => placeOfLeast(list, (one) => Math.abs(one - value));
  return { column: nearest(description.axes[across].values, x), row: nearest(description.axes[down].values, y) };
}

const chosenCell = (values, description) =>
  pairsOf(values.cell)[0] || [values.across, values.down].map((axis) => description.axes[axis].values[0]);

function order(values, description) {
  return (counts, seeds) => {
    const cells = cellsOf(values, description);
    const pointed = placeOf(values, chosenCell(values, description), description);
    const single = singleCells(values).map((pair) => ({ ...placeOf(values, pair, description), coarse: true }));
    return nextCell([...cells, ...single], counts, seeds, pointed);
  };
}

const atTime = (result, at) => Math.round(at * (result.step.length - 1));
const meanAt = (result, metric, at) => (result ? result.metrics[metric].mean[atTime(result, at)] : null);
const along = (result, { drawn }) => result.step.map((step) => (step * drawn) / result.step.at(-1));
const halfAt = (result, metric, at) => halfWidth(result.metrics[metric], result.seeds)[atTime(result, at)];

function mapTraces(values, metric, results, look, description, title) {
  const cells = cellsOf(values, description);
  const nearest = nearestKnown(cells, results);
  const [xs, ys] = [description.axes[values.across].values, description.axes[values.down].values];
  const z = ys.map((_, row) => xs.map((_, column) => {
    const from = nearest[row * xs.length + column];
    return from === null ? null : meanAt(results[from], metric, values.at);
  }));
  const known = z.flat().filter((one) => one !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const texts = cells.map((cell, i) => {
    const where = `${values.across} ${short(cell.x)}, ${values.down} ${short(cell.y)}`;
    return results[i] ? `${where}: ${short(meanAt(results[i], metric, values.at), 3)} ± ${short(halfAt(results[i], metric, values.at), 1)}, ` +
      `${results[i].seeds} seeds` : `${where}: not yet simulated`;
  });
  return [
    heat(title, z, 0, look, { xgap: 1, ygap: 1,
      ...(low === high ? { zmin: Math.min(low, 0), zmax: Math.max(high, 1) } : {}), // one colour, and a scale that holds it
      customdata: ys.map((_, row) => texts.slice(row * xs.length, (row + 1) * xs.length)),
      text: z.map((row, r) => row.map((value, c) => (value !== null && results[r * xs.length + c] ? short(value, 2) : ""))),
      texttemplate: "%{text}", textfont: { size: look.narrow ? 9.5 : 10.5 } }),
  ];
}

// Frames around the pinned cells and the pointed one, which leave their numbers free; the colours are those of their training,
// on a ground of their own, so that they are seen on cells of the same colour.
function frames(values, look, description) {
  const [inside, ground, own] = look.narrow ? [0.5, 5, 2] : [0.44, 7, 3]; // of a cell, from its middle; and widths of lines
  return singleCells(values).map((pair, i) => {
    const { column, row } = placeOf(values, pair, description);
    const frame = { type: "rect", x0: column - inside, x1: column + inside, y0: row - inside, y1: row + inside };
    return [{ ...frame, line: { color: look.ink.card, width: ground } },
      { ...frame, line: { color: look.colour(i), width: own, dash: look.dash(look.turn(i)) } }];
  }).reverse().flat();
}

function curveTraces(values, metric, results, look, description) {
  const [xs, ys] = [description.axes[values.across].values, description.axes[values.down].values];
  return ys.flatMap((y, row) => {
    const own = xs.map((_, column) => results[row * xs.length + column]);
    const known = xs.map((x, i) => [x, own[i]]).filter(([, result]) => result);
    const x = known.map(([value]) => value);
    const mean = known.map(([, result]) => meanAt(result, metric, values.at));
    const half = known.map(([, result]) => halfAt(result, metric, values.at));
    return look.meanLines(`${values.down} ${short(y)}`, x, mean, half,
      { panel: 1, high: highest(metric), colour: row, dash: row, mode: "lines+markers", marker: { size: 5 }, csv: `${values.quantity}, ${values.down} = ${y}` });
  });
}

// The training of the pointed cell and of the pinned ones, beside what theory says of the pointed one.
function trainingTraces(values, metric, results, look, description) {
  const single = singleCells(values);
  const trained = results.slice(cellsOf(values, description).length);
  if (!trained.some(Boolean)) return [look.line("", [0], [null], { panel: 2, showlegend: false })];
  const lines = single.flatMap((pair, i) => {
    const result = trained[i];
    if (!result) return [];
    const { mean } = result.metrics[metric];
    const half = halfWidth(result.metrics[metric], result.seeds);
    const name = `${values.across} ${short(pair[0])}, ${values.down} ${short(pair[1])}`;
    return look.meanLines(name, along(result, values), mean, half, { panel: 2, high: highest(metric), colour: i, width: 2.4, csv: `${values.quantity} of ${name}` });
  });
  const theory = trained[0] && theoryOf(trained[0], metric);
  if (theory) {
    lines.push(look.line(`${metric === "tail_miss_rate" ? "theory" : theoryName(values.optimizer)} of the pointed cell`, along(trained[0], values), theory,
      { panel: 2, colour: look.ink.text, dash: 1, width: 1.8, hovertemplate: "%{y:.4f}", csv: "theory" }));
  }
  return lines;
}

function compute({ values: asked, description, look, results }) {
  const wrong = wrongSettings(asked, description);
  const [metric, note, quantity] = metricOf(asked, description);
  const [unit, drawn] = atEqualRollouts(asked) ? ["rollouts", drawnRollouts(asked, description)] : ["step", asked.steps];
  const until = unit === "step" ? asked.steps : asked.rollouts;
  const values = { ...asked, quantity, drawn, at: (asked.at * until) / drawn };
  const all = runs(asked, description);
  const known = results.runs === JSON.stringify(all) ? results : all.map(() => null);
  const [xs, ys] = [description.axes[values.across].values, description.axes[values.down].values];
  const share = metric === "entropy" ? { rangemode: "tozero" } : { range: SHARES };
  const result = known.find(Boolean) ?? { step: [0, values.steps] };
  const record = atTime(result, values.at);
  const spent = unit === "step" ? `step ${result.step[record]}` : `${power((drawn * record) / (result.step.length - 1))} rollouts`;
  const title = `${values.quantity} after ${spent}`;
  const log = description.axes[values.across].scale === "log";
  const layout = look.layout([
    { title, x: { title: values.across, ...places(xs) }, y: { title: values.down, ...places(ys) } },
    { title: `the same against ${values.across}`, y: { title: "", ...share },
      x: { title: values.across, ...(log ? { type: "log", tickvals: xs, ticktext: xs.map((one) => short(one)) } : {}),
        range: log ? [Math.log10(xs[0]) - 0.1, Math.log10(xs.at(-1)) + 0.1] : [xs[0], xs.at(-1)] } },
    { title: `training of the chosen cells: ${values.quantity}`, x: { title: unit, range: [0, until] }, y: { title: "", ...share } },
  ], { columns: 2, height: 520 });
  layout.hovermode = "closest";
  roomForColours(layout, look);
  const traces = wrong ? [look.line("", [0], [null], { showlegend: false })]
    : [...mapTraces(values, metric, known, look, description, title), ...curveTraces(values, metric, known, look, description), ...trainingTraces(values, metric, known, look, description)];
  if (!wrong) placeColours(traces[0], layout);
  if (!wrong) layout.shapes = frames(values, look, description);
  return { traces, layout, readout: wrong || readout(values, metric, known, description), command: wrong ? "" : mapCommand(values, chosenCell(values, description), description), notes: note ? [note] : [],
    table: table(values, metric, known, description) };
}

function roomForColours(layout, look) {
  const [left, right] = layout.xaxis.domain;
  layout.xaxis.domain = [left + (look.narrow ? 0 : 0.02), right - 0.1 * (right - left)];
  if (look.narrow) return;
  layout.xaxis3.domain = [layout.xaxis.domain[0], 1];
}

function table(values, metric, results, description) {
  const rows = cellsOf(values, description).map(({ x, y }, i) => {
    const result = results[i];
    return [x, y, result ? result.seeds : 0, meanAt(result, metric, values.at), result ? halfAt(result, metric, values.at) : null];
  });
  return { columns: [values.across, values.down, "seeds", values.quantity, "half-width of the 95 % band"], rows };
}

function readout(values, metric, results, description) {
  const [xs, ys] = [description.axes[values.across].values, description.axes[values.down].values];
  const all = cellsOf(values, description).map((cell, i) => ({ ...cell, mean: meanAt(results[i], metric, values.at), result: results[i] }));
  const cells = all.filter(({ mean }) => mean !== null);
  if (!cells.length) return "";
  const better = metric === "tail_miss_rate" ? -1 : 1;
  const bestOf = (some) => least(some, ({ mean }) => -better * mean);
  const at = ({ x, mean }) => `${values.across} <b>${short(x)}</b> (${short(mean, 3)})`;
  const half = ({ result }) => halfAt(result, metric, values.at);
  const isTold = (one, other) => Math.abs(one.mean - other.mean) > Math.hypot(half(one), half(other));
  const inRow = (row) => {
    const own = cells.filter((cell) => cell.row === row);
    if (!own.length) return "";
    const [best, worst] = [bestOf(own), least(own, ({ mean }) => better * mean)];
    const where = `With ${values.down} ${short(ys[row])} it is`;
    if (short(best.mean, 3) === short(worst.mean, 3)) return `${where} <b>${short(best.mean, 3)}</b> at every ${values.across}. `;
    return isTold(best, worst) ? `${where} best at ${at(best)} and worst at ${at(worst)}. `
      : `${where} from ${at(worst)} to ${at(best)}, which the bands do not tell apart. `;
  };
  // The best cell of all, and the columns that hold one which is not told from it.
  const overall = () => {
    const columns = xs.map((_, column) => bestOf(cells.filter((cell) => cell.column === column))).filter(Boolean);
    const best = bestOf(columns), same = ({ mean }) => short(mean, 3) === short(best.mean, 3);
    if (columns.every(same)) return `<b>${short(best.mean, 3)}</b> at every ${values.across}, with ${values.down} at its best. `;
    const near = columns.filter((cell) => cell !== best && (same(cell) || !isTold(cell, best)));
    return `best at ${at(best)}, with ${values.down} ${short(best.y)}` +
      `${near.length ? `; as good within the bands: ${near.map(({ x }) => short(x)).join(", ")}` : ""}. `;
  };
  const sizes = description.axes["group size"].values;
  const unfair = [values.across, values.down].includes("group size")
    ? `At equal steps groups of ${sizes.at(-1)} draw ${sizes.at(-1) / sizes[0]} times the rollouts of groups of ${sizes[0]}. ` : "";
  return `${values.quantity[0].toUpperCase()}${values.quantity.slice(1)}: ${atEqualRollouts(values) ? overall() : inRow(0) + inRow(ys.length - 1) + unfair}` +
    `${cells.length} of ${all.length} cells are simulated.`;
}

// Choose a cell; it is drawn, simulated first, and stands in the link.
function point({ state, look, description }, column, row) {
  const { across, down } = state.of("map");
  const [x, y] = [description.axes[across].values[column], description.axes[down].values[row]];
  if (x === undefined || y === undefined || state.values["map.cell"] === `${x},${y}`) return;
  look("map.cell", `${x},${y}`);
}

function pin({ state, change }) {
  const { cell, pinned } = state.of("map"), all = cellTexts(pinned);
  if (cell && !all.includes(cell)) change("map.pinned", [...all, cell].join(";"));
}

let stopPlaying = () => {};
const cellTexts = (pinned) => (pinned ? pinned.split(";") : []);

// Choices of a cell for whoever has no mouse, the pinned cells, and a button that plays the training.
function extra(tools) {
  const { state, change, description } = tools;
  const selects = ["across", "down"].map((axis) => element("select", { id: `map-cell-${axis}` }));
  const labels = ["across", "down"].map((axis) => element("label", { for: `map-cell-${axis}` }));
  selects.forEach((select) => select.addEventListener("change", () => point(tools, Number(selects[0].value), Number(selects[1].value))));
  const open = element("button", { type: "button", text: "Open this cell's run", onclick: () => openCell(tools) });
  const play = element("button", { type: "button", text: "Play the training", onclick: () => {
    stopPlaying();
    stopPlaying = play(["map.at", TIMES], change, 0.2);
  } });
  const list = pinList({
    label: "Pin this cell", plural: "cells", most: description.most_cells, colourOf: (place) => place, buttons: [open],
    onPin: () => pin(tools),
    onRemove: (place) => change("map.pinned", cellTexts(state.of("map").pinned).filter((_, other) => other !== place).join(";")),
  }, description);
  const rows = selects.map((select, i) => element("div", { class: "heading" }, labels[i], select));
  const node = element("div", { class: "control choice cell" }, play, ...rows, ...list.nodes);
  let shown = "";
  function show(values) {
    const key = `${values.across} ${values.down}`;
    if (key !== shown) {
      shown = key;
      ["across", "down"].forEach((axis, i) => {
        labels[i].textContent = `cell: ${values[axis]}`;
        selects[i].replaceChildren(...description.axes[values[axis]].values.map((value, place) => element("option", { value: place, text: short(value) })));
      });
    }
    const { column, row } = placeOf(values, chosenCell(values, description), description);
    [selects[0].value, selects[1].value] = [column, row];
    const cells = cellTexts(values.pinned);
    list.show(cells.map((cell) => cell.replace(",", ", ")), cells.includes(values.cell));
  }
  return { node, show };
}

function openCell({ state, change, description, open }) {
  const values = state.of("map");
  const { panel, settings } = cellRun(values, chosenCell(values, description), description);
  open(panel);
  for (const [name, value] of Object.entries(settings)) change(`${panel}.${name}`, value);
}

export default {
  id: "map",
  title: "Map",
  question: "Which group size, and which gamma?",
  note: "Each cell is a run of its own over several seeds; cells without a number show their nearest neighbour until they are simulated. Interfering " +
    "prompts are 32, all in each step; the hard ones start at a solve rate of 0.01. Point at a cell, or move by arrow keys, to see its training; a click or Enter pins it.",
  symbols: ["M<sub>ret</sub>", "Q<sub>pos</sub>", "pass@k", "G", "γ"],
  compute,
  extra,
  hover: (at, tools) => { if (at.data.type === "heatmap") point(tools, at.x, at.y); },
  click: (at, tools) => { if (at.data.type === "heatmap") { point(tools, at.x, at.y); pin(tools); } },
  keys: (key, tools) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
    const values = tools.state.of("map");
    const { column, row } = placeOf(values, chosenCell(values, tools.description), tools.description);
    if (move) point(tools, column + move[0], row + move[1]);
    if (key === "Enter") pin(tools);
    return Boolean(move) || key === "Enter";
  },
  // What the runs have no use for, or an axis has.
  isIdle: (setting, { problem, across, down, length }, { mapped, axes: known, controls }) =>
    setting === (length === "equal steps" ? "rollouts" : "steps") || [across, down].some((axis) => axis !== "gamma" && known[axis].setting === setting) ||
    (["actions", "correct", "hard_share"].includes(setting) && !controlsOf(mapped[problem], controls).has(setting)),
  shape: ({ problem }) => problem,
  shaped: (setting, control, values, description) => {
    if (setting === "quantity") return { ...control, choices: Object.keys(metricsOf(values, description)) };
    if (setting !== "rollouts") return control;
    const [low, high] = rolloutsOf({ ...values, across: "group size" }, description);
    return { ...control, low, high };
  },
  shownAs: (values, description) => ({ ...values, quantity: metricOf(values, description)[2] }),
  locked: (setting) => !["quantity", "at", "rollouts"].includes(setting),
  simulated: { runs, order, join: joined, every: REDRAWN, seeds: (values) => values.seeds },
};
