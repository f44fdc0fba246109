// Pinned runs of a panel as the address writes them: weight=grpo&group_size=64;weight=maxrl - settings that differ from the
// panel's defaults.

import { exact, short } from "./text.js";

const RUN = ";";
const SETTING = "&";
const NOT_OF_A_RUN = ["runs"]; // kinds of controls

// The controls of a panel that make a run, by their names without it.
export function controlsOf(panel, controls) {
  const own = controls.filter(({ name, kind }) => name.startsWith(`${panel}.`) && !NOT_OF_A_RUN.includes(kind));
  return new Map(own.map((control) => [control.name.slice(panel.length + 1), control]));
}

// Pairs of name and text, a list for each run.
export function readPins(text) {
  return text ? text.split(RUN).map((run) => run.split(SETTING).filter(Boolean).map((pair) => {
    const equals = pair.indexOf("=");
    return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
  })) : [];
}

export function writePins(runs) {
  return runs.map((pairs) => pairs.map(([name, value]) => `${name}=${written(value)}`).join(SETTING)).join(RUN);
}

const written = (value) => (typeof value === "number" ? exact(value) : value);

// A run as it is pinned: the settings in which values differ from the defaults. `names` are those that make a run. A run
// that differs in none is written by the first of them, for an empty text pins nothing.
export function pinOf(values, names, own) {
  const differing = names.filter((name) => values[name] !== own.get(name).default);
  return (differing.length ? differing : names.slice(0, 1)).map((name) => [name, values[name]]);
}

// All settings of each pinned run; other settings, such as the seeds, are those of the present one.
export function runsOf(values, names, own) {
  return readPins(values.pinned).map((pairs) => {
    const given = new Map(pairs);
    const run = names.map((name) => {
      const { kind, default: usual } = own.get(name);
      if (!given.has(name)) return [name, usual];
      return [name, kind === "number" || kind === "whole" ? Number(given.get(name)) : given.get(name)];
    });
    return { ...values, ...Object.fromEntries(run) };
  });
}

// What each run is called: the settings in which the runs differ.
export function namesOf(runs, names, own) {
  const differing = names.filter((name) => runs.some((run) => run[name] !== runs[0][name]));
  const shown = differing.length ? differing : names.slice(0, 1);
  return runs.map((run) => shown.map((name) => {
    const { kind, label } = own.get(name);
    return kind === "weight" ? run[name] : `${label} ${typeof run[name] === "number" ? short(run[name]) : run[name]}`;
  }).join(", "));
}
