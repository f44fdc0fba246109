// What theory says of a simulated policy: metrics along expected steps, and Lemma 3.1 at the simulated masses.

import { passAtK } from "./bank.js";

// A metric of a result by theory, a value for each record; null where theory says nothing of it.
export function theoryOf(result, metric) {
  if (metric === "tail_miss_rate") return result.metrics.tail_miss_expected?.mean ?? null;
  const mass = result.theory?.q_pos;
  const k = /^pass_at_(\d+)$/.exec(metric);
  if (k) return mass ? mass.map((one) => passAtK(one, Number(k[1]))) : null;
  return result.theory?.[metric] ?? null;
}

// What the expected steps of an optimiser are called.
export const theoryName = (optimizer) => (optimizer === "sgd" ? "theory" : "theory without noise");
