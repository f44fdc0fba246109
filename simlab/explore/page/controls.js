// A labelled control for each setting: a slider with a number box, a choice, or an estimator with its parameters.

import { isFormula, pythonLines, SIGN } from "./formula.js";
import { highest, lowest } from "./hold.js";
import { entry } from "./names.js";
import { helpOf } from "./symbols.js";
import { element, short } from "./text.js";
import { hasMasses, linkedLines, readWeight, writeWeight } from "./weight_text.js";

const STOPS = 300;
const OWN = "your own formula";
const FIRST_FORMULA = "=(1 - p)^g * (r - p)/s";
const NEW_NUMBER = "a number with a slider";

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
// Places that have names show these.
export function numberControl({ id, label, help, bounds, onChange }) {
  const stops = stopsOf(bounds);
  const slider = element("input", { type: "range", id, min: 0, max: stops.length - 1, step: 1 });
  const box = element("input", {
    type: "text", inputmode: "decimal", id: `${id}-box`, class: "box", "aria-label": `${label}, as a number`,
    autocomplete: "off", spellcheck: "false",
  });
  slider.addEventListener("input", () => onChange(stops[Number(slider.value)]));
  box.addEventListener("change", () => onChange(box.value));
  if (bounds.choices?.length) box.readOnly = true;
  const heading = element("div", { class: "heading" }, element("label", { for: id, text: label }), box);
  if (help) box.before(helpOf(id, label, help));
  const node = element("div", { class: "control" }, heading, slider);
  function show(value) {
    if (Number(slider.value) !== nearest(stops, value)) slider.value = nearest(stops, value);
    if (bounds.choices?.length) {
      slider.setAttribute("aria-valuetext", bounds.choices[value]);
      box.value = bounds.choices[value];
      return;
    }
    slider.setAttribute("aria-valuetext", short(value));
    if (document.activeElement !== box || Number(box.value) !== value) box.value = short(value, 6);
  }
  return { node, show };
}

// A choice of a few words.
export function choiceControl({ id, label, help, choices, onChange }) {
  const select = element("select", { id });
  for (const choice of choices) select.append(element("option", { value: String(choice), text: String(choice) }));
  select.addEventListener("change", () => onChange(select.value));
  const heading = element("div", { class: "heading" }, element("label", { for: id, text: label }), select);
  if (help) select.before(helpOf(id, label, help));
  const node = element("div", { class: "control choice" }, heading);
  return { node, show: (value) => { select.value = String(value); } };
}

// An estimator, a control for each of its parameters, and a button that takes it to all panels.
export function weightControl({ id, label, help, names, estimators, onChange, onAll }) {
  const inner = element("div", { class: "parameters" });
  const note = element("p", { class: "formula" });
  let shown = { name: "", parts: {} };
  let current = { name: "", parameters: {} };
  const select = choiceControl({ id, label, help, choices: [...names, OWN],
    onChange: (name) => onChange(name === OWN ? FIRST_FORMULA : name) });
  const own = formulaField(id, (formula) => onChange(SIGN + formula), estimators);
  const all = element("button", { type: "button", text: "Use in all panels", onclick: () => onAll(writeWeight(current)) });
  const node = element("div", { class: "weight" }, select.node, own.node, note, inner, all);

  function change(key, value) {
    onChange(writeWeight({ name: current.name, parameters: { ...current.parameters, [key]: value } }));
  }

  function rebuild(name) {
    const parts = {};
    for (const [key, known] of Object.entries(estimators[name].parameters)) {
      const shared = { id: `${id}-${key}`, label: key, help: known.help, onChange: (value) => change(key, value) };
      parts[key] = known.choices.length
        ? choiceControl({ ...shared, choices: known.choices })
        : numberControl({ ...shared, bounds: known });
    }
    inner.replaceChildren(...Object.values(parts).map((part) => part.node));
    note.textContent = isFormula(name) ? `r: reward, p: solve rate, q = 1 − p, s = sqrt(p q), G: group size, g: ${NEW_NUMBER}`
      : `A = ${estimators[name].formula}`;
    shown = { name, parts };
  }

  function show(text) {
    current = readWeight(text, estimators);
    if (current.name !== shown.name) rebuild(current.name);
    select.show(isFormula(current.name) ? OWN : current.name);
    own.show(current);
    for (const [key, part] of Object.entries(shown.parts)) {
      part.show(entry(current.parameters, key) ?? estimators[current.name].parameters[key].default);
    }
  }
  return { node, show };
}

const LINKED = "linked"; // whose links are picked from lists

// A field for a formula, and the Python lines that make an estimator of it, or of links that are picked.
function formulaField(id, onFormula, estimators) {
  const field = element("input", { type: "text", id: `${id}-formula`, class: "box formula-box", autocomplete: "off", spellcheck: "false" });
  field.addEventListener("change", () => onFormula(field.value));
  const lines = element("pre", { class: "python", tabindex: "0", "aria-label": "the same as an estimator in Python" });
  const details = element("details", {}, element("summary", { text: "as Python" }), lines);
  const label = element("label", { for: `${id}-formula`, text: "A =" });
  const node = element("div", { class: "control" }, label, field, details);
  let present = null;
  const write = () => { lines.textContent = isFormula(present.name) ? pythonLines(present) : linkedLines(present, estimators); };
  details.addEventListener("toggle", () => { if (details.open) write(); });
  function show(weight) {
    present = weight;
    node.hidden = !isFormula(weight.name) && weight.name !== LINKED;
    if (node.hidden) return;
    label.hidden = field.hidden = !isFormula(weight.name);
    if (!field.hidden && document.activeElement !== field) field.value = weight.name.slice(SIGN.length);
    if (details.open) write();
  }
  return { node, show };
}

// The control of a setting: {node, show}, or null where a panel has its own. `onAll(weight)` hears of an estimator that is to be
// used in all panels.
export function controlOf(control, description, onChange, onAll) {
  const shared = { id: control.name.replace(".", "-"), label: control.label, help: control.help, onChange };
  if (control.kind === "number" || control.kind === "whole") {
    const bounds = { ...control, low: lowest(control), high: highest(control) };
    return numberControl({ ...shared, bounds });
  }
  if (control.kind === "choice") return choiceControl({ ...shared, choices: control.choices });
  if (control.kind === "weight") {
    const all = Object.keys(description.estimators);
    const names = all.filter((name) => !control.closed || hasMasses(description.estimators[name]));
    return weightControl({ ...shared, names, estimators: description.estimators, onAll });
  }
  return null;
}
