// Runs that were computed in advance: what is seen at once, and all that a page without a server has.

import { controlsOf } from "./pins.js";
import { keyOf } from "./simulate.js";

let kept = null; // results by the key of their run

// The results by the keys of their runs, all settings included.
export function inAdvance(description) {
  if (kept) return kept;
  kept = new Map(description.in_advance.map(({ panel, settings, result }) => {
    const own = controlsOf(panel, description.controls);
    const all = Object.fromEntries(description.simulated[panel].map((name) => [name, settings[name] ?? own.get(name).default]));
    return [keyOf({ panel, settings: all }), { ...result, in_advance: true, settings: all, panel }];
  }));
  return kept;
}

const gammaOf = ({ weight = "" }) => Number(/gamma=([0-9.]+)/.exec(weight)?.[1] ?? 0);

// How far the settings of a run are from others: those that differ, then the group size, then gamma.
function distance(settings, other) {
  const differing = Object.keys(settings).filter((name) => settings[name] !== other[name] && !["weight", "group_size"].includes(name));
  const size = Math.abs(Math.log2((settings.group_size ?? 1) / (other.group_size ?? 1)));
  return 100 * differing.length + size + Math.abs(gammaOf(settings) - gammaOf(other));
}

// The result of a run, or of the nearest run of its panel that was computed in advance.
export function nearestInAdvance(run, description) {
  const all = inAdvance(description);
  const exact = all.get(keyOf(run));
  if (exact) return exact;
  let [found, least] = [null, Infinity];
  for (const other of all.values()) {
    const far = other.panel === run.panel ? distance(run.settings, other.settings) : Infinity;
    if (far < least) [found, least] = [other, far];
  }
  return found;
}
