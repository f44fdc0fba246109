// The cells of a map: what run each cell is, and which cell's turn it is.

import { controlsOf } from "./pins.js";
import { readWeight, writeWeight } from "./weight_text.js";

// The weight with a gamma: its own parameter, or the focal weight on it; throws where neither can be.
export function withGamma(text, gamma, estimators) {
  const { name, parameters } = readWeight(text, estimators);
  if (Object.hasOwn(estimators[name].parameters, "g")) return writeWeight({ name, parameters: { g: gamma } });
  if (Object.hasOwn(estimators[name].parameters, "gamma")) return writeWeight({ name, parameters: { ...parameters, gamma } });
  const bases = estimators.f_grpo.parameters.base.choices;
  if (!bases.includes(name) || Object.keys(parameters).length) {
    throw new Error(`the focal weight goes on no ${text}; allowed with gamma on an axis: ${bases.join(", ")}, or an estimator ` +
      "that has a gamma of its own");
  }
  return writeWeight({ name: "f_grpo", parameters: { gamma, base: name } });
}

// What is wrong with the axes of a map; "" if nothing is.
export function wrongAxes({ problem, across, down }, description) {
  if (across === down) return `across and down are both ${across}; allowed: two axes that differ`;
  const own = controlsOf(description.mapped[problem], description.controls);
  const missing = [across, down].find((axis) => !own.has(description.axes[axis].setting));
  return missing ? `${problem} have no ${missing}; allowed: ${Object.keys(description.axes).filter((axis) => own.has(description.axes[axis].setting)).join(", ")}` : "";
}

// The run of a cell: {panel, settings}. What the map has no control for is as the panel of the runs has it at first.
export function cellRun(values, [x, y], description) {
  const panel = description.mapped[values.problem];
  const own = controlsOf(panel, description.controls);
  const settings = Object.fromEntries(description.simulated[panel].map((name) =>
    [name, Object.hasOwn(values, name) ? values[name] : own.get(name).default]));
  for (const [axis, value] of [[values.across, x], [values.down, y]]) {
    const { setting } = description.axes[axis];
    settings[setting] = axis === "gamma" ? withGamma(settings.weight, value, description.estimators) : value;
  }
  return { panel, settings };
}

// All cells of a map, row by row: {x, y, column, row, coarse}.
export function cellsOf({ across, down }, description) {
  const [xs, ys] = [across, down].map((axis) => description.axes[axis].values);
  return ys.flatMap((y, row) => xs.map((x, column) => ({ x, y, column, row, coarse: column % 2 === 0 && row % 2 === 0 })));
}

// The cell whose turn it is, by the seeds of each: first the coarse map, then all cells, then more seeds; among equals the
// one nearest the pointer. -1 if all have enough.
export function nextCell(cells, counts, seeds, { column, row }) {
  let [best, rank] = [-1, [Infinity, Infinity]];
  cells.forEach((cell, i) => {
    if (counts[i] >= seeds) return;
    const stage = counts[i] === 0 ? (cell.coarse ? -1 : 0) : counts[i];
    const distance = Math.hypot(cell.column - column, cell.row - row);
    if (stage < rank[0] || (stage === rank[0] && distance < rank[1])) [best, rank] = [i, [stage, distance]];
  });
  return best;
}

// Of each cell the nearest one that has something to show, itself first; null where none has.
export function nearestKnown(cells, known) {
  const having = cells.filter((_, i) => known[i]);
  return cells.map((cell, i) => {
    if (known[i]) return i;
    let [found, least] = [null, Infinity];
    for (const other of having) {
      const distance = Math.hypot(cell.column - other.column, cell.row - other.row);
      if (distance < least) [found, least] = [cells.indexOf(other), distance];
    }
    return found;
  });
}
