// How often a group teaches without having drawn a rare correct target: the functions of simlab.theory.tail_miss.

// 1 - correct^G - incorrect^G for two masses that sum to 1; the smaller one keeps its digits.
function activeOf(size, correct, incorrect) {
  const rarer = Math.min(correct, incorrect);
  return size > 1 ? -Math.expm1(size * Math.log1p(-rarer)) - rarer ** size : 0;
}

// Pr(active) = 1 - mu^G - (1 - mu)^G.
export function active(size, mu) {
  return activeOf(size, mu, 1 - mu);
}

// Pr(target missed) = (1 - tau)^G.
export function missed(size, tau) {
  return tau < 1 ? Math.exp(size * Math.log1p(-tau)) : 0;
}

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

// The three terms of the lemma: target missed, all correct with the target missed, all incorrect.
export function lemmaTerms(size, mu, tau) {
  return [missed(size, tau), (mu - tau) ** size, (1 - mu) ** size];
}
