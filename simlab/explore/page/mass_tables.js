// Masses of estimators that have no closed form: the server has the estimator compute them, group by group. A page without a
// server has those of a few group sizes, for all choices, with numbers such as gamma at their defaults.

import { writeWeight } from "./weight_text.js";

export const isTabled = ({ name }, estimators) => Boolean(estimators[name].tabled);

// What to ask the server: the tables of those of some weights that need one, in groups of a size.
export function tableQuestions(weights, size, estimators) {
  return weights.filter((weight) => isTabled(weight, estimators) && !estimators[weight.name].tables)
    .map((weight) => ({ weight: writeWeight(weight), group_size: size }));
}

// {success, failure} at 0 to G successes: of the tables that the page holds, or out of the server's answers; null where there is none.
export function tableOf(weight, size, slices, estimators) {
  if (estimators[weight.name].tables) return heldTable(weight, size, estimators[weight.name]);
  if (!slices) return null;
  const text = JSON.stringify({ weight: writeWeight(weight), group_size: size });
  const place = JSON.parse(slices.asked).findIndex((question) => JSON.stringify(question) === text);
  return place < 0 ? null : slices[place];
}

function heldTable({ parameters: given }, size, { parameters, tables }) {
  const all = Object.entries(parameters).map(([key, own]) => ({ ...own, value: given[key] ?? own.default }));
  const isUsual = all.every(({ choices, value, default: usual }) => choices.length || value === usual);
  const found = isUsual && tables[size]?.[all.filter(({ choices }) => choices.length).map(({ value }) => value).join(" ")];
  return found ? { success: found[0], failure: found[1] } : null;
}

// What is said of weights whose table a page without a server does not hold.
export function missingTables(weights, size, estimators) {
  const held = weights.map((weight) => ({ weight, tables: estimators[weight.name].tables })).filter(({ tables }) => tables);
  return held.filter(({ weight }) => !tableOf(weight, size, null, estimators)).map(({ weight, tables }) =>
    `masses of ${writeWeight(weight)} in groups of ${size} were not computed in advance: simlab explore; allowed: groups of ` +
    `${Object.keys(tables).join(", ")}, the usual numbers, and choices that read one step's rewards alone`);
}
