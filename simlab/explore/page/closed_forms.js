// Small closed forms that follow a slider: tail miss, one step of redistribution, crossings and trees. Tests compare them
// with simlab.theory and simlab.problems.

// Tail miss (F-GRPO Lemma 3.1): simlab.theory.tail_miss

// 1 - correct^G - incorrect^G for two masses that sum to 1; the smaller one keeps its digits.
function activeOf(size, correct, incorrect) {
  const rarer = Math.min(correct, incorrect);
  return size > 1 ? -Math.expm1(size * Math.log1p(-rarer)) - rarer ** size : 0;
}

// Pr(active) = 1 - mu^G - (1 - mu)^G.
export const active = (size, mu) => activeOf(size, mu, 1 - mu);

// Pr(target missed) = (1 - tau)^G.
export const missed = (size, tau) => (tau < 1 ? Math.exp(size * Math.log1p(-tau)) : 0);

// Pr(active and target missed) = (1 - tau)^G - (mu - tau)^G - (1 - mu)^G, without cancellation.
export function tailMiss(size, mu, tau) {
  const missable = tau < 1 ? tau : 0;
  return missed(size, missable) * activeOf(size, (mu - tau) / (1 - missable), (1 - mu) / (1 - missable));
}

// Pr(target missed | active); NaN where no group is ever active.
export function conditionalTailMiss(size, mu, tau) {
  const possible = active(size, mu);
  return possible > 0 ? tailMiss(size, mu, tau) / possible : NaN;
}

// One step of a linear surrogate, to first order (F-GRPO Eq. 17): simlab.theory.redistribution. Each distinct sampled action has
// a reward of its own, the others 0.

export const sum = (values) => values.reduce((total, value) => total + value, 0);
const massWhere = (policy, inside) => sum(policy.map((p, i) => (inside(i) ? p : 0)));

// S_R, the policy's expected reward when unsampled actions get 0.
export const baseline = ({ policy, rewards }) => sum(policy.map((p, i) => p * rewards[i]));

// dz_j = (eta / G) p_j (R_j - S_R).
export function logitUpdate(step) {
  const expected = baseline(step);
  return step.policy.map((p, i) => (step.learningRate / step.groupSize) * p * (step.rewards[i] - expected));
}

// dp_i = p_i (dz_i - sum_j p_j dz_j).
export function firstOrderChange(policy, logitChange) {
  const mean = sum(policy.map((p, i) => p * logitChange[i]));
  return policy.map((p, i) => p * (logitChange[i] - mean));
}

// The sums of p_i dz_i over the sampled correct, sampled incorrect, unsampled incorrect and unsampled correct actions.
function moved(step) {
  const update = logitUpdate(step);
  const over = (right, held) => sum(step.policy.map((p, i) => (step.correct[i] === right && step.sampled[i] === held ? p * update[i] : 0)));
  return [over(true, true), over(false, true), over(false, false), over(true, false)];
}

// The terms of dQ_pos, by the same four sets of actions; they add up to it.
export function correctMassTerms(step) {
  const [mass, wrong] = [true, false].map((right) => massWhere(step.policy, (i) => step.correct[i] === right));
  return moved(step).map((term, set) => (set === 0 || set === 3 ? wrong : -mass) * term);
}

// The terms of dQ_upos: the drift of the missed actions' own logits, and what normalisation by the sampled correct,
// the sampled incorrect and the unsampled takes from them.
export function unsampledCorrectTerms(step) {
  const missedMass = massWhere(step.policy, (i) => step.correct[i] && !step.sampled[i]);
  const [right, wrong, missedWrong, missedRight] = moved(step);
  return [missedRight, ...[right, wrong, missedWrong + missedRight].map((term) => -missedMass * term)];
}

// n probabilities that sum to a mass, each `ratio` times the one before.
export function geometric(count, mass, ratio) {
  const weights = Array.from({ length: count }, (_, index) => ratio ** index);
  const total = sum(weights);
  return weights.map((weight) => (mass * weight) / total);
}

// The place of the item of least distance, the first of these, and the item itself.
export function placeOfLeast(items, distanceTo) {
  const far = items.map(distanceTo);
  return far.indexOf(Math.min(...far));
}

export const least = (items, distanceTo) => items[placeOfLeast(items, distanceTo)];

// Crossings of curves, linear between their points

// The k, linear in log k, from which on gains are below 0; null if there is none.
export function crossing(k, gains) {
  const first = gains.findIndex((gain, i) => i > 0 && gain < 0 && gains[i - 1] >= 0) - 1;
  if (first < 0) return null;
  const share = gains[first] / (gains[first] - gains[first + 1]);
  return k[first] * (k[first + 1] / k[first]) ** share;
}

// The place of the first crossing of a value by a list, counted from 0; null beyond its ends.
export function placeOn(values, value) {
  const after = values.findIndex((other) => other >= value);
  if (after < 0 || value < values[0]) return null;
  return after ? after - 1 + (value - values[after - 1]) / (values[after] - values[after - 1]) : 0;
}

// The value of a list at a place, counted from 0.
export function interpolate(values, place) {
  const before = Math.min(Math.floor(place), values.length - 1);
  return place === before ? values[before] : values[before] + (place - before) * (values[before + 1] - values[before]);
}

// A full tree of decisions, numbered as in simlab.problems.tree_paths: action a of node n leads to node n B + 1 + a

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

export function uniform(depth, branching) {
  const nodes = (branching ** depth - 1) / (branching - 1);
  return Array.from({ length: nodes }, () => Array(branching).fill(1 / branching));
}

// The probability of reaching every node and leaf: those of the nodes first, then those of the leaves.
export function reach(policies) {
  const reached = [1];
  policies.forEach((policy, node) => policy.forEach((p) => reached.push(reached[node] * p)));
  return reached;
}

export const leaves = (policies) => reach(policies).slice(policies.length);

export function word(leaf, depth, branching) {
  const letter = (_, level) => LETTERS[Math.floor(leaf / branching ** (depth - 1 - level)) % branching];
  return Array.from({ length: depth }, letter).join("");
}
