// m_S and m_F of the named estimators for rewards 0 and 1: the closed forms of simlab.theory.closed_forms.

import { formulaMasses, isFormula } from "./formula.js";

const SLACK = 1e-6;
const MOST_SLACK = 0.25;

const ratio = (numerator, denominator) => (denominator === 0 ? 0 : numerator / denominator);
const balanced = (mass) => [mass, mass];
const clip = (value, low, high) => Math.min(Math.max(value, low), high);

// Groups of one size, Infinity for the population limit, at one solve rate.
class Group {
  constructor(p, size) {
    this.size = size;
    this.p = Number.isFinite(size) ? Math.round(p * size) / size : p;
    this.q = 1 - this.p;
    this.mixed = this.p > 0 && this.p < 1 ? 1 : 0;
  }

  std(ddof) {
    return Math.sqrt(ratio(this.p * this.q, 1 - ddof / this.size));
  }

  // C(F - failures, draws) / C(G - failures - successes, draws), and q^draws for infinite groups.
  allWrong(draws, failures = 0, successes = 0) {
    if (!Number.isFinite(this.size)) return this.q ** draws;
    const wrong = Math.round(this.size * this.q) - failures;
    let share = 1;
    for (let before = 0; before < draws; before += 1) {
      share *= Math.max(wrong - before, 0) / (this.size - failures - successes - before);
    }
    return share;
  }

  atMostAll(k) {
    return k < this.size ? k : Math.trunc(this.size);
  }
}

function grpoMass(g, { ddof, eps }) {
  return ratio(g.p * g.q, g.std(ddof) + eps);
}

// Chen et al.'s advantage of a success; 0 where pass@k is 0 or 1.
function successAdvantage(g, k) {
  const wrong = g.allWrong(g.atMostAll(k));
  return Math.sqrt(ratio(wrong, 1 - wrong));
}

// (e^beta - 1) p q / (1 + p (e^beta - 1)), both sides times e^-beta.
function tilted(g, beta) {
  const rise = -Math.expm1(-beta);
  return ratio(rise * g.p * g.q, Math.exp(-beta) + rise * g.p);
}

// By how much a share may miss a bound that it is meant to meet.
const slack = (g) => Math.min(SLACK, MOST_SLACK / g.size);

function quantile(g, tau) {
  const solved = g.q < Math.max(tau, 1 / g.size) - slack(g);
  return [solved ? 0 : g.p * g.mixed, solved ? g.q * g.mixed : 0];
}

// What the masses of an estimator are, given a group, its parameters, and those of its base.
const FORMS = {
  dr_grpo: (g) => balanced(g.p * g.q),
  gpg: (g) => balanced(g.p * g.q),
  bnpo: (g, { most }) => balanced(Math.min(1, most) * g.p * g.q),
  opo: (g) => balanced(g.p * g.q),
  reinforce_pp: (g, own) => balanced(grpoMass(g, own)),
  reinforce_pp_baseline: (g, own) => balanced(grpoMass(g, own)),
  grpo: (g, own) => balanced(grpoMass(g, own)),
  rloo: (g) => balanced(g.std(1) ** 2),
  skew_r: (g, { ddof }) => balanced(g.p * g.q * g.std(ddof)),
  power_norm: (g, { gamma }) => balanced(ratio(g.p * g.q, (g.p * g.q) ** gamma) * g.mixed),
  maxrl: (g) => balanced(g.p > 0 ? g.q : 0),
  power_alpha: (g, { alpha }) => balanced(g.p * g.q ** alpha),
  easy_power: (g, { alpha }) => balanced(g.p ** alpha * g.q),
  f_grpo: (g, { gamma }, base) => base.map((mass) => mass * g.q ** gamma),
  reject_easy: (g, { threshold }, base) => (g.p <= threshold + slack(g) ? base : [0, 0]),
  hard_focused: (g, own) => balanced(own.gamma * ratio(grpoMass(g, own), Math.sqrt(g.p))),
  easy_focused: (g, own) => balanced(own.gamma * ratio(grpoMass(g, own), Math.sqrt(g.q))),
  t2t: (g, { alpha, ddof, eps }) =>
    balanced(ratio((1 - alpha) * g.p * g.q, (1 - alpha) * g.std(ddof) + eps)),
  cw_grpo: (g, own, base) => base,
  entropy_advantage: (g, own, base) => base,
  advantage_reweighting: (g, own, base) => base,
  aem: (g, own, base) => base,
  pass_at_k_chen: (g, { k }) => balanced(g.p * successAdvantage(g, k)),
  mix: (g, { k }) => balanced(g.p * (g.p * successAdvantage(g, k) + g.q * successAdvantage(g, 1))),
  softmax: (g, { beta }) => balanced(tilted(g, beta) / g.size),
  rs_grpo: (g, { beta }) => balanced(tilted(g, beta) / beta),
  reinforce: (g) => [g.p, 0],
  running_mean: (g, { initial }) => [g.p * (1 - initial), g.q * initial],
  grpo_lead: (g, { penalty, low, high, midpoint, steepness, ddof, eps }) => {
    const logistic = (p) => low + (high - low) / (1 + Math.exp(steepness * (p - midpoint)));
    const mass = ratio((1 + penalty) * g.p * g.q, (1 + penalty) * g.std(ddof) + eps);
    return [logistic(g.p) * mass, logistic(g.q) * mass];
  },
  asym_rl: (g, { delta }) => [g.p * (g.q - delta), g.q * (g.p + delta)],
  quantile: (g, { tau }) => quantile(g, tau),
  mc_grpo: (g, { scale, eps }) => quantile(g, 0.5).map((mass) => ratio(mass, scale === "mad" ? eps : 1)),
  asym_power: (g, own) => [g.p * g.q ** own.alpha_success, g.p ** own.alpha_failure * g.q],
  asym_grpo: (g, { delta }) => [g.p * g.q, (g.p * g.q) / delta],
  positive_dominant: (g, own) => [own.factor * grpoMass(g, own), grpoMass(g, own)],
  negative_dominant: (g, own) => [grpoMass(g, own) / own.factor, grpoMass(g, own)],
  relu: (g) => [g.p * g.q, 0],
  binary_contrastive: (g) => [g.p, g.p < 1 ? g.p : 0],
  psr: (g) => [g.p, 0],
  nsr: (g) => [0, g.q],
  w_reinforce: (g, { success }) => [success * g.p, g.q],
  a_grae: (g, own) => {
    const easy = own.easy_term === "paper" ? Math.sqrt(g.q) : 1 - Math.sqrt(g.p) + 1e-6;
    const mass = grpoMass(g, own) * (Math.sqrt(g.p) / 2 + ratio(g.q, 2 * easy));
    return [mass * Math.min(1, g.p / own.alpha), mass];
  },
  fade: (g, own) => {
    const average = own.beta * 0.5 + (1 - own.beta) * g.p;
    const hardness = average > 0 ? ratio(3 * (1 - average), 2 * average) : own.alpha_max;
    const mass = g.p * g.q ** clip(hardness, 1, own.alpha_max);
    return [mass, mass / Math.min(Math.max(1 - (own.target_entropy || 0), own.delta_min), 1)];
  },
  ha_dw: (g, { scale, initial }, [success, failure]) => {
    const gap = g.p - initial;
    return [
      scale * success * Math.exp(-Math.sign(success) * gap),
      scale * failure * Math.exp(Math.sign(failure) * gap),
    ];
  },
  pass_at_k_tang: (g) => [Math.round(g.p * g.size) === 1 ? 1 / g.size : 0, 0],
  pkpo: (g, own) => {
    const k = g.atMostAll(own.k);
    if (own.baseline === "leave_one_out") return [k * g.p * g.allWrong(k - 1, 0, 1), 0];
    return [k * g.p, -k * g.q * (1 - g.allWrong(k - 1, 1))];
  },
  log_mean_exp: (g, { beta }) => {
    const rise = Math.expm1(beta);
    const others = Math.max(g.size - 1, 1);
    const left = ratio(Math.max(g.p - 1 / g.size, 0), 1 - 1 / g.size);
    const success = Math.log1p((rise * g.q) / others / (1 + rise * left)) / beta;
    const failure = Math.log1p((rise * g.p) / others / (1 + rise * g.p)) / beta;
    return [g.p * success * g.mixed, g.q * failure * g.mixed];
  },
};

export const CLOSED = Object.freeze(Object.keys(FORMS));

const NO_LIMIT = ["pass_at_k_tang"]; // its k is the group
const VANISHING = ["softmax", "log_mean_exp"]; // as groups grow

// Whether an estimator has masses in the limit of large groups, other than 0 everywhere.
export function hasLimit(defaults, name, given) {
  if (isFormula(name)) return true;
  const { base } = { ...defaults[name], ...given };
  return ![...NO_LIMIT, ...VANISHING].includes(name) && (base === undefined || hasLimit(defaults, base, {}));
}

// [m_S, m_F] of an estimator at solve rate p in groups of a size, Infinity for the population limit.
// `defaults` are the parameters of every estimator; `given` are those that differ.
export function masses(defaults, name, given, p, size) {
  if (isFormula(name)) return formulaMasses(name, given.g, p, size);
  const own = { ...defaults[name], ...given };
  const base = own.base === undefined ? null : masses(defaults, own.base, {}, p, size);
  const [success, failure] = FORMS[name](new Group(p, size), own, base);
  return [success + 0, failure + 0]; // + 0 turns a -0 into 0
}
