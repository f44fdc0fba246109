// The cells of a map: what run each cell is, which cell's turn it is, and the sweep that computes the same map.

import { least } from "./closed_forms.js";
import { controlsOf, correctOf, promptsOf, readWeight, sweepCommand, writeWeight } from "./settings.js";

// The weight with a gamma: its own parameter, or the focal weight on it; throws where neither can be.
export function withGamma(text, gamma, estimators) {
  const { name, parameters } = readWeight(text, estimators);
  const own = ["g", "gamma"].find((key) => Object.hasOwn(estimators[name].parameters, key));
  if (own) return writeWeight({ name, parameters: { ...parameters, [own]: gamma } });
  const bases = estimators.f_grpo.parameters.base.choices;
  if (!bases.includes(name) || Object.keys(parameters).length) {
    throw new Error(`the focal weight goes on no ${text}; allowed with gamma on an axis: ${bases.join(", ")}, or an estimator ` +
      "that has a gamma of its own");
  }
  return writeWeight({ name: "f_grpo", parameters: { gamma, base: name } });
}

export function wrongAxes({ problem, across, down }, description) {
  const [one, other] = [across, down].map((axis) => description.axes[axis].setting);
  if (one === other) return `across and down are both ${across}; allowed: two axes that differ`;
  const own = controlsOf(description.mapped[problem], description.controls);
  const isKnown = (axis) => own.has(description.axes[axis].setting);
  const missing = [across, down].find((axis) => !isKnown(axis));
  return missing ? `${problem} have no ${missing}; allowed: ${Object.keys(description.axes).filter(isKnown).join(", ")}` : "";
}

export const atEqualRollouts = ({ length }) => length === "equal rollouts";

// The rollouts that a map can spend, [low, high]: a step of its largest groups, and the most steps of its smallest.
export function rolloutsOf({ problem, across, down, group_size: size }, { mapped, prompts, axes, controls }) {
  const panel = mapped[problem];
  const sizes = [across, down].includes("group size") ? axes["group size"].values : [size];
  return [prompts[panel] * Math.max(...sizes), prompts[panel] * Math.min(...sizes) * controlsOf(panel, controls).get("steps").high];
}

// The rollouts that the runs of a map draw, of which those up to the slider are read, so that a drag asks for few runs.
export function drawnRollouts(values, description) {
  return Math.min(16 ** Math.ceil(Math.log2(values.rollouts) / 4), rolloutsOf(values, description)[1]);
}

// The run of a cell: {panel, settings}. Settings that the map has no control for are at the defaults of the run's panel.
export function cellRun(values, [x, y], description) {
  const panel = description.mapped[values.problem];
  const own = controlsOf(panel, description.controls);
  const settings = Object.fromEntries(description.simulated[panel].map((name) =>
    [name, Object.hasOwn(values, name) ? values[name] : own.get(name).default]));
  for (const [axis, value] of [[values.across, x], [values.down, y]]) {
    const { setting } = description.axes[axis];
    settings[setting] = axis === "gamma" ? withGamma(settings.weight, value, description.estimators) : value;
  }
  if (atEqualRollouts(values)) settings.steps = Math.floor(drawnRollouts(values, description) / description.prompts[panel] / settings.group_size);
  return { panel, settings };
}

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

// For each cell the index of the nearest one with a result, itself first; null where none has.
export function nearestKnown(cells, results) {
  const known = cells.map((cell, i) => ({ ...cell, i })).filter((_, i) => results[i]);
  const nearest = (cell) => least(known, (other) => Math.hypot(cell.column - other.column, cell.row - other.row)).i;
  return cells.map((cell) => (known.length ? nearest(cell) : null));
}

export function mapCommand(values, cell, description) {
  const { panel, settings } = cellRun(values, cell, description);
  const lists = Object.fromEntries([values.across, values.down].map((axis) => [description.axes[axis].setting, description.axes[axis].values]));
  const { weight: gammas, correct = [settings.correct], ...others } = lists;
  const all = { ...settings, seeds: values.seeds, ...(atEqualRollouts(values) ? { rollouts: values.rollouts } : {}), ...Object.fromEntries(Object.entries(others).map(([name, list]) => [name, list.join(",")])) };
  const counts = correct.map((share) => correctOf(share, settings.actions)).join(",");
  const ofProblem = panel === "run"
    ? { "problem.actions": all.actions, "problem.correct": counts, lag: all.lag, false_positive: all.false_positive, epochs: all.epochs }
    : promptsOf(all);
  return sweepCommand(panel === "run" ? "anchored" : "interference", all, description,
    { records: 50, parameters: { ...(gammas ? { "estimator.gamma": gammas.join(",") } : {}), ...ofProblem } });
}
