// A bank of prompts of mixed difficulty: the solve rates and pass@k of simlab.problems.prompt_bank.

export const MARGIN = 1e-6; // solve rates are moved into [MARGIN, 1 - MARGIN]

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

// log Gamma(x) for x > 0.
export function logGamma(x) {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const t = x + 6.5;
  const series = LANCZOS.reduce((total, term, i) => (i ? total + term / (x - 1 + i) : term), 0);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(series);
}

// The continued fraction of the incomplete Beta function, by Lentz's method.
function betaFraction(x, a, b) {
  const guard = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / guard(1 - ((a + b) * x) / (a + 1));
  let value = d;
  for (let m = 1; m < 300; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guard(1 + even * d);
    c = guard(1 + even / c);
    value *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guard(1 + odd * d);
    c = guard(1 + odd / c);
    value *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return value;
}

// The probability that Beta(a, b) is at most x = 1 / (1 + e^-t), and its derivative by t, x^a (1 - x)^b / B(a, b).
function below(t, a, b, logBeta) {
  const x = 1 / (1 + Math.exp(-t));
  const y = 1 / (1 + Math.exp(t));
  const front = Math.exp(a * Math.log(x) + b * Math.log(y) - logBeta);
  const value = x < (a + 1) / (a + b + 2) ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(y, b, a)) / b;
  return [value, front];
}

// The quantiles of Beta(a, b) at (i + 1/2) / M, moved into [MARGIN, 1 - MARGIN]: Newton's steps on their log odds,
// or halves of the bracket where these leave it.
export function betaRates(count, a, b) {
  const edge = Math.log1p(-MARGIN) - Math.log(MARGIN);
  const logBeta = logGamma(a) + logGamma(b) - logGamma(a + b);
  const rates = [];
  let t = -edge;
  for (let i = 0; i < count; i += 1) {
    const wanted = (i + 0.5) / count;
    let [low, high] = [t, edge]; // quantiles increase
    for (let turn = 0; turn < 100 && high - low > 1e-13 * Math.max(1, Math.abs(low)); turn += 1) {
      const [value, slope] = below(t, a, b, logBeta);
      if (value < wanted) low = Math.max(low, t);
      else high = Math.min(high, t);
      const next = t + (wanted - value) / slope;
      const inside = next > low && next < high;
      const step = inside ? next - t : (low + high) / 2 - t;
      t += step;
      if (inside && Math.abs(step) < 1e-13 * Math.max(1, Math.abs(t))) break;
    }
    rates.push(Math.min(Math.max(1 / (1 + Math.exp(-t)), MARGIN), 1 - MARGIN));
  }
  return rates;
}

// Half to even, as Python rounds.
function roundToEven(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 ? floor + 1 : floor;
}

// The solve rates of a bank of two Betas, in increasing order.
export function solveRates({ prompts, beta_a, beta_b, second_a, second_b, second_share }) {
  const ofSecond = roundToEven(second_share * prompts);
  const rates = [...betaRates(prompts - ofSecond, beta_a, beta_b), ...betaRates(ofSecond, second_a, second_b)];
  return rates.sort((left, right) => left - right);
}

// The share of a prompt's solve rate that its rare modes have.
export function rareShare({ modes, rare_modes, rare_ratio }) {
  return (rare_modes * rare_ratio) / (modes - rare_modes + rare_modes * rare_ratio);
}

// 1 - (1 - p)^k, with all its digits where p is small.
export function passAtK(p, k) {
  return p >= 1 ? 1 : -Math.expm1(k * Math.log1p(-p));
}

// The mean over prompts.
export function bankPassAtK(rates, k) {
  return rates.reduce((total, rate) => total + passAtK(rate, k), 0) / rates.length;
}
