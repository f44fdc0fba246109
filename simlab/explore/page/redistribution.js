// Where one linear-surrogate step moves probability, to first order: the functions of simlab.theory.redistribution.
// The distinct sampled actions get R_c or R_w, the others 0; S_R = R_c P_pos + R_w P_neg.

const sum = (values) => values.reduce((total, value) => total + value, 0);

function sumWhere(policy, inside, power = 1) {
  return sum(policy.map((p, index) => (inside(index) ? p ** power : 0)));
}

// S_R, the policy's expected reward when unsampled actions get 0.
export function baseline({ policy, correct, sampled, rewardCorrect, rewardIncorrect }) {
  return (
    rewardCorrect * sumWhere(policy, (i) => correct[i] && sampled[i]) +
    rewardIncorrect * sumWhere(policy, (i) => !correct[i] && sampled[i])
  );
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
  const missed = sumWhere(policy, (i) => correct[i] && !sampled[i]);
  const second = (inside) => sumWhere(policy, inside, 2);
  return [
    -expected * second((i) => correct[i] && !sampled[i]),
    -missed * (rewardCorrect - expected) * second((i) => correct[i] && sampled[i]),
    -missed * (rewardIncorrect - expected) * second((i) => !correct[i] && sampled[i]),
    missed * expected * second((i) => !sampled[i]),
  ].map((term) => (learningRate / groupSize) * term);
}

// n probabilities that sum to a mass, each `ratio` times the one before.
export function geometric(count, mass, ratio) {
  const weights = Array.from({ length: count }, (_, index) => ratio ** index);
  const total = sum(weights);
  return weights.map((weight) => (mass * weight) / total);
}
