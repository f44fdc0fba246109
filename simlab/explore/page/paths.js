// Paths of training, pass@k against pass@1: of simulated runs, and of the table that was computed in advance. A path reads
// pass@k `at(k, levels)` of pass@1, {mean, half}, and mean `steps(levels)`; `base(k)` is the base model's.

import { interpolate, placeOfLeast, placeOn } from "./closed_forms.js";
import { atEqualMass, LEVELS, summary } from "./compare.js";
import { apart } from "./reader.js";
import { readWeight } from "./settings.js";

const THOUSAND = 1000; // in which the table counts

// The mean where every seed has a value: that of the fast seeds alone would be another path.
const ofEverySeed = (values) => summary(values.map((row) => row.map((value, i) => (values.every((other) => other[i] !== null) ? value : null))));

export function pathOfRun({ k, step, seeds, metrics }) {
  const of = (one) => metrics[`pass_at_${one}`].values;
  const at = (values, levels) => ofEverySeed(atEqualMass(of(1), values, levels));
  const base = (one) => of(one)[0][0];
  return { ks: k, seeds, base, levels: [base(1), ...LEVELS.filter((level) => level > base(1))],
    at: (one, levels) => at(of(one), levels),
    steps: (levels) => at(of(1).map(() => step), levels).mean };
}

// The cell of the table that is nearest to a weight and to the other settings; null where no weight has this name.
export function nearestCell(values, text, { paths: table, estimators }) {
  const { name, parameters } = readWeight(text, estimators);
  const known = Object.entries(estimators[name].parameters);
  const place = placeOfLeast(table.weights, (weight) => {
    const other = readWeight(weight, estimators);
    return other.name === name ? known.reduce((sum, [key, one]) =>
      sum + apart(one, parameters[key] ?? one.default, other.parameters[key] ?? one.default), 0) : Infinity;
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
