// What a person may have meant by a name that is unknown.

import { cited } from "./names.js";

// "estimator = 'grop' is unknown (did you mean 'grpo'?); allowed: ..."
export function unknown(what, value, allowed) {
  const near = nearest(String(value).toLowerCase(), allowed.map(String));
  const meant = near === undefined ? "" : ` (did you mean '${near}'?)`;
  return new Error(`${what} = ${cited(value)} is unknown${meant}; allowed: ${allowed.join(", ")}`);
}

// The allowed name with the fewest edits, if these are at most a third of its letters.
function nearest(text, allowed) {
  const found = allowed.filter((name) => 3 * Math.abs(name.length - text.length) <= name.length) // others take no time
    .map((name) => ({ name, edits: edits(text, name.toLowerCase()) })).filter(({ name, edits: count }) => 3 * count <= name.length);
  return found.sort((left, right) => left.edits - right.edits)[0]?.name;
}

// How many letters are to be put in, left out, changed, or exchanged with their neighbour: "grop" to "grpo" is one.
function edits(from, to) {
  const rows = [Array.from({ length: to.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= from.length; i++) {
    rows.push([i]);
    for (let j = 1; j <= to.length; j++) {
      const changed = rows[i - 1][j - 1] + (from[i - 1] === to[j - 1] ? 0 : 1);
      const exchanged = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1] ? rows[i - 2][j - 2] + 1 : Infinity;
      rows[i].push(Math.min(changed, exchanged, rows[i - 1][j] + 1, rows[i][j - 1] + 1));
    }
  }
  return rows[from.length][to.length];
}
