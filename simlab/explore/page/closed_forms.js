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

// One step of a linear surrogate, to first order (F-GRPO Eq. 17): simlab.theory.redistribution. The distinct sampled
// actions get R_c or R_w, the others 0; S_R = R_c P_pos + R_w P_neg.

export const sum = (values) => values.reduce((total, value) => total + value, 0);
const sumWhere = (policy, inside, power = 1) => sum(policy.map((p, index) => (inside(index) ? p ** power : 0)));

// S_R, the policy's expected reward when unsampled actions get 0.
export function baseline({ policy, correct, sampled, rewardCorrect, rewardIncorrect }) {
  return rewardCorrect * sumWhere(policy, (i) => correct[i] && sampled[i]) +
    rewardIncorrect * sumWhere(policy, (i) => !correct[i] && sampled[i]);
}

// dz_j = (eta / G) p_j (R_j - S_R).
export function logitUpdate(step) {
  const { policy, correct, sampled, rewardCorrect, rewardIncorrect, learningRate, groupSize } = step;
  const expected = baseline(step);
  return policy.map((p, i) => {
    const reward = sampled[i] ? (correct[i] ? rewardCorrect : rewardIncorrect) : 0;
    return (learningRate / groupSize) * p * (reward - expected);
  });
}

// dp_i = p_i (dz_i - sum_j p_j dz_j).
export function firstOrderChange(policy, logitChange) {
  const mean = sum(policy.map((p, i) => p * logitChange[i]));
  return policy.map((p, i) => p * (logitChange[i] - mean));
}

// The terms of dQ_pos: sampled correct, sampled incorrect, unsampled incorrect, unsampled correct; they add up to it.
export function correctMassTerms(step) {
  const { policy, correct, sampled, rewardCorrect, rewardIncorrect, learningRate, groupSize } = step;
  const expected = baseline(step);
  const [mass, wrong] = [sumWhere(policy, (i) => correct[i]), sumWhere(policy, (i) => !correct[i])];
  const second = (inside) => sumWhere(policy, inside, 2);
  return [
    (rewardCorrect - expected) * wrong * second((i) => correct[i] && sampled[i]),
    (expected - rewardIncorrect) * mass * second((i) => !correct[i] && sampled[i]),
    expected * mass * second((i) => !correct[i] && !sampled[i]),
    -expected * wrong * second((i) => correct[i] && !sampled[i]),
  ].map((term) => (learningRate / groupSize) * term);
}

// The terms of dQ_upos: the drift of the missed actions' own logits, and what normalisation by the sampled correct,
// the sampled incorrect and the unsampled takes from them.
export function unsampledCorrectTerms(step) {
  const { policy, correct, sampled, rewardCorrect, rewardIncorrect, learningRate, groupSize } = step;
  const expected = baseline(step);
  const missedMass = sumWhere(policy, (i) => correct[i] && !sampled[i]);
  const second = (inside) => sumWhere(policy, inside, 2);
  return [
    -expected * second((i) => correct[i] && !sampled[i]),
    -missedMass * (rewardCorrect - expected) * second((i) => correct[i] && sampled[i]),
    -missedMass * (rewardIncorrect - expected) * second((i) => !correct[i] && sampled[i]),
    missedMass * expected * second((i) => !sampled[i]),
  ].map((term) => (learningRate / groupSize) * term);
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
