// Masses of estimators that have no closed form: the server has the estimator compute them, group by group.

import { writeWeight } from "./weight_text.js";

export const isTabled = ({ name }, estimators) => Boolean(estimators[name].tabled);

// What to ask the server: the tables of those of some weights that need one, in groups of a size.
export function tableQuestions(weights, size, estimators) {
  return weights.filter((weight) => isTabled(weight, estimators)).map((weight) => ({ weight: writeWeight(weight), group_size: size }));
}

// {success, failure} at 0 to G successes, out of the answers to such questions; null while it has not come.
export function tableOf(weight, size, slices) {
  if (!slices) return null;
  const text = JSON.stringify({ weight: writeWeight(weight), group_size: size });
  const place = JSON.parse(slices.asked).findIndex((question) => JSON.stringify(question) === text);
  return place < 0 ? null : slices[place];
}
