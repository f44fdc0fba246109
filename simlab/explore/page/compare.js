// Runs of several seeds: blocks of seeds joined, bands, and runs compared seed by seed, at equal steps or where each seed
// first reaches a correct mass. Runs hold values (seeds, records) of each metric.

export const EQUAL_MASS = "at equal correct mass";
export const DIFFERENCE = "difference";
export const LEVELS = Array.from({ length: 51 }, (_, i) => i / 50); // of correct mass, at which runs are read

export function joined(old, fresh) {
  const seeds = old.seeds + fresh.seeds;
  return { ...fresh, seeds, metrics: joinedMetrics(old.metrics, fresh.metrics, old.seeds, fresh.seeds) };
}

// Means and sums of squares of each metric, of n seeds and of m, as those of both.
export function joinedMetrics(old, fresh, n, m) {
  const metrics = {};
  for (const [name, { mean, m2, values }] of Object.entries(fresh)) {
    const before = old[name];
    metrics[name] = {
      values: [...before.values, ...values],
      mean: mean.map((value, i) => (value === null ? null : before.mean[i] + ((value - before.mean[i]) * m) / (n + m))),
      m2: m2.map((value, i) => (value === null ? null : before.m2[i] + value + ((mean[i] - before.mean[i]) ** 2 * n * m) / (n + m))),
    };
  }
  return metrics;
}

// The half-width of Student's 95 % interval of a mean of n seeds, from the sum of squares around it. From five seeds on, its
// quantile is the expansion of Cornish and Fisher, right to .001.
const halfOf = (m2, n) => Math.sqrt(m2 / (n - 1) / n) *
  ([12.7062, 4.3027, 3.1824][n - 2] ?? 1.95996 + 2.37227 / (n - 1) + 2.8225 / (n - 1) ** 2 + 2.5559 / (n - 1) ** 3 + 1.5895 / (n - 1) ** 4);
export const halfWidth = ({ m2 }, seeds) => m2.map((value) => (value === null ? null : halfOf(value, seeds)));

// An end, mean + half, of an interval inside of what can be, up to `high` from 0, as simlab.intervals.within; without `high` as it is.
export const inside = (mean, half, high) => (!high ? mean + half : mean <= 0 || mean >= high ? mean :
  mean / (Math.exp(-half / mean / (1 - mean / high)) * (1 - mean / high) + mean / high));
export const highest = (metric) => (metric === "step" ? null : metric === "entropy" ? Infinity : 1); // that a metric can be

// {mean, half} over seeds of values (seeds, records); null where fewer than two seeds have one.
export function summary(values) {
  const columns = values.length ? values[0].map((_, i) => values.map((row) => row[i]).filter((value) => value !== null)) : [];
  const mean = columns.map((column) => (column.length > 1 ? column.reduce((sum, value) => sum + value, 0) / column.length : null));
  const half = columns.map((column, i) => (mean[i] === null ? null :
    halfOf(column.reduce((sum, value) => sum + (value - mean[i]) ** 2, 0), column.length)));
  return { mean, half };
}

export function differences(values, others) {
  const seeds = Math.min(values.length, others.length);
  return values.slice(0, seeds).map((row, seed) =>
    row.map((value, i) => (value === null || others[seed][i] === null ? null : value - others[seed][i])));
}

// (seeds, levels) values (seeds, records) where masses first reach each level, linear between the records in which the
// mass is higher than ever before; null where a seed starts above a level or does not reach it.
export function atEqualMass(masses, values, levels) {
  return masses.map((mass, seed) => {
    const [higher, own] = [[], []];
    mass.forEach((value, i) => {
      if (value !== null && (!higher.length || value > higher.at(-1))) {
        higher.push(value);
        own.push(values[seed][i]);
      }
    });
    return atSteps(higher, [own], levels)[0].map((value, i) => (levels[i] < higher[0] ? null : value));
  });
}

// Values (seeds, records) at some steps, linear between records; null beyond the last one.
export function atSteps(step, values, steps) {
  return values.map((row) => steps.map((at) => {
    const after = step.findIndex((record) => record >= at);
    if (after < 0) return null;
    if (after === 0 || row[after] === null || row[after - 1] === null) return row[after];
    return row[after - 1] + ((at - step[after - 1]) / (step[after] - step[after - 1])) * (row[after] - row[after - 1]);
  }));
}

// A metric of a run, {x, mean, half}, by a way of comparing; `first` is the run that differences are to, `mass` the metric
// of correct mass. The metric "step" is the step itself.
export function compared(way, metric, result, first, mass = "q_pos") {
  const massOf = (run) => run.metrics[mass].values ?? [];
  const of = (run) => (metric === "step" ? massOf(run).map(() => run.step) : run.metrics[metric].values ?? []);
  if (way === "runs") return { x: result.step, mean: result.metrics[metric].mean, half: halfWidth(result.metrics[metric], result.seeds) };
  if (way === DIFFERENCE) return { x: result.step, ...summary(differences(of(result), atSteps(first.step, of(first), result.step))) };
  const [own, other] = [result, first].map((run) => atEqualMass(massOf(run), of(run), LEVELS));
  return { x: LEVELS, ...summary(way === EQUAL_MASS ? own : differences(own, other)) };
}

// A note where differences are asked for and nothing is pinned.
export const toPin = (way, pinned, what) => (way.startsWith(DIFFERENCE) && !pinned ? [`pin a ${what} to compare with`] : []);

const metricsOf = ({ metrics, methods }) =>
  (methods ? Object.values(methods).map((method) => method.metrics) : [metrics]).flatMap(Object.values);

// True if runs hold the values of their seeds; most that were computed in advance do not.
export const pairable = (runs) => runs.every((run) => run && metricsOf(run).every(({ values }) => values));

// A metric of a run at a record, {mean, half}; at a level of correct mass, if one is given, where each seed first has it.
export function readAt(result, metric, place, level, mass) {
  const { values, mean } = result.metrics[metric];
  if (level === null || !values) return { mean: mean[place], half: halfWidth(result.metrics[metric], result.seeds)[place] };
  return first(summary(atEqualMass(result.metrics[mass].values, values, [level])));
}

// The difference of two runs in a metric, {mean, half}, paired by seed, at a record or at a level as `readAt`.
export function gainAt(result, other, metric, place, level, mass) {
  const read = (run) => (level === null
    ? run.metrics[metric].values.map((row) => [row[Math.min(place, row.length - 1)]])
    : atEqualMass(run.metrics[mass].values, run.metrics[metric].values, [level]));
  return first(summary(differences(read(result), read(other))));
}

const first = ({ mean, half }) => ({ mean: mean[0] ?? null, half: half[0] ?? null });

// A metric of a result by theory, a value for each record; null where theory says nothing of it.
export const theoryOf = (result, metric) =>
  (metric === "tail_miss_rate" ? result.metrics.tail_miss_expected?.mean : result.theory?.[metric]) ?? null;

export const theoryName = (optimizer) => (optimizer === "sgd" ? "theory" : "theory without noise");
