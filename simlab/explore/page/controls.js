// A labelled control for each setting: a slider with a number box, a choice, or an estimator with its parameters.

import { highest, lowest } from "./hold.js";
import { entry } from "./names.js";
import { element, short } from "./text.js";
import { readWeight, writeWeight } from "./weight_text.js";

const STOPS = 300;

// The values that a slider stops at, the bounds among them.
export function stopsOf({ low, high, scale, kind, whole }) {
  const values = [];
  const isWhole = kind === "whole" || whole;
  const count = isWhole && scale !== "log" ? Math.min(STOPS, high - low) : STOPS;
  for (let i = 0; i <= count; i += 1) {
    const share = i / count;
    const value = scale === "log" ? low * (high / low) ** share : low + (high - low) * share;
    values.push(isWhole ? Math.round(value) : Number(value.toPrecision(3)));
  }
  [values[0], values[values.length - 1]] = [low, high];
  return [...new Set(values)].sort((left, right) => left - right);
}

function nearest(stops, value) {
  let found = 0;
  stops.forEach((stop, index) => {
    if (Math.abs(stop - value) < Math.abs(stops[found] - value)) found = index;
  });
  return found;
}

// A slider with a number box: {node, show}. `onChange(text)` hears of every move.
export function numberControl({ id, label, help, bounds, onChange }) {
  const stops = stopsOf(bounds);
  const slider = element("input", { type: "range", id, min: 0, max: stops.length - 1, step: 1, title: help });
  const box = element("input", {
    type: "text", inputmode: "decimal", id: `${id}-box`, class: "box", "aria-label": `${label}, as a number`,
    autocomplete: "off", spellcheck: "false",
  });
  slider.addEventListener("input", () => onChange(stops[Number(slider.value)]));
  box.addEventListener("change", () => onChange(box.value));
  const heading = element("div", { class: "heading" }, element("label", { for: id, text: label }), box);
  const node = element("div", { class: "control", title: help || "" }, heading, slider);
  function show(value) {
    if (Number(slider.value) !== nearest(stops, value)) slider.value = nearest(stops, value);
    slider.setAttribute("aria-valuetext", short(value));
    if (document.activeElement !== box || Number(box.value) !== value) box.value = short(value, 6);
  }
  return { node, show };
}

// A choice of a few words.
export function choiceControl({ id, label, help, choices, onChange }) {
  const select = element("select", { id, title: help || "" });
  for (const choice of choices) select.append(element("option", { value: String(choice), text: String(choice) }));
  select.addEventListener("change", () => onChange(select.value));
  const heading = element("div", { class: "heading" }, element("label", { for: id, text: label }), select);
  const node = element("div", { class: "control choice", title: help || "" }, heading);
  return { node, show: (value) => { select.value = String(value); } };
}

// An estimator, and a control for each of its parameters.
export function weightControl({ id, label, help, names, estimators, onChange }) {
  const inner = element("div", { class: "parameters" });
  const note = element("p", { class: "formula" });
  let shown = { name: "", parts: {} };
  let current = { name: "", parameters: {} };
  const select = choiceControl({ id, label, help, choices: names, onChange: (name) => onChange(name) });
  const node = element("div", { class: "weight" }, select.node, note, inner);

  function change(key, value) {
    onChange(writeWeight({ name: current.name, parameters: { ...current.parameters, [key]: value } }));
  }

  function rebuild(name) {
    const parts = {};
    for (const [key, known] of Object.entries(estimators[name].parameters)) {
      const shared = { id: `${id}-${key}`, label: key, help: `${key} of ${name}`, onChange: (value) => change(key, value) };
      parts[key] = known.choices.length
        ? choiceControl({ ...shared, choices: known.choices })
        : numberControl({ ...shared, bounds: known });
    }
    inner.replaceChildren(...Object.values(parts).map((part) => part.node));
    note.textContent = `A = ${estimators[name].formula}`;
    shown = { name, parts };
  }

  function show(text) {
    current = readWeight(text, estimators);
    if (current.name !== shown.name) rebuild(current.name);
    select.show(current.name);
    for (const [key, part] of Object.entries(shown.parts)) {
      part.show(entry(current.parameters, key) ?? estimators[current.name].parameters[key].default);
    }
  }
  return { node, show };
}

// The control of a setting: {node, show}, or null where a panel has its own.
export function controlOf(control, description, onChange) {
  const shared = { id: control.name.replace(".", "-"), label: control.label, help: control.help, onChange };
  if (control.kind === "number" || control.kind === "whole") {
    const bounds = { ...control, low: lowest(control), high: highest(control) };
    return numberControl({ ...shared, bounds });
  }
  if (control.kind === "choice") return choiceControl({ ...shared, choices: control.choices });
  if (control.kind === "weight") {
    const all = Object.keys(description.estimators);
    const names = all.filter((name) => !control.closed || description.estimators[name].success !== null);
    return weightControl({ ...shared, names, estimators: description.estimators });
  }
  return null;
}
