// The panel of the user's own results: any sweep as curves or as a map, over any of its dimensions, and another beside it.

import { heat, places } from "./look.js";
import { escaped, short } from "./text.js";

const NONE = "none";
const FILES = ["file", "second"]; // the choices that all results share
const SUMMED = ["seed", "bound"]; // a mean with its band, or an estimate with its interval

const numberOf = (choice) => Number(choice.split(":")[0]) - 1;
const text = (label) => (typeof label === "number" ? short(label) : String(label));
const named = (dimension, label) => (typeof label === "number" ? `${dimension} ${short(label)}` : String(label));

function shown(values, { results }) {
  const chosen = [values.file, ...(values.second === NONE ? [] : [values.second])].map(numberOf);
  return chosen.map((file) => ({ file, ...results[file] }));
}

function wrong(values, { name, variables }) {
  const known = variables[values.variable];
  if (!known) return `${name} has no ${values.variable}; allowed: ${Object.keys(variables).join(", ")}`;
  const missing = [values.across, values.lines].find((dimension) => dimension !== NONE && !known.dimensions.includes(dimension));
  if (missing) return `${values.variable} of ${name} has no ${missing}; allowed: ${known.dimensions.join(", ")}`;
  return values.across === values.lines ? `across and lines are both ${values.across}; allowed: two that differ` : "";
}

// The dimensions of a variable in which one place is chosen.
function placed(values, { variables }) {
  return variables[values.variable].dimensions.filter((name) => ![values.across, values.lines, ...SUMMED].includes(name));
}

// The place of the first result's label in a result; the nearest place where it has no such label.
function placeIn(result, name, first, place) {
  const labels = result.dimensions[name];
  const label = first.dimensions[name]?.[place];
  const same = labels.indexOf(label);
  return same >= 0 ? same : Math.min(place, labels.length - 1);
}

function questions(values, description) {
  const all = shown(values, description);
  if (all.some((result) => wrong(values, result))) return [];
  return all.map((result) => ({
    file: result.file, variable: values.variable, across: values.across, lines: values.lines === NONE ? "" : values.lines,
    at: Object.fromEntries(placed(values, result).map((name) => [name, placeIn(result, name, all[0], values[name] ?? 0)])),
  }));
}

function curves(values, result, slice, panel, look) {
  const labels = result.dimensions[values.across];
  const isNumber = labels.every((label) => typeof label === "number");
  const x = isNumber ? labels : labels.map(String);
  const rows = values.lines === NONE ? [result.name] : result.dimensions[values.lines].map((label) => `${values.lines} ${text(label)}`);
  return slice.mean.flatMap((mean, row) => {
    const isLog = values.axes.endsWith("up") || values.axes === "logarithmic";
    const [low, high] = [slice.low, slice.high].map((ends) => ends[row].map((end) => (isLog && end <= 0 ? null : end)));
    const thin = (y, seed) => look.line("", x, y, { panel, colour: row, width: 0.8, opacity: 0.6, showlegend: false, hoverinfo: "skip",
      legendgroup: rows[row], csv: `${result.name}: ${rows[row]}, seed ${text(result.dimensions.seed[seed])}` });
    return [
      ...(slice.each.length ? slice.each[row].map(thin) : [look.band(x, low, high, look.colour(row), panel)]),
      look.line(rows[row], x, mean, { panel, colour: row, dash: Math.floor(row / 8), showlegend: panel === 0, legendgroup: rows[row],
        hovertemplate: "%{y:.5g}", csv: `${result.name}: ${rows[row]}`, ...(isNumber ? {} : { mode: "lines+markers" }) }),
      ...(slice.each.length ? [] : [["lower", low], ["upper", high]]).map(([which, ends]) => ({ ...look.line("", x, ends, { panel }), visible: false,
        csv: `${result.name}: ${rows[row]}, ${which} end of its band` })),
    ];
  });
}

// Numbers of both signs have a colour for each.
function map(values, result, slice, panel, look, numbers) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const range = least < 0 && most > 0 ? { zmin: -Math.max(-least, most), zmax: Math.max(-least, most), colorscale: look.signed } : { zmin: least, zmax: most };
  const [columns, rows] = [values.across, values.lines].map((name) => (result.dimensions[name] || [""]).map((label) => named(name, label)));
  const customdata = rows.map((row) => columns.map((column) => escaped([row, column].filter(Boolean).join(", "))));
  return [heat(result.name, slice.mean, panel, look, { showscale: panel === 0, customdata, hovertemplate: "%{customdata}: %{z:.5g}<extra></extra>", ...range })];
}

function panelOf(values, result) {
  const { description, units } = result.variables[values.variable];
  const y = `${values.variable}${units && units !== "1" ? ` (${units})` : ""}`;
  if (values.view === "map") {
    const rows = values.lines === NONE ? [""] : result.dimensions[values.lines];
    return { title: `${escaped(result.name)}: ${escaped(description)}`, x: { title: values.across, ...places(result.dimensions[values.across]) },
      y: { title: values.lines === NONE ? "" : values.lines, ...places(rows), automargin: true, ...(typeof rows[0] === "string" ? { autorange: "reversed" } : {}) } };
  }
  const isLog = (axis) => values.axes === "logarithmic" || values.axes === `logarithmic ${axis}`;
  const isNumber = result.dimensions[values.across].every((label) => typeof label === "number");
  return { title: `${escaped(result.name)}: ${escaped(description)}`, x: { title: values.across, ...(isLog("across") && isNumber ? { type: "log" } : {}) },
    y: { title: y, ...(isLog("up") ? { type: "log" } : {}) } };
}

function thinnedInWords(all) {
  return all.flatMap(({ name, every }) => Object.entries(every).map(([dimension, step]) => `${name}: one of ${step} places of ${dimension} is shown`));
}

function compute({ values, description, look, answers: slices }) {
  const all = shown(values, description);
  const reason = all.map((result) => wrong(values, result)).find(Boolean);
  const panels = reason ? [{ title: "", x: { title: "" }, y: { title: "" } }] : all.map((result) => panelOf(values, result));
  const layout = look.layout(panels, { height: 480, legend: values.view === "curves" });
  const isReady = !reason && Boolean(slices);
  const numbers = isReady ? slices.flatMap(({ mean }) => mean.flat()).filter((one) => one !== null) : [];
  const drawn = isReady ? all.flatMap((result, panel) => (values.view === "map"
    ? map(values, result, slices[panel], panel, look, numbers) : curves(values, result, slices[panel], panel, look))) : [];
  layout.hovermode = values.view === "map" ? "closest" : "x unified";
  return { traces: drawn.length ? drawn : [look.line("", [0], [null], { showlegend: false })], layout, notes: thinnedInWords(all),
    readout: reason ? escaped(reason) : isReady ? readout(values, all, slices) : "", command: command(values, all[0]) };
}

function readout(values, all, slices) {
  return all.map((result, i) => {
    const { mean, low, high, seeds, told, untold } = slices[i];
    const end = mean.map((row, line) => {
      const place = values.view === "map" ? row.indexOf(Math.min(...row.filter((one) => one !== null))) : row.findLastIndex((one) => one !== null);
      if (place < 0) return null;
      return { value: row[place], low: low[line][place], high: high[line][place], name: values.lines === NONE ? "" : named(values.lines, result.dimensions[values.lines][line]) };
    }).filter(Boolean).sort((left, right) => right.value - left.value);
    if (!end.length) return `<b>${escaped(result.name)}</b> holds no number here.`;
    const say = ({ name, value, low: from, high: to }) => `<b>${short(value, 3)}</b>${
      from === null || to === null ? "" : ` [${short(from, 3)}, ${short(to, 3)}]`}${name && ` (${escaped(name)})`}`;
    const [most, least, when] = [end[0], end.at(-1), values.view === "map" ? "lowest in its row" : "at the end"];
    const words = end.length < 2 ? `${when} ${say(most)}` : short(most.value, 3) === short(least.value, 3)
      ? `<b>${short(most.value, 3)}</b> ${when} of all ${end.length} lines` : told && values.view !== "map" ? `highest at the end: ${say(most)}, lowest: ${say(least)}`
        : `${when}: from ${say(least)} to ${say(most)}${untold && values.view !== "map" ? ` (${untold})` : ""}`;
    const where = placed(values, result).map((name) => `${name} ${text(result.dimensions[name][placeIn(result, name, all[0], values[name] ?? 0)])}`);
    return `<b>${escaped(result.name)}</b>: ${words}${seeds && result.variables[values.variable].dimensions.includes("seed") ? `, over ${seeds} seed${seeds > 1 ? "s" : ""}` : ""}${where.length ? `, at ${escaped(where.join(", "))}` : ""}.`;
  }).join(" ");
}

function command(values, { name }) {
  return `python -c "from simlab.explore.results import open_dataset; print(open_dataset('${name}')['${values.variable}'])"`;
}

export default {
  id: "results",
  title: "Your results",
  question: "What do your own results say?",
  note: "A sweep, a training run or a diagnosis: means over seeds with their 95 % bands (below four seeds, the seeds themselves as thin " +
    "lines), or estimates with their intervals. Choose what stands across and what makes lines; all other dimensions are sliders.",
  symbols: ["Q<sub>pos</sub>", "M<sub>ret</sub>", "pass@k"],
  compute,
  // A slider over a dimension that is drawn, averaged over, or none of the variable's.
  isIdle: (setting, values, description) => {
    const all = shown(values, description).filter(({ dimensions }) => Object.hasOwn(dimensions, setting));
    return all.length > 0 && all.every((result) => wrong(values, result) || !placed(values, result).includes(setting));
  },
  // The variables, dimensions and places of the results that are shown; those of others are left out.
  shape: ({ file, second }) => `${file} ${second}`,
  shaped: (setting, control, values, description) => {
    const own = shown(values, description).map(({ controls }) => controls[setting]).find(Boolean);
    return own && { ...control, high: own.high, choices: FILES.includes(setting) ? control.choices : own.choices };
  },
  questions: { path: () => "result", of: questions },
};
