// Texts of settings, estimators and numbers, held to the ranges of their controls. The same rules as those of the server
// (simlab.explore.controls and weights), by the same description, for the page also works without a server.

import { cited, exact, post, short, written } from "./text.js";

export const SEPARATOR = ";"; // between pinned estimators, runs or cells
export const SIGN = "="; // a weight that begins with it is a formula
const G_SIGN = "@g=";
const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const WEIGHT = /^ *([\w./-]+(?::\w+)?) *(?:\(([^()]*)\) *)?$/; // a name, and its parameters in brackets

// The value of a key of an object itself; undefined for one such as constructor, which every object answers to.
export const entry = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

// An error for an unknown name: "estimator = 'grop' is unknown; allowed: ..."
export const unknown = (label, value, allowed) => new Error(`${label} = ${cited(value)} is unknown; allowed: ${allowed.join(", ")}`);

// Formulas: the server reads them, so that the page has each in `estimators` or knows what is wrong with it

const formulaErrors = new Map();

export const isFormula = (weight) => weight.startsWith(SIGN);

// The formula of a weight such as =(1 - p)^g@g=0.5, without its g.
const formulaOf = (weight) => SIGN + weight.slice(SIGN.length).split(G_SIGN)[0].trim();

// The formulas in some texts, be they weights, lists of weights or pinned runs, that the server has not read yet.
export function missingFormulas(texts, { server, estimators }) {
  const weights = texts.flatMap((text) => String(text).split(/[;&]/)).map((text) => text.replace(/^weight=(?==)/, ""));
  const isMissing = (weight) => isFormula(weight) && !Object.hasOwn(estimators, formulaOf(weight)) && !formulaErrors.has(formulaOf(weight));
  return server ? weights.filter(isMissing) : [];
}

export async function describeFormulas(weights, { estimators, largest_g: high }) {
  for (const weight of weights) {
    try {
      const [{ name, parameters, python }] = await (await post("formula", [{ weight }])).json();
      const text = name.slice(SIGN.length);
      const help = "a number of your own in the formula";
      const g = { default: 1, low: 0, high, whole: false, scale: "linear", choices: [], help };
      estimators[formulaOf(weight)] = {
        formula: text, python, parameters: "g" in parameters ? { g } : {}, defaults: {}, has_masses: true,
        success: `p (${text}) at r = 1`, failure: `−q (${text}) at r = 0`,
      };
    } catch (error) {
      formulaErrors.set(formulaOf(weight), error.message);
    }
  }
}

// Estimators

export function readWeight(text, estimators) {
  if (isFormula(text)) return readFormulaWeight(text, estimators);
  const match = WEIGHT.exec(text);
  if (!match) throw new Error(`estimator ${cited(text)} cannot be read; allowed: such as grpo, asym_grpo(delta=0.5)`);
  const [, name, inside = ""] = match;
  const known = entry(estimators, name);
  if (!known) throw unknown("estimator", name, Object.keys(estimators).filter((other) => !isFormula(other)));
  const parameters = {};
  for (const pair of inside.trim() ? inside.split(",") : []) {
    const [key, value = ""] = pair.split("=").map((part) => part.trim());
    const parameter = entry(known.parameters, key);
    if (!parameter || key in parameters) {
      throw new Error(`${name} has no parameter ${cited(key)}, or twice; it takes: ${Object.keys(known.parameters).join(", ") || "none"}`);
    }
    parameters[key] = checked(key, parameter, NUMBER.test(value) ? Number(value) : value);
  }
  return { name, parameters };
}

function checked(key, { choices, low, high }, value) {
  if (choices.length && !choices.includes(value)) throw unknown(key, value, choices);
  if (!choices.length && !Number.isFinite(value)) {
    throw new Error(`${key} = ${cited(value)} is not a number; allowed: [${short(low)}, ${short(high)}]`);
  }
  return value;
}

function readFormulaWeight(text, estimators) {
  const [name, number] = [formulaOf(text), text.split(G_SIGN)[1]];
  const known = entry(estimators, name);
  if (!known) throw new Error(formulaErrors.get(name) ?? `formula ${cited(name.slice(SIGN.length))} needs the server: simlab explore`);
  if (!known.parameters.g) return { name, parameters: {} };
  return { name, parameters: { g: number === undefined ? 1 : checked("g", known.parameters.g, NUMBER.test(number) ? Number(number) : number) } };
}

export function writeWeight({ name, parameters }) {
  if (isFormula(name)) return Object.hasOwn(parameters, "g") ? `${name}${G_SIGN}${exact(parameters.g)}` : name;
  const pairs = Object.entries(parameters).map(([key, value]) => `${key}=${written(value)}`);
  return pairs.length ? `${name}(${pairs.join(",")})` : name;
}

// {name, parameters} of a weight as a command line takes it; a formula stands in a file of one's own.
function commandWeight(text, estimators) {
  const { name, parameters } = readWeight(text, estimators);
  return isFormula(name) ? { name: "mine.py:weight", parameters: {} } : { name, parameters };
}

// The sweep of a run, with about so many records; `options` and `parameters` are those of its problem and optimiser.
export function sweepCommand(problem, values, { estimators }, { records, options = [], parameters }) {
  const { name, parameters: own } = commandWeight(values.weight, estimators);
  const ofEstimator = Object.fromEntries(Object.entries(own).map(([key, value]) => [`estimator.${key}`, value]));
  return [
    `simlab sweep --problem ${problem} --estimator ${name} --surrogate ${values.surrogate ?? "reinforce"} --optimizer ${values.optimizer}`,
    `--group-size ${values.group_size} ${values.rollouts ? `--budget ${values.rollouts} --records ${records}`
      : `--steps ${values.steps} --record-every ${Math.max(Math.round(values.steps / records), 1)}`}`,
    `--seeds ${values.seed + values.seeds}`, ...options, // counted from 0, so that the sweep holds the seeds of the page
    ...Object.entries({ ...ofEstimator, "optimizer.learning_rate": values.learning_rate, ...parameters })
      .map(([key, value]) => `--param ${key}=${written(value)}`),
  ].join(" ");
}

// The number of correct actions of one policy, which a sweep lists in place of their share.
export const correctOf = (share, actions) => Math.min(Math.max(Math.round(share * actions), 2), actions - 1);

// The parameters of interfering prompts as a sweep names them; each may be a list.
export const promptsOf = ({ overlap, conflict, hard_rate: rate, hard_share: share }) => ({ "problem.overlap": overlap, "problem.conflict": conflict,
  "problem.hard_rate": rate, "problem.easy_share": String(share).split(",").map((one) => exact(1 - one)).join(",") });

// The commands of the sliders' run and of the pinned ones.
export const commandsOf = (panel, values, description, command) =>
  runsOf(panel, values, description).map((run) => command(run, description)).join(" && ");

// The lines of a file that make an estimator of a registered one and its choices, for --arms "mine.py:weight".
export function linkedLines({ name, parameters }, estimators) {
  const all = { ...estimators[name].defaults, ...parameters };
  const lines = Object.keys(estimators[name].parameters).map((key) =>
    `        ${key}=${typeof all[key] === "number" ? exact(all[key]) : JSON.stringify(all[key])},`);
  return [`from simlab.estimators import ${name}`, "", "", "def weight():", `    return ${name}(`, ...lines, "    )", ""].join("\n");
}

export function holdWeight(text, estimators, closed) {
  const { name, parameters } = readWeight(text, estimators);
  if (closed && !estimators[name].has_masses) {
    const allowed = Object.keys(estimators).filter((other) => estimators[other].has_masses && !isFormula(other));
    throw new Error(`estimator = ${cited(name)} has no masses at a solve rate alone; allowed: ${allowed.join(", ")}`);
  }
  const notes = [];
  for (const [key, value] of Object.entries(parameters)) {
    const { choices, low, high, whole } = estimators[name].parameters[key];
    if (choices.length) continue;
    const [held, note] = holdNumber({ label: key, low, high, kind: whole ? "whole" : "number" }, value);
    parameters[key] = held;
    if (note) notes.push(`${name}: ${note}`);
  }
  return [writeWeight({ name, parameters }), notes.join("; ")];
}

// [value, note] of a control that is set to a text; throws what is wrong with one that cannot be read.
export function hold(control, text, description) {
  if (control.kind === "number" || control.kind === "whole") return holdNumber(control, text);
  if (control.kind === "weight") return holdWeight(String(text), description.estimators, control.closed);
  if (control.kind === "weights") {
    return holdList(String(text).split(SEPARATOR).filter(Boolean), description.most_pinned, "estimators",
      (weight) => holdWeight(weight, description.estimators, true));
  }
  if (control.kind === "cells") return holdCells(control, String(text), description);
  if (control.kind === "runs") return holdRuns(control, String(text), description);
  if (control.kind === "bits") {
    if (!/^[01]*$/.test(text) || text.length < control.low || text.length > control.high) {
      throw new Error(`${control.label} = ${cited(text)} is not allowed; allowed: 0 or 1 for each action`);
    }
    return [text, ""];
  }
  if (!control.choices.includes(text)) throw unknown(control.label, text, control.choices);
  return [text, ""];
}

function holdNumber(control, text) {
  const { low, high } = control;
  const range = `[${short(low, 6)}, ${short(high, 6)}]`;
  const value = typeof text === "number" ? text : Number(text);
  if (String(text).trim() === "" || Number.isNaN(value)) {
    throw new Error(`${control.label} = ${cited(text)} is not a number; allowed: ${range}`);
  }
  const held = Math.min(Math.max(value, low), high);
  if (held !== value) return [held, `${control.label} = ${short(value, 6)} is outside ${range}; held at ${short(held, 6)}`];
  if (control.kind === "whole" && held !== Math.round(held)) {
    return [Math.round(held), `${control.label} = ${short(value)} is not whole; held at ${Math.round(held)}`];
  }
  return [held, ""];
}

function holdList(items, most, plural, holdItem) {
  const held = items.slice(0, most).map(holdItem);
  const notes = held.map(([, note]) => note).filter(Boolean);
  if (items.length > most) notes.push(`${items.length} ${plural} are pinned; held at ${most}`);
  return [held.map(([item]) => item).join(SEPARATOR), notes.join("; ")];
}

function holdRuns(control, text, description) {
  const panel = control.name.split(".")[0];
  const controls = controlsOf(panel, description.controls);
  return holdList(readPins(text), description.most_runs, "runs", (pairs) => {
    const notes = [];
    const run = pairs.map(([name, value]) => {
      const setting = controls.get(name);
      if (!setting) throw new Error(`${control.name} has a run with ${cited(name)}; allowed: settings of the panel ${panel}`);
      const [held, note] = hold(setting, value, description);
      if (note) notes.push(note);
      return [name, held];
    });
    return [writePins([run]), notes.join("; ")];
  });
}

function holdCells(control, text, description) {
  const cells = text ? text.split(SEPARATOR).map((cell) => cell.split(",")) : [];
  const isRead = (pair) => pair.length === 2 && pair.every((number) => NUMBER.test(number) && Number.isFinite(Number(number)));
  if (!cells.every(isRead)) {
    throw new Error(`${control.name} = ${cited(text)} cannot be read; allowed: pairs of numbers such as 16,0.5`);
  }
  return holdList(cells, description.most_cells, "cells", (pair) => [pair.map((number) => exact(Number(number))).join(","), ""]);
}

// Pinned runs as the address writes them: weight=grpo&group_size=64;weight=maxrl - settings that differ from the defaults

const SETTING = "&";

// The controls of a panel that make a run, by their names without it.
export function controlsOf(panel, controls) {
  const own = controls.filter(({ name, kind }) => name.startsWith(`${panel}.`) && kind !== "runs");
  return new Map(own.map((control) => [control.name.slice(panel.length + 1), control]));
}

// Pairs of name and text, a list for each run.
export function readPins(text) {
  return text ? text.split(SEPARATOR).map((run) => run.split(SETTING).filter(Boolean).map((pair) => {
    const equals = pair.indexOf("=");
    return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
  })) : [];
}

export function writePins(runs) {
  return runs.map((pairs) => pairs.map(([name, value]) => `${name}=${written(value)}`).join(SETTING)).join(SEPARATOR);
}

// The sliders' run as it is pinned: the settings that differ from the defaults. A run that differs in none is written by
// the first of them, for an empty text pins nothing.
export function pinOf(panel, values, { controls, simulated }) {
  const own = controlsOf(panel, controls);
  const differing = simulated[panel].filter((name) => values[name] !== own.get(name).default);
  return (differing.length ? differing : simulated[panel].slice(0, 1)).map((name) => [name, values[name]]);
}

// All settings of the sliders' run and of each pinned one; other settings, such as the seeds, are those of the sliders.
export function runsOf(panel, values, { controls, simulated }) {
  const own = controlsOf(panel, controls);
  return [values, ...readPins(values.pinned).map((pairs) => {
    const pinned = new Map(pairs);
    const run = simulated[panel].map((name) => {
      const { kind, default: usual } = own.get(name);
      if (!pinned.has(name)) return [name, usual];
      return [name, kind === "number" || kind === "whole" ? Number(pinned.get(name)) : pinned.get(name)];
    });
    return { ...values, ...Object.fromEntries(run) };
  })];
}

export const runOf = (panel, values, { simulated }) =>
  ({ panel, settings: Object.fromEntries(simulated[panel].map((name) => [name, values[name]])) });

// The name of each run: the settings in which the runs differ.
export function namesOf(panel, runs, { controls, simulated }) {
  const own = controlsOf(panel, controls);
  const differing = simulated[panel].filter((name) => runs.some((run) => run[name] !== runs[0][name]));
  const shown = differing.length ? differing : simulated[panel].slice(0, 1);
  return runs.map((run) => shown.map((name) => {
    const { kind, label } = own.get(name);
    return kind === "weight" ? run[name] : `${label} ${typeof run[name] === "number" ? short(run[name]) : run[name]}`;
  }).join(", "));
}
