// Estimators as the address writes them, asym_grpo(delta=0.5), and the bounds of their parameters.

import { entry, cited } from "./names.js";
import { exact, short } from "./text.js";

const WEIGHT = /^([a-z0-9_]+)(?:\(([^()]*)\))?$/;
export const SEPARATOR = ";";

// {name, parameters} of a text; throws what is wrong with it.
export function readWeight(text, estimators) {
  const match = WEIGHT.exec(text);
  if (!match) throw new Error(`estimator ${cited(text)} cannot be read; allowed: such as grpo, asym_grpo(delta=0.5)`);
  const [, name, inside] = match;
  const own = entry(estimators, name);
  if (!own) {
    throw new Error(`estimator = ${cited(name)} is unknown; allowed: ${Object.keys(estimators).join(", ")}`);
  }
  const parameters = {};
  for (const pair of (inside || "").split(",").filter(Boolean)) {
    const [key, value, ...more] = pair.split("=").map((part) => part.trim());
    const known = entry(own.parameters, key);
    if (!known || value === undefined || more.length) {
      const names = Object.keys(own.parameters).join(", ") || "none";
      throw new Error(`${name} has no parameter ${cited(pair)}; it takes: ${names}`);
    }
    parameters[key] = readParameter(key, known, value);
  }
  return { name, parameters };
}

function readParameter(key, known, text) {
  if (known.choices.length) {
    const choice = known.choices.find((allowed) => String(allowed) === text);
    if (choice === undefined) {
      throw new Error(`${key} = ${cited(text)} is unknown; allowed: ${known.choices.join(", ")}`);
    }
    return choice;
  }
  const value = Number(text);
  if (text === "" || Number.isNaN(value)) {
    throw new Error(`${key} = ${cited(text)} is not a number; allowed: [${short(known.low)}, ${short(known.high)}]`);
  }
  return value;
}

export function writeWeight({ name, parameters }) {
  const inside = Object.entries(parameters).map(
    ([key, value]) => `${key}=${typeof value === "number" ? exact(value) : value}`,
  );
  return inside.length ? `${name}(${inside.join(",")})` : name;
}

// The text with its parameters held to their bounds, and what is to be said if one had to be.
export function holdWeight(text, estimators, closed) {
  const { name, parameters } = readWeight(text, estimators);
  if (closed && estimators[name].success === null) {
    const allowed = Object.keys(estimators).filter((known) => estimators[known].success !== null);
    throw new Error(`estimator = ${cited(name)} has no masses in closed form; allowed: ${allowed.join(", ")}`);
  }
  const said = [];
  for (const [key, value] of Object.entries(parameters)) {
    const { choices, low, high, whole } = estimators[name].parameters[key];
    if (choices.length) continue;
    const inside = Math.min(Math.max(value, low), high);
    parameters[key] = whole ? Math.round(inside) : inside;
    if (parameters[key] !== value) {
      said.push(`${name}: ${key} = ${short(value)} is outside [${short(low)}, ${short(high)}]; ` +
        `held at ${short(parameters[key])}`);
    }
  }
  return [writeWeight({ name, parameters }), said.join("; ")];
}
