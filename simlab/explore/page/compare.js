// Runs compared seed by seed: their differences, and both where each seed first reaches a correct mass.
// Runs hold values (seeds, records) of each metric; a mean comes with the half-width of its 95 % band.

import { halfWidth } from "./simulate.js";

export const EQUAL_MASS = "at equal correct mass";
export const DIFFERENCE = "difference";
const LEVELS = Array.from({ length: 51 }, (_, i) => i / 50); // of correct mass, at which runs are read

// {mean, half} over seeds of values (seeds, records); null where fewer than two seeds have one.
export function summary(values) {
  const columns = values.length ? values[0].map((_, i) => values.map((row) => row[i]).filter((one) => one !== null)) : [];
  const means = columns.map((column) => (column.length > 1 ? column.reduce((sum, one) => sum + one, 0) / column.length : null));
  const half = columns.map((column, i) => {
    if (means[i] === null) return null;
    const scatter = column.reduce((sum, one) => sum + (one - means[i]) ** 2, 0);
    return 1.96 * Math.sqrt(scatter / (column.length - 1) / column.length);
  });
  return { mean: means, half };
}

// Values less those of another run, for the seeds that both have.
export function differences(values, others) {
  const seeds = Math.min(values.length, others.length);
  return values.slice(0, seeds).map((row, seed) =>
    row.map((one, i) => (one === null || others[seed][i] === null ? null : one - others[seed][i])));
}

// (seeds, levels) what values (seeds, records) are where masses first reach each level, linear between the records in
// which the mass is higher than ever before; null where a seed starts above a level or does not reach it.
export function atEqualMass(masses, values, levels) {
  return masses.map((mass, seed) => {
    const [higher, own] = [[], []];
    mass.forEach((one, i) => {
      if (one !== null && (!higher.length || one > higher.at(-1))) {
        higher.push(one);
        own.push(values[seed][i]);
      }
    });
    return levels.map((level) => {
      const after = higher.findIndex((one) => one >= level);
      if (after < 0 || level < higher[0]) return null;
      if (after === 0) return own[0];
      const share = (level - higher[after - 1]) / (higher[after] - higher[after - 1]);
      return own[after - 1] + share * (own[after] - own[after - 1]);
    });
  });
}

// Those of values (seeds, records) at a step, linear between records; null beyond the last one.
export function atSteps(step, values, wanted) {
  return values.map((row) => wanted.map((at) => {
    const after = step.findIndex((one) => one >= at);
    if (after < 0) return null;
    if (after === 0 || row[after] === null || row[after - 1] === null) return row[after];
    return row[after - 1] + ((at - step[after - 1]) / (step[after] - step[after - 1])) * (row[after] - row[after - 1]);
  }));
}

// What is drawn of a metric of a run, {x, mean, half}, by a way of comparing; `first` is what differences are to, `mass` the metric
// of correct mass. The metric "step" is the step itself.
export function compared(way, metric, result, first, mass = "q_pos") {
  const massOf = (run) => run.metrics[mass].values ?? [];
  const of = (run) => (metric === "step" ? massOf(run).map(() => run.step) : run.metrics[metric].values ?? []);
  if (way === "runs") return { x: result.step, mean: result.metrics[metric].mean, half: halfWidth(result.metrics[metric], result.seeds) };
  if (way === DIFFERENCE) return { x: result.step, ...summary(differences(of(result), atSteps(first.step, of(first), result.step))) };
  const [own, other] = [result, first].map((run) => atEqualMass(massOf(run), of(run), LEVELS));
  return { x: LEVELS, ...summary(way === EQUAL_MASS ? own : differences(own, other)) };
}

// Whether runs hold the values of their seeds, of one set of metrics or of each method's; most of those that were computed in
// advance do not.
export const pairable = (runs) => runs.every((run) => run && metricsOf(run).every(({ values }) => values));

const metricsOf = ({ metrics, methods }) => (methods ? Object.values(methods).map((own) => own.metrics) : [metrics]).flatMap(Object.values);

// A metric of a run at a record, {mean, half}; at a level of correct mass, where one is given, each seed where it first reaches it.
export function readAt(result, metric, place, level, mass) {
  const { values, mean } = result.metrics[metric];
  if (level === null || !values) return { mean: mean[place], half: halfWidth(result.metrics[metric], result.seeds)[place] };
  const found = summary(atEqualMass(result.metrics[mass].values, values, [level]));
  return { mean: found.mean[0] ?? null, half: found.half[0] ?? null };
}

// The difference of two runs in a metric, {mean, half}, paired by seed, at a record or at a level as `readAt`.
export function gainAt(result, other, metric, place, level, mass) {
  const read = (run) => (level === null
    ? run.metrics[metric].values.map((row) => [row[Math.min(place, row.length - 1)]])
    : atEqualMass(run.metrics[mass].values, run.metrics[metric].values, [level]));
  const found = summary(differences(read(result), read(other)));
  return { mean: found.mean[0] ?? null, half: found.half[0] ?? null };
}
