// The panel of interference: pass@k against pass@1 of two weights while prompts that share features are trained, and the map of many runs.

import { crossing, interpolate, placeOfLeast, placeOn } from "./closed_forms.js";
import { atEqualMass, joined, LEVELS, pairable, summary } from "./compare.js";
import { heat, placeColours, places, SHARES } from "./look.js";
import { distance } from "./reader.js";
import { controlsOf, promptsOf, readWeight, runOf, sweepCommand } from "./settings.js";
import { escaped, short, signed } from "./text.js";
import { tableOf } from "./tools.js";

// The learning rate comes after what sets it.
const OF_A_CELL = ["weight", "representation", "optimizer", "overlap", "conflict", "group_size", "hard_rate", "hard_share", "temperature",
  "learning_rate"];
const ERRORS = 2; // by which pass@k is below the base model's where a cell of the map says so
const [OVER_K, OF_MAP] = [1, 2]; // the panels after that of the paths
const KS = [1, 4, 16, 64, 256, 1024, 4096]; // with a tick
const IN_ADVANCE = 2; // the dash of what is not simulated yet

// A number to two significant digits, without an exponent.
const twoDigits = (number) => (number === null ? "" : String(Number(number.toPrecision(2))));

const both = (values) => [values.weight, values.second].map((weight) => ({ ...values, weight }));
const runs = (values, description) => both(values).map((run) => runOf("interference", run, description));

// Paths: of simulated runs, and of the table that was computed in advance. A path reads pass@k `at(k, levels)` of pass@1,
// {mean, half}, and mean `steps(levels)`; `base(k)` is the base model's.

const THOUSAND = 1000; // in which the table counts

// The mean where every seed has a value: that of the fast seeds alone would be another path.
const ofEverySeed = (values) => summary(values.map((row) => row.map((value, i) => (values.every((other) => other[i] !== null) ? value : null))));

function pathOfRun({ k, step, seeds, metrics }) {
  const of = (one) => metrics[`pass_at_${one}`].values;
  const at = (values, levels) => ofEverySeed(atEqualMass(of(1), values, levels));
  const base = (one) => of(one)[0][0];
  return { ks: k, seeds, base, levels: [base(1), ...LEVELS.filter((level) => level > base(1))],
    at: (one, levels) => at(of(one), levels),
    steps: (levels) => at(of(1).map(() => step), levels).mean };
}

// The cell of the table that is nearest to a weight and to the other settings; null where no weight has this name.
function nearestCell(values, text, { paths: table, estimators }) {
  const { name, parameters } = readWeight(text, estimators);
  const place = placeOfLeast(table.weights, (weight) => {
    const other = readWeight(weight, estimators);
    return other.name === name ? distance(estimators[name].parameters, parameters, other.parameters) : Infinity;
  });
  if (readWeight(table.weights[place], estimators).name !== name) return null;
  const [size, rate] = ["group_size", "hard_rate"].map((key) => placeOfLeast(table[key], (one) => Math.abs(Math.log(one / values[key]))));
  const { representation, optimizer } = values;
  return {
    settings: { weight: table.weights[place], representation, optimizer, group_size: table.group_size[size],
      hard_rate: table.hard_rate[rate], ...table.shared, learning_rate: table.rates[representation][optimizer] },
    path: pathOfCell(table, table.base[rate], table.paths[representation][optimizer][size][rate][place]),
  };
}

function pathOfCell({ levels: known, k, seeds }, base, { step, mean, half }) {
  const at = (list, levels, unit = 1) => levels.map((level) => {
    const place = placeOn(known.slice(0, list.length), level);
    return place === null || list[Math.floor(place)] === null ? null : interpolate(list, place) / unit;
  });
  const lists = (one) => (one === 1 ? [known.map((level) => THOUSAND * level), known.map(() => 0)]
    : [mean, half].map((all) => all[k.indexOf(one) - 1]));
  return { ks: k, seeds, base: (one) => base[k.indexOf(one)], levels: known,
    at: (one, levels) => {
      const [means, halves] = lists(one).map((list) => at(list, levels, THOUSAND));
      return { mean: means, half: halves };
    },
    steps: (levels) => at(step, levels) };
}

// The panel

// The two weights, {name, colour, path, settings}: simulated, or else the nearest cell of the table with its settings, or else without a path.
function weightsOf(values, description, results) {
  const fresh = results.runs === JSON.stringify(runs(values, description)) ? results : [];
  return both(values).map(({ weight: name }, colour) => ({ name, colour, ...(pairable([fresh[colour]])
    ? { path: pathOfRun(fresh[colour]) } : nearestCell(values, name, description)) }));
}

function pathTraces({ name, colour, path, settings }, values, look) {
  const shared = { colour, width: 2.4, dash: settings ? IN_ADVANCE : 0 };
  const k = Number(values.k);
  const { mean, half } = path.at(k, path.levels);
  const curve = path.ks.map((one) => path.at(one, [values.level]).mean[0]);
  const how = `${name}, ${settings ? "in advance, " : ""}mean of ${path.seeds} seeds`;
  return [
    ...look.meanLines(name, path.levels, mean, half, { ...shared, high: 1, csv: `pass@${k} against pass@1: ${how}` }),
    look.marker([values.level], [curve[path.ks.indexOf(k)]], { colour }),
    look.line(name, path.ks, curve, { ...shared, panel: OVER_K, showlegend: false, hovertemplate: "k = %{x}: %{y:.4f}",
      csv: `pass@k where pass@1 reaches ${short(values.level)}: ${how}` }),
  ];
}

function baseTraces({ ks, base }, values, ends, look) {
  const line = (x, y, options) => look.line("base model", x, y, { colour: look.ink.text, dash: 1, width: 1.6, ...options });
  return [
    line(ends, ends.map(() => base(Number(values.k))), { hovertemplate: "%{y:.4f}", csv: `pass@${values.k} of the base model` }),
    line(ks, ks.map(base), { panel: OVER_K, showlegend: false, hovertemplate: "k = %{x}: %{y:.4f}", csv: "pass@k of the base model" }),
  ];
}

// The ranges of both axes of the paths, rounded, so that they seldom change while paths come in.
function rangesOf(weights, values) {
  const tenth = (round, number) => round(10 * number) / 10;
  const points = weights.flatMap(({ path }) => {
    const { mean } = path.at(Number(values.k), path.levels);
    return path.levels.map((level, i) => [level, mean[i]]).filter(([, y]) => y !== null);
  });
  const [x, y] = [0, 1].map((axis) => [0.5, ...points.map((point) => point[axis])]);
  return { x: [0.1, tenth(Math.ceil, Math.max(...x) + 0.01)], y: [tenth(Math.floor, Math.min(...y)), SHARES[1]] };
}

function mapTraces(all, one, values, look) {
  const largest = Math.max(...Object.values(all.maps).flatMap(({ mean }) => mean.flat().map(Math.abs)));
  const below = (row, column) => one.mean[row][column] !== null && one.mean[row][column] < -ERRORS * one.error[row][column];
  const cells = heat("map", one.mean, OF_MAP, look, {
    zmin: -largest, zmax: largest, xgap: 1, ygap: 1, hoverongaps: true,
    colorscale: look.signed,
    text: one.mean.map((row, i) => row.map((_, j) => (below(i, j) ? twoDigits(one.crossing[i][j]) : ""))),
    texttemplate: "%{text}", textfont: { size: 11 },
    customdata: one.mean.map((row, i) => row.map((_, j) => cellInWords(all, one, i, j))),
    colorbar: { title: { text: "gain", font: { size: 11 } }, thickness: 9, len: 1, tickfont: { size: 10 }, outlinewidth: 0,
      tickvals: [-0.4, -0.2, 0, 0.2, 0.4].filter((tick) => Math.abs(tick) <= largest) },
  });
  const [x, y] = [[], []];
  (one.threshold || []).forEach((pair, row) => pair.forEach((place) => {
    const at = place === null ? null : placeOn(all.overlap, place);
    if (at !== null) {
      x.push(at, at, null);
      y.push(row - 0.5, row + 0.5, null);
    }
  }));
  const quiet = { hoverinfo: "skip", showlegend: false, hovertemplate: undefined, meta: "map" };
  const traces = [cells, look.line("edge by theory", x, y, { panel: OF_MAP, colour: look.ink.text, width: 3, ...quiet })];
  const here = [placeOn(all.overlap, values.overlap), placeOn(one.values, values[one.setting])];
  const isSeen = here.every((at) => at !== null) && values.optimizer === one.settings.optimizer && values.representation !== "network";
  traces.push(look.marker(isSeen ? [here[0]] : [], isSeen ? [here[1]] : [], { panel: OF_MAP, meta: "map",
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
  return {
    title: `map: pass@${all.k} less the base model's`,
    x: { title: "overlap of features", ...places(all.overlap), tickangle: narrow ? -60 : 0, tickfont: { size: 10.5 } },
    y: { title: one.label, ...places(one.values) },
  };
}

function compute({ values, description, look, results }) {
  const all = description.interference;
  const one = all.maps[values.map];
  const weights = weightsOf(values, description, results);
  const known = weights.filter(({ path }) => path);
  const ranges = rangesOf(known, values);
  const paths = known.flatMap((weight) => pathTraces(weight, values, look));
  const base = known.length ? baseTraces(known[0].path, values, ranges.x, look) : [];
  const layout = look.layout([
    { title: `paths: pass@${values.k} at equal pass@1`, x: { title: "pass@1", range: ranges.x }, y: { title: "", range: ranges.y } },
    { title: `pass@k where pass@1 = ${short(values.level)}`, y: { title: "", range: SHARES },
      x: { title: "samples k", type: "log", range: [0, Math.log10(KS.at(-1))], tickvals: KS, ticktext: KS.map(String) } },
    mapPanel(all, one, look.narrow),
  ], { columns: 2 });
  layout.xaxis3.domain = [look.narrow ? 0 : 0.05, 0.88];
  layout.hovermode = "closest";
  // Cells that hold nothing show this ground.
  layout.shapes = [{ type: "rect", xref: "x3 domain", yref: "y3 domain", x0: 0, x1: 1, y0: 0, y1: 1,
    fillcolor: look.ink.grid, line: { width: 0 }, layer: "below" }];
  const map = mapTraces(all, one, values, look);
  placeColours(map[0], layout);
  return { traces: [look.hair(values.level), ...base, ...paths, ...map], layout, readout: readout(values, description, weights, results), command: both(values).map((run) => command(run, description)).join(" && "), notes: [],
    table: tableWithMap([...base, ...paths], all, one) };
}

function tableWithMap(lines, all, one) {
  const { columns, rows } = tableOf(lines);
  const cells = one.values.flatMap((value, row) => all.overlap.map((overlap, column) =>
    [`map: pass@${all.k} less the base model's, ${one.label} = ${value}`, overlap, one.mean[row][column]]));
  return { columns, rows: [...rows, ...cells] };
}

function crossingInWords(k, base, curve) {
  const from = crossing(k, curve.map((value, i) => value - base[i]));
  if (from !== null) return `below the base model's from <b>k = ${twoDigits(from)}</b> on`;
  return curve.every((value, i) => value < base[i]) ? "below the base model's at <b>every k</b>" : "<b>nowhere below</b> the base model's";
}

function readout(values, description, weights, results) {
  const k = Number(values.k);
  const where = `pass@1 = ${short(values.level)}`;
  const of = ({ name, path, settings }) => {
    if (!path) return `${escaped(name)} is not in the table.`;
    const [{ mean, half }, [step]] = [path.at(k, [values.level]), path.steps([values.level])];
    if (mean[0] === null) return `${escaped(name)} does not come to ${where} with all seeds.`;
    const curve = path.ks.map((one) => path.at(one, [values.level]).mean[0]);
    // The table has few k, too far apart for a crossing.
    return `${escaped(name)}: <b>${short(mean[0], 3)}</b> ± ${short(half[0], 1)} after ${Math.round(step)} steps` +
      `${settings ? "" : `, pass@k ${crossingInWords(path.ks, path.ks.map(path.base), curve)}`}.`;
  };
  const [first] = weights.filter(({ path }) => path);
  const base = first ? `pass@${k} where ${where} (base model ${short(first.path.base(k), 3)}). ` : "";
  const { edge } = results[0] ?? {};
  return `${base}${weights.map(of).join(" ")} ${tableInWords(weights, description)}${edge === undefined ? "" : edgeInWords(edge)}`;
}

// The cells of the table that are drawn, for their settings may be others than those of the sliders.
function tableInWords(weights, { controls, paths }) {
  const cells = weights.filter(({ settings }) => settings);
  if (!cells.length) return "";
  const labels = controlsOf("interference", controls);
  const { weight, ...shared } = cells[0].settings;
  const words = Object.entries(shared).map(([name, value]) => `${labels.get(name).label} ${value}`);
  return `Dotted: computed in advance with ${paths.seeds} seeds, ${cells.map(({ settings }) => escaped(settings.weight)).join(" and ")}; ${words.join(", ")}. `;
}

function edgeInWords(edge) {
  if (edge === null) return "First-order theory has no edge for this optimiser or estimator.";
  const overlaps = edge.filter((place) => place !== null && Math.abs(place) <= 1).map((place) => `<b>${short(place, 3)}</b>`);
  if (!overlaps.length) return "By first-order theory the first step harms no hard prompt at any overlap.";
  return `By first-order theory the first step harms hard prompts beyond an overlap of ${overlaps.join(" and ")}.`;
}

function command(values, description) {
  const options = [`--pass-at-k ${Array.from({ length: 13 }, (_, power) => 2 ** power).join(",")}`];
  return sweepCommand(values.representation === "network" ? "network" : "interference", values, description,
    { records: 80, options, parameters: { ...promptsOf(values), "run.temperature": values.temperature } });
}

function setTo({ state, change, description }, row, column) {
  const all = description.interference;
  const one = all.maps[state.values["interference.map"]];
  const cell = { ...one.settings, overlap: all.overlap[column], [one.setting]: one.values[row] };
  for (const setting of OF_A_CELL) {
    const name = `interference.${setting}`;
    change(name, cell[setting] ?? state.controls.get(name).default);
  }
}

export default {
  id: "interference",
  title: "Interference",
  question: "When does a weight matter at equal pass@1, and where does pass@k fall below the base model's?",
  note: "Easy prompts (solve rate 0.3) that one answer solves, and hard ones, half of 32 unless you say so, for which that answer is wrong, where they " +
    "are in conflict; one linear head for all, or a network of 64 tanh units. A path begins at the base model; weights on one path differ " +
    "in speed alone. The map holds 16 seeds a cell of linear heads, read where pass@1 reaches 0.4; a number is the k " +
    "from which on pass@k is below the base model's, grey says that not all runs reach the level, and the thick line is the " +
    "edge of first-order theory. The square shows where the sliders of both axes stand. A click on a cell sets all sliders to it.",
  symbols: ["pass@k", "k", "G"],
  compute,
  click: ({ data, x, y }, tools) => { if (data.type === "heatmap") setTo(tools, y, x); },
  locked: (setting) => ["hard_share", "overlap", "conflict", "temperature", "learning_rate", "steps", "seeds", "seed"].includes(setting),
  simulated: { runs, join: joined, seeds: (values) => values.seeds, inAdvance: ({ paths }) => paths.seeds },
};
