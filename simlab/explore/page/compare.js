// Runs compared seed by seed: their differences, and both where each seed first reaches a correct mass.
// Runs hold values (seeds, records) of each metric; a mean comes with the half-width of its 95 % band.

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

// The steps of a run's records, for each of its seeds.
export function stepsOf(result) {
  return (result.metrics.q_pos.values ?? []).map(() => result.step);
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
