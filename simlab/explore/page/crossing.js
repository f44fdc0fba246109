// Where pass@k curves cross, as figures/interference_map.py has it, and where pass@1 reaches a level.

// The k, linear in log k between those given, from which on gains are below 0; null if there is none.
export function crossing(k, gains) {
  const first = gains.findIndex((gain, i) => i > 0 && gain < 0 && gains[i - 1] >= 0) - 1;
  if (first < 0) return null;
  const share = gains[first] / (gains[first] - gains[first + 1]);
  return k[first] * (k[first + 1] / k[first]) ** share;
}

// {step, curve}: where mean pass@1 first reaches a level, linearly between records, and pass@k there; null if it does not.
export function atLevel({ step, k, metrics }, level) {
  const reached = metrics.pass_at_1.mean;
  const after = reached.findIndex((mean) => mean >= level);
  if (after < 0) return null;
  const share = after ? (level - reached[after - 1]) / (reached[after] - reached[after - 1]) : 1;
  const between = (list) => (after ? list[after - 1] + share * (list[after] - list[after - 1]) : list[0]);
  return { step: between(step), curve: k.map((one) => between(metrics[`pass_at_${one}`].mean)) };
}

// Where a value lies among increasing ones, counted from 0 and linear between them; null beyond their ends.
export function placeOn(values, value) {
  const after = values.findIndex((other) => other >= value);
  if (after < 0 || value < values[0]) return null;
  return after ? after - 1 + (value - values[after - 1]) / (values[after] - values[after - 1]) : 0;
}

// A number to two significant digits, without an exponent.
export const twoDigits = (number) => (number === null ? "" : String(Number(number.toPrecision(2))));
