// The command that computes the same map: a sweep that lists the values of both axes.

import { cellRun } from "./map.js";
import { commandWeight } from "./weight_text.js";

// The sweep whose cells are those of a map; `cell` is one of them.
export function mapCommand(values, cell, description) {
  const { panel, settings } = cellRun(values, cell, description);
  const lists = Object.fromEntries([values.across, values.down].map((axis) => [axis, description.axes[axis].values.join(",")]));
  const { name, parameters } = commandWeight(settings.weight, description.estimators);
  const own = Object.entries(parameters).filter(([key]) => !(key === "gamma" && lists.gamma)).map(([key, value]) => `--param ${key}=${value}`);
  const list = (axis, setting) => lists[axis] ?? settings[setting];
  const problem = panel === "run" ? "anchored" : "interference";
  const ofProblem = panel === "run"
    ? [`--param actions=${list("actions", "actions")}`, `--param correct=${correctCounts(settings, lists, description)}`,
      `--param lag=${list("lag", "lag")}`, `--param false_positive=${list("false positives", "false_positive")}`,
      `--param epochs=${list("epochs", "epochs")}`]
    : [`--param overlap=${list("overlap", "overlap")}`, `--param conflict=${list("conflict", "conflict")}`,
      `--param hard_rate=${list("hard rate", "hard_rate")}`];
  return [`simlab sweep --problem ${problem} --estimator ${name} --surrogate reinforce --optimizer ${settings.optimizer}`,
    `--group-size ${list("group size", "group_size")} --steps ${settings.steps} --record-every ${Math.max(Math.round(settings.steps / 50), 1)}`,
    `--seeds ${settings.seed + values.seeds} --param learning_rate=${list("learning rate", "learning_rate")}`,
    ...(lists.gamma ? [`--param gamma=${lists.gamma}`] : []), ...own, ...ofProblem].join(" ");
}

// The numbers of correct actions; a sweep lists counts, and not shares.
function correctCounts(settings, lists, description) {
  const shares = lists["correct share"] ? description.axes["correct share"].values : [settings.correct];
  return shares.map((share) => Math.min(Math.max(Math.round(share * settings.actions), 2), settings.actions - 1)).join(",");
}
