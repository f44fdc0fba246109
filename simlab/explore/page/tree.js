// A full tree of decisions, numbered as in simlab.problems.tree_paths: action a of node n leads to node n B + 1 + a.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// The policies of all nodes, uniform.
export function uniform(depth, branching) {
  const nodes = (branching ** depth - 1) / (branching - 1);
  return Array.from({ length: nodes }, () => Array(branching).fill(1 / branching));
}

// The policies of logits, node by node.
export function softmaxNodes(logits) {
  return logits.map((row) => {
    const highest = Math.max(...row);
    const weights = row.map((logit) => Math.exp(logit - highest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  });
}

// The probability of reaching every node and leaf: those of the nodes first, then those of the leaves.
export function reach(policies) {
  const reached = [1];
  policies.forEach((policy, node) => policy.forEach((p) => reached.push(reached[node] * p)));
  return reached;
}

// The probabilities of the leaves.
export function leaves(policies) {
  return reach(policies).slice(policies.length);
}

// The letters on the way to a leaf.
export function word(leaf, depth, branching) {
  return Array.from(
    { length: depth },
    (_, level) => LETTERS[Math.floor(leaf / branching ** (depth - 1 - level)) % branching],
  ).join("");
}
