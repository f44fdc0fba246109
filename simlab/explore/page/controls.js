// A labelled control for each setting: a slider with a number box, a choice, or an estimator with its parameters.

import { placeOfLeast } from "./closed_forms.js";
import { inks, paletteOn } from "./look.js";
import { entry, isFormula, linkedLines, namesOf, pinOf, readPins, readWeight, runsOf, SIGN, writePins, writeWeight } from "./settings.js";
import { element, short } from "./text.js";

const STOPS = 300;
const AHEAD = 3; // stops on either side of a slider whose questions are asked before it is there
const OWN = "your own formula";
const FIRST_FORMULA = "=(1 - p)^g * (r - p)/s";
const NEW_NUMBER = "a number with a slider";

// The values that a slider stops at, the bounds among them.
export function stopsOf({ low, high, scale, kind, whole }) {
  const values = [];
  const isWhole = kind === "whole" || whole;
  const count = scale === "octaves" ? Math.log2(high / low) : isWhole && scale !== "log" ? Math.min(STOPS, high - low) : STOPS;
  for (let i = 0; i <= count; i += 1) {
    const share = i / count;
    const value = scale !== "linear" ? low * (high / low) ** share : low + (high - low) * share;
    values.push(isWhole ? Math.round(value) : Number(value.toPrecision(3)));
  }
  [values[0], values[values.length - 1]] = [low, high];
  return [...new Set(values)].sort((left, right) => left - right);
}

export function stopsBeside(control, value) {
  if (!["number", "whole"].includes(control.kind)) return [];
  const stops = stopsOf(control);
  const place = nearest(stops, value);
  return stops.slice(Math.max(place - AHEAD, 0), place + AHEAD + 1);
}

const nearest = (stops, value) => placeOfLeast(stops, (stop) => Math.abs(stop - value));

// A slider with a number box: {node, show}. `onChange(text)` hears of every move.
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
  const node = element("div", { class: "control" }, headingOf(id, label, help, box), slider);
  function show(value) {
    if (Number(slider.value) !== nearest(stops, value)) slider.value = nearest(stops, value);
    if (bounds.choices?.length) {
      box.value = bounds.choices[Math.min(value, bounds.high)];
      slider.setAttribute("aria-valuetext", box.value);
      return;
    }
    slider.setAttribute("aria-valuetext", short(value));
    if (document.activeElement !== box || Number(box.value) !== value) box.value = short(value, 6);
  }
  return { node, show };
}

export function choiceControl({ id, label, help, choices, onChange }) {
  const select = element("select", { id });
  for (const choice of choices) select.append(element("option", { value: String(choice), text: String(choice) }));
  select.addEventListener("change", () => onChange(select.value));
  const node = element("div", { class: "control choice" }, headingOf(id, label, help, select));
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
  const field = element("textarea", { rows: 2, id: `${id}-formula`, class: "box formula-box", autocomplete: "off", spellcheck: "false" });
  field.addEventListener("change", () => onFormula(field.value.replaceAll("\n", " ")));
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") field.blur(); });
  const lines = element("pre", { class: "python", tabindex: "0", "aria-label": "the same as an estimator in Python" });
  const details = element("details", {}, element("summary", { text: "as Python" }), lines);
  const label = element("label", { for: `${id}-formula`, text: "A =" });
  const node = element("div", { class: "control" }, label, field, details);
  let present = null;
  const write = () => { lines.textContent = isFormula(present.name) ? withNumber(estimators[present.name].python, present) : linkedLines(present, estimators); };
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

const withNumber = (lines, { parameters: { g } }) => lines.replace(/^( {4}g = ).*$/m, (_, start) => start + g);

// The control of a setting: {node, show}, or null where a panel has its own. `onAll(weight)` hears of an estimator that is to be
// used in all panels.
export function controlOf(control, description, onChange, onAll) {
  const shared = { id: control.name.replace(".", "-"), label: control.label, help: control.help, onChange };
  if (["number", "whole"].includes(control.kind)) return numberControl({ ...shared, bounds: control });
  if (control.kind === "choice") return choiceControl({ ...shared, choices: control.choices });
  if (control.kind === "weight") {
    const all = Object.keys(description.estimators);
    const names = all.filter((name) => !isFormula(name) && (!control.closed || description.estimators[name].has_masses));
    return weightControl({ ...shared, names, estimators: description.estimators, onAll });
  }
  return null;
}

// Pinned runs

const STROKES = ["solid", "dashed", "dotted"]; // by how many times the colours were all taken before

function swatchOf(colour, { palette }) {
  const swatch = element("span", { class: "swatch" });
  const colours = paletteOn(palette, inks());
  swatch.style.borderTop = `4px ${STROKES[Math.floor(colour / colours.length)]} ${colours[colour % colours.length]}`;
  return swatch;
}

// A list of pins, each with a swatch and a button that removes it, and a button that pins the present one: {nodes, show}.
// `show(names, isPinned)` hears of all names and whether the present one is among them; `colourOf(place)` is the colour of a swatch.
export function pinList({ label, plural, most, onPin, onRemove, colourOf, buttons = [] }, description) {
  const list = element("ul", { class: "pins", "aria-label": `pinned ${plural}` });
  const pin = element("button", { type: "button", text: label, onclick: onPin });
  const full = element("p", { class: "full" });
  const nodes = [pin, ...buttons, full, list];
  let shown = "";
  function show(names, isPinned) {
    const now = JSON.stringify([names, isPinned, document.documentElement.dataset.theme]);
    if (now === shown) return;
    shown = now;
    pin.disabled = names.length >= most || isPinned;
    full.textContent = names.length < most ? "" : `${names.length} ${plural} are pinned, as many as are compared: remove one to pin another.`;
    list.replaceChildren(...names.map((text, place) => element("li", {},
      colourOf ? swatchOf(colourOf(place + 1), description) : element("span"), element("span", { text }),
      element("button", { type: "button", class: "remove", "aria-label": `remove ${text}`, text: "×", onclick: () => onRemove(place) }))));
  }
  return { nodes, show };
}

export function pinsControl({ id, pinned: { colourOf } }, { state, change, description }) {
  const pins = () => readPins(state.of(id).pinned);
  const list = pinList({
    label: "Pin this run to compare", plural: "runs", most: description.most_runs, colourOf,
    onPin: () => change(`${id}.pinned`, writePins([...pins(), pinOf(id, state.of(id), description)])),
    onRemove: (place) => change(`${id}.pinned`, writePins(pins().filter((_, other) => other !== place))),
  }, description);
  function show(values) {
    const present = writePins([pinOf(id, values, description)]);
    const names = namesOf(id, runsOf(id, values, description), description).slice(1);
    list.show(names, readPins(values.pinned).some((pairs) => writePins([pairs]) === present));
  }
  return { node: element("div", { class: "control" }, ...list.nodes), show };
}

// Symbols and help: each is a button whose meaning is seen while it is pointed at or has the focus

const SYMBOLS = {
  "Q<sub>pos</sub>": "correct mass: the probability that the policy answers correctly",
  "M<sub>ret</sub>": "retained mass: the share of the first correct probability that the correct actions still have, each at most what it had",
  "m<sub>S</sub>": "mass of successes: how much an update pushes towards the correct rollouts of a group",
  "m<sub>F</sub>": "mass of failures: how much an update pushes away from its incorrect rollouts",
  "Q<sub>upos</sub>": "missed correct mass: the probability of the correct actions that the group did not hold",
  "dp": "change of an action's probability in one step, to first order",
  k: "how many samples are drawn; one correct one is enough",
  q: "1 − p, the share of a prompt's rollouts that are incorrect",
  "R<sub>c</sub>": "reward of a sampled correct action",
  "R<sub>w</sub>": "reward of a sampled incorrect action",
  "S<sub>R</sub>": "expected reward, where unsampled actions get 0",
  "pass@k": "the probability that k samples hold a correct one",
  G: "group size: how many rollouts are drawn for one prompt",
  γ: "gamma: the exponent of the focal weight (1 − p)^γ, which turns training to prompts that are seldom solved",
  μ: "correct mass: the probability that a rollout is correct",
  τ: "target mass: the probability of a rare part of the correct answers",
  p: "solve rate: the share of a prompt's rollouts that are correct",
  η: "learning rate",
};

const tipOf = (id, text, shown) => element("span", { class: "help" },
  element("button", { type: "button", class: "symbol", "aria-describedby": id, ...shown }), element("span", { class: "tip", role: "tooltip", id, text }));

export const symbolsOf = (names) => names.map((name, place) => tipOf(`symbol-${place}`, SYMBOLS[name], { html: name }));

// What stands above a field: its label, help on it, and the field itself where it is small.
function headingOf(id, label, help, field) {
  const tip = help ? [tipOf(`${id}-help`, help, { "aria-label": `help: ${label}`, text: "?" })] : [];
  return element("div", { class: "heading" }, element("label", { for: id, text: label }), ...tip, field);
}
