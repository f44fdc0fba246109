// Estimators as the address writes them, asym_grpo(delta=0.5), and the bounds of their parameters.

import { entryOf, isFormula, readFormulaWeight, writeFormulaWeight } from "./formula.js";
import { read } from "./grammar.js";
import { entry, cited } from "./names.js";
import { unknown } from "./nearest.js";
import { exact, short } from "./text.js";

export const SEPARATOR = ";";

// {name, parameters} of a text; throws what is wrong with it.
export function readWeight(text, estimators) {
  if (isFormula(text)) {
    const found = readFormulaWeight(text);
    if (!Object.hasOwn(estimators, found.name)) addFormula(found.name, estimators);
    return found;
  }
  const { base, added, aggregation } = read(text);
  if (added.length || aggregation !== null) {
    throw new Error(`estimator ${cited(text)} is more than one; allowed: such as grpo, asym_grpo(delta=0.5)`);
  }
  const own = entry(estimators, base.name);
  if (!own) throw unknown("estimator", base.name, Object.keys(estimators));
  const parameters = {};
  for (const [key, value] of base.parameters) {
    const known = entry(own.parameters, key);
    if (!known) {
      const names = Object.keys(own.parameters).join(", ") || "none";
      throw new Error(`${base.name} has no parameter ${cited(key)}; it takes: ${names}`);
    }
    parameters[key] = checked(key, known, value);
  }
  return { name: base.name, parameters };
}

function checked(key, known, value) {
  if (known.choices.length && !known.choices.includes(value)) {
    throw unknown(key, value, known.choices);
  }
  if (!known.choices.length && typeof value !== "number") {
    throw new Error(`${key} = ${cited(value)} is not a number; allowed: [${short(known.low)}, ${short(known.high)}]`);
  }
  return value;
}

const LARGEST_G = 8;
const MOST_FORMULAS = 64;

// Puts a formula among the estimators that the page knows, and takes the oldest away if there are many.
function addFormula(name, estimators) {
  const formulas = Object.keys(estimators).filter(isFormula);
  if (formulas.length >= MOST_FORMULAS) delete estimators[formulas[0]];
  estimators[name] = entryOf(name, LARGEST_G);
}

// {name, parameters} of a weight as a command line takes it; a formula stands in a file of one's own.
export function commandWeight(text, estimators) {
  const { name, parameters } = readWeight(text, estimators);
  return isFormula(name) ? { name: "mine.py:weight", parameters: {} } : { name, parameters };
}

export function writeWeight({ name, parameters }) {
  if (isFormula(name)) return writeFormulaWeight({ name, parameters });
  const inside = Object.entries(parameters).map(
    ([key, value]) => `${key}=${typeof value === "number" ? exact(value) : value}`,
  );
  return inside.length ? `${name}(${inside.join(",")})` : name;
}

// Whether an estimator has masses: in closed form, or as the server computes them.
export const hasMasses = ({ success, tabled }) => success !== null || Boolean(tabled);

// The lines of a file that make an estimator of a registered one and its choices, for --arms "mine.py:weight".
export function linkedLines({ name, parameters }, estimators) {
  const written = (value) => (typeof value === "number" ? exact(value) : JSON.stringify(value));
  const all = { ...estimators[name].defaults, ...parameters };
  const given = Object.keys(estimators[name].parameters).map((key) => `        ${key}=${written(all[key])},`);
  return [`from simlab.estimators import ${name}`, "", "", "def weight():", `    return ${name}(`, ...given, "    )", ""].join("\n");
}

// The text with its parameters held to their bounds, and what is to be said if one had to be.
export function holdWeight(text, estimators, closed) {
  const { name, parameters } = readWeight(text, estimators);
  if (closed && !hasMasses(estimators[name])) {
    const allowed = Object.keys(estimators).filter((known) => hasMasses(estimators[known]));
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
