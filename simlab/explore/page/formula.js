// Weights written as formulas, =(1 - p)^g * (r - p)/s@g=0.5: read into a tree and walked, never run as code. The language
// of simlab.explore.formula, read by the same rules.

import { cited } from "./names.js";
import { exact } from "./text.js";

export const SIGN = "=";
const GIVEN = "@g=";
const LONGEST = 200; // characters
const DEEPEST = 24; // brackets within brackets
const NAMES = ["p", "q", "r", "s", "G", "g"];
const FUNCTIONS = { sqrt: 1, exp: 1, log: 1, abs: 1, min: 2, max: 2 }; // and their arguments
const ALLOWED = `allowed: ${NAMES.join(", ")}, numbers, + - * / ^ ( ), ${Object.keys(FUNCTIONS).join(", ")}`;
const TOKEN = / *((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[A-Za-z]+|[-+*/^(),])/y;
const NUMBER = /^[0-9.]/;

export const isFormula = (weight) => weight.startsWith(SIGN);

// The tree of a formula: ["number", 2], ["name", "p"], or an operation with its arguments; throws what is wrong with it.
export function readFormula(text) {
  if ([...text].length > LONGEST) throw new Error(`formula ${cited(text)} is too long; allowed: up to ${LONGEST} characters`);
  const reader = new Reader(text);
  const tree = reader.sum(0);
  if (reader.token) reader.refuse();
  return tree;
}

class Reader {
  constructor(text) {
    Object.assign(this, { text, place: 0, token: "" });
    this.advance();
  }

  advance() {
    const before = this.token;
    TOKEN.lastIndex = this.place;
    const found = TOKEN.exec(this.text);
    if (!found && this.text.slice(this.place).trim()) {
      this.token = "?";
      this.place += 1;
      this.refuse();
    }
    this.token = found ? found[1] : "";
    this.place = found ? TOKEN.lastIndex : this.text.length;
    return before;
  }

  takes(sign) {
    if (this.token !== sign) return false;
    this.advance();
    return true;
  }

  refuse() {
    const where = this.token ? `character ${this.place - this.token.length + 1}` : "its end";
    throw new Error(`formula ${cited(this.text)} cannot be read at ${where}; ${ALLOWED}`);
  }

  checkDepth(depth) {
    if (depth > DEEPEST) throw new Error(`formula ${cited(this.text)} is nested too deeply; allowed: ${DEEPEST} brackets`);
  }

  sum(depth) {
    this.checkDepth(depth);
    let found = this.product(depth);
    while (["+", "-"].includes(this.token)) found = [this.advance(), found, this.product(depth)];
    return found;
  }

  product(depth) {
    let found = this.signed(depth);
    while (["*", "/"].includes(this.token)) found = [this.advance(), found, this.signed(depth)];
    return found;
  }

  signed(depth) {
    let negative = false;
    while (["+", "-"].includes(this.token)) negative = (this.advance() === "-") !== negative;
    const found = this.power(depth);
    return negative ? ["negative", found] : found;
  }

  power(depth) {
    const base = this.atom(depth);
    if (!this.takes("^")) return base;
    this.checkDepth(depth);
    return ["^", base, this.signed(depth + 1)];
  }

  atom(depth) {
    if (this.takes("(")) {
      const found = this.sum(depth + 1);
      if (!this.takes(")")) this.refuse();
      return found;
    }
    if (Object.hasOwn(FUNCTIONS, this.token)) return this.function(depth);
    if (NAMES.includes(this.token)) return ["name", this.advance()];
    if (!NUMBER.test(this.token)) this.refuse();
    if (!Number.isFinite(Number(this.token))) throw new Error(`the number ${this.token} is too large; allowed: up to 1.7e308`);
    return ["number", Number(this.advance())];
  }

  function(depth) {
    const name = this.advance();
    const given = [];
    for (let place = 0; place < FUNCTIONS[name]; place += 1) {
      if (!this.takes(place ? "," : "(")) this.refuse();
      given.push(this.sum(depth + 1));
    }
    if (!this.takes(")")) this.refuse();
    return [name, ...given];
  }
}

const OPERATIONS = {
  "+": (one, other) => one + other, "-": (one, other) => one - other, "*": (one, other) => one * other, "/": (one, other) => one / other,
  "^": (one, other) => one ** other, negative: (one) => -one, sqrt: Math.sqrt, exp: Math.exp, log: Math.log, abs: Math.abs,
  min: (one, other) => (one < other ? one : other), max: (one, other) => (one > other ? one : other),
};

function walked([kind, ...rest], given) {
  if (kind === "number") return rest[0];
  return kind === "name" ? given[rest[0]] : OPERATIONS[kind](...rest.map((one) => walked(one, given)));
}

// The weight of a rollout of reward r in a group of a size with solve rate p; 0 where it is not finite.
export function formulaWeight(tree, { p, r, size, g }) {
  const q = 1 - p;
  const found = walked(tree, { p, q, r, s: Math.sqrt(p * q), G: size, g });
  return Number.isFinite(found) ? found : 0;
}

// [m_S, m_F] of a formula at solve rate p.
export function formulaMasses(weight, g, p, size) {
  const tree = treeOf(weight);
  const at = Number.isFinite(size) ? Math.round(p * size) / size : p;
  const of = (r) => formulaWeight(tree, { p: at, r, size, g });
  return [at * of(1) + 0, -(1 - at) * of(0) + 0];
}

const trees = new Map();
const MOST_KEPT = 64;

// The tree of a weight's formula, read once.
export function treeOf(weight) {
  if (!trees.has(weight)) trees.set(weight, readFormula(weight.slice(SIGN.length)));
  if (trees.size > MOST_KEPT) trees.delete(trees.keys().next().value);
  return trees.get(weight);
}

export const hasG = ([kind, ...rest]) => (kind === "name" ? rest[0] === "g" : kind !== "number" && rest.some(hasG));

// {name, parameters} of a weight that is a formula: =FORMULA, and g if it reads it.
export function readFormulaWeight(text) {
  const [formula, number] = text.slice(SIGN.length).split(GIVEN);
  const name = SIGN + formula.trim();
  if (!hasG(treeOf(name))) return { name, parameters: {} };
  const g = number === undefined ? 1 : Number(number);
  if (number !== undefined && (!number.trim() || !Number.isFinite(g))) throw new Error(`g = ${cited(number)} is not a number`);
  return { name, parameters: { g } };
}

export const writeFormulaWeight = ({ name, parameters }) => (Object.hasOwn(parameters, "g") ? `${name}${GIVEN}${exact(parameters.g)}` : name);

// What the page knows of an estimator, of a formula.
export function entryOf(name, largestG) {
  const parameters = hasG(treeOf(name)) ? { g: { default: 1, low: 0, high: largestG, whole: false, scale: "linear", choices: [], help: "a number of your own in the formula" } } : {};
  const formula = name.slice(SIGN.length);
  return { tag: "formula", formula, parameters, defaults: parameters.g ? { g: 1 } : {}, success: `p (${formula}) at r = 1`,
    failure: `−q (${formula}) at r = 0` };
}

const PYTHON = { "+": "+", "-": "-", "*": "*", "/": "/", "^": "**" };

// A tree as Python writes it.
export function pythonOf([kind, ...rest]) {
  if (kind === "number") return String(rest[0]);
  if (kind === "name") return rest[0];
  const inside = rest.map(pythonOf);
  if (PYTHON[kind]) return `(${inside[0]} ${PYTHON[kind]} ${inside[1]})`;
  if (kind === "negative") return `(-${inside[0]})`;
  return kind === "min" || kind === "max" ? `xp.${kind}imum(${inside.join(", ")})` : `xp.${kind}(${inside[0]})`;
}

// The lines of a file that make an estimator of a formula, for --arms "mine.py:weight".
export function pythonLines({ name, parameters }) {
  const tree = treeOf(name);
  return [
    "from array_api_compat import array_namespace",
    "from simlab.rollouts import group_count, is_correct, solve_rate",
    "",
    "",
    "def weight(advantages, rollouts):",
    "    xp = array_namespace(advantages)",
    "    r = xp.astype(is_correct(rollouts), advantages.dtype)",
    "    p = solve_rate(rollouts) + 0 * r",
    "    q = 1 - p",
    "    s = xp.sqrt(p * q)",
    "    G = group_count(rollouts) + 0 * r",
    ...(Object.hasOwn(parameters, "g") ? [`    g = ${exact(parameters.g)}`] : []),
    `    weighed = ${pythonOf(tree)} + 0 * r`,
    "    return xp.where(xp.isfinite(weighed), weighed, xp.zeros_like(r))",
    "",
  ].join("\n");
}
