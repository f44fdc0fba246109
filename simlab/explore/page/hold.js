// What a control takes when it is asked for a value: the value, held to its range, and what is to be said of that.
// The same rules as simlab.explore.settings.hold, by the same description.

import { cited } from "./names.js";
import { unknown } from "./nearest.js";
import { controlsOf, readPins, writePins } from "./pins.js";
import { exact, short } from "./text.js";
import { holdWeight, SEPARATOR } from "./weight_text.js";

const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;

export const lowest = (control) => (control.low === undefined ? -Infinity : control.low);
export const highest = (control) => (control.high === undefined ? Infinity : control.high);

// [value, message]; throws what is wrong with a text that cannot be read.
export function hold(control, text, description) {
  if (control.kind === "number" || control.kind === "whole") return holdNumber(control, text);
  if (control.kind === "weight") return holdWeight(String(text), description.estimators, control.closed);
  if (control.kind === "weights") return holdWeights(String(text), description);
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
  const [low, high] = [lowest(control), highest(control)];
  const range = `[${short(low)}, ${short(high)}]`;
  const value = typeof text === "number" ? text : Number(text);
  if (String(text).trim() === "" || Number.isNaN(value)) {
    throw new Error(`${control.label} = ${cited(text)} is not a number; allowed: ${range}`);
  }
  const held = Math.min(Math.max(value, low), high);
  if (held !== value) return [held, `${control.label} = ${short(value)} is outside ${range}; held at ${short(held)}`];
  if (control.kind === "whole" && held !== Math.round(held)) {
    return [Math.round(held), `${control.label} = ${short(value)} is not whole; held at ${Math.round(held)}`];
  }
  return [held, ""];
}

function holdWeights(text, description) {
  const listed = text.split(SEPARATOR).filter(Boolean);
  const most = description.most_pinned;
  const held = listed.slice(0, most).map((weight) => holdWeight(weight, description.estimators, true));
  const said = held.map(([, note]) => note).filter(Boolean);
  if (listed.length > most) said.push(`${listed.length} estimators are pinned; held at ${most}`);
  return [held.map(([weight]) => weight).join(SEPARATOR), said.join("; ")];
}

function holdRuns(control, text, description) {
  const panel = control.name.split(".")[0];
  const own = controlsOf(panel, description.controls);
  const listed = readPins(text);
  const said = [];
  const held = listed.slice(0, description.most_runs).map((pairs) => pairs.map(([name, value]) => {
    const known = own.get(name);
    if (!known) throw new Error(`${control.name} has a run with ${cited(name)}; allowed: settings of the panel ${panel}`);
    const [one, note] = hold(known, value, description);
    if (note) said.push(note);
    return [name, one];
  }));
  if (listed.length > description.most_runs) said.push(`${listed.length} runs are pinned; held at ${description.most_runs}`);
  return [writePins(held), said.join("; ")];
}

function holdCells(control, text, description) {
  const listed = text ? text.split(";").map((cell) => cell.split(",")) : [];
  const isRead = (pair) => pair.length === 2 && pair.every((number) => NUMBER.test(number) && Number.isFinite(Number(number)));
  if (!listed.every(isRead)) {
    throw new Error(`${control.name} = ${cited(text)} cannot be read; allowed: pairs of numbers such as 16,0.5`);
  }
  const held = listed.slice(0, description.most_cells).map((pair) => pair.map((number) => exact(Number(number))).join(","));
  return [held.join(";"), listed.length > held.length ? `${listed.length} cells are pinned; held at ${held.length}` : ""];
}
