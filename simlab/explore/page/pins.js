// Pinned runs of a panel as the address writes them: weight=grpo&group_size=64;weight=maxrl - settings that differ from the
// panel's defaults.

import { exact, short } from "./text.js";

const RUN = ";";
const SETTING = "&";

// The controls of a panel that make a run, by their names without it.
export function controlsOf(panel, controls) {
  const own = controls.filter(({ name, kind }) => name.startsWith(`${panel}.`) && kind !== "runs");
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
  const written = (value) => (typeof value === "number" ? exact(value) : value);
  return runs.map((pairs) => pairs.map(([name, value]) => `${name}=${written(value)}`).join(SETTING)).join(RUN);
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

// The run {panel, settings} of some values.
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
