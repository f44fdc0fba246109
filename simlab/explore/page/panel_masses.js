// Panel 2: what estimators put on successes and on failures, at every solve rate.

import { isFormula, pythonLines } from "./formula.js";
import { inks, paletteOn, rangeOf } from "./look.js";
import { hasLimit, masses } from "./masses.js";
import { element, escaped } from "./text.js";
import { readWeight, SEPARATOR, writeWeight } from "./weight_text.js";

const POINTS = 160;
const RATES = Array.from({ length: POINTS + 1 }, (_, i) => i / POINTS);

const JUMP = 1e-3; // of a mass between two solve rates that are next to each other as numbers go

// {rates, success, failure} of an estimator in the limit of large groups; a jump is a gap, nulls between its two sides.
export function limitCurve(defaults, weight) {
  const of = (p) => masses(defaults, weight.name, weight.parameters, p, Infinity);
  const points = RATES.map((p) => [p, of(p)]);
  const found = points.flatMap((point, i) => {
    if (i === 0) return [point];
    const sides = jumpBetween(of, points[i - 1], point);
    return sides ? [sides[0], [sides[0][0], [null, null]], sides[1], point] : [point];
  });
  return { rates: found.map(([p]) => p), success: found.map(([, [mass]]) => mass), failure: found.map(([, [, mass]]) => mass) };
}

const apart = ([, one], [, other]) => Math.max(Math.abs(one[0] - other[0]), Math.abs(one[1] - other[1]));

// The two sides of a jump between two points, each a rate with its masses; null if there is none.
function jumpBetween(of, low, high) {
  let sides = [low, high];
  for (let turn = 0; turn < 40 && apart(...sides) > JUMP; turn += 1) {
    const p = (sides[0][0] + sides[1][0]) / 2;
    const middle = [p, of(p)];
    sides = apart(sides[0], middle) > apart(middle, sides[1]) ? [sides[0], middle] : [middle, sides[1]];
  }
  return apart(...sides) > JUMP ? sides : null;
}

// {rates, success, failure} of an estimator along solve rates.
function curve(defaults, { name, parameters }, rates, size) {
  const pairs = rates.map((p) => masses(defaults, name, parameters, p, size));
  return { rates, success: pairs.map(([success]) => success), failure: pairs.map(([, failure]) => failure) };
}

function largest({ success, failure }) {
  return Math.max(...success.map(Math.abs), ...failure.map(Math.abs)) || 1;
}

// The lines of a curve as they are shown: a list of [suffix, dash, values].
function shown({ success, failure }, show, scale) {
  if (show === "m_S − m_F") {
    return [["m<sub>S</sub> − m<sub>F</sub>", 0, success.map((value, i) => (value === null ? null : value - failure[i]))]];
  }
  const scaled = (values) => values.map((value) => (value === null ? null : value / scale));
  const same = success.every((value, i) => Math.abs(value - failure[i]) < 1e-12);
  if (same) return [["m<sub>S</sub> = m<sub>F</sub>", 0, scaled(success)]];
  return [["m<sub>S</sub>", 0, scaled(success)], ["m<sub>F</sub>", 1, scaled(failure)]];
}

function tracesOf(weight, colour, { values, defaults, look }) {
  const size = values.group_size;
  const shares = Array.from({ length: size + 1 }, (_, s) => s / size);
  const finite = curve(defaults, weight, shares, size);
  const limit = hasLimit(defaults, weight.name, weight.parameters);
  const line = limit ? limitCurve(defaults, weight) : finite;
  const scale = values.show === "peak 1" ? largest(line) : 1;
  const name = writeWeight(weight);
  const group = { legendgroup: name };
  const lines = shown(line, values.show, scale).map(([suffix, dash, y], index) =>
    look.line(`${name} ${suffix}`, line.rates, y, {
      colour, dash, ...group, width: 2.2, hovertemplate: "%{y:.4f}", csv: `${name} ${suffix}${limit ? ", G to infinity" : ""}`,
      showlegend: index === 0 || dash > 0,
    }));
  const points = shown(finite, values.show, scale).map(([suffix, dash, y]) => ({
    ...look.line(`${name} ${suffix} at G = ${size}`, shares, y, { colour, ...group, showlegend: false }),
    mode: "markers",
    hovertemplate: "%{y:.4f}",
    marker: {
      size: size > 64 ? 4 : 7, color: dash ? look.ink.card : look.colour(colour),
      line: { color: look.colour(colour), width: 1.6 },
    },
  }));
  return [...lines, ...points];
}

function compute({ values, description, look }) {
  const weights = [values.weight, ...values.pinned.split(SEPARATOR).filter(Boolean)];
  const read = weights.map((text) => readWeight(text, description.estimators));
  const defaults = Object.fromEntries(Object.entries(description.estimators).map(([name, own]) => [name, own.defaults]));
  const traces = read.flatMap((weight, index) => tracesOf(weight, index, { values, defaults, look }));
  const title = { masses: "mass", "peak 1": "mass, the largest 1", "m_S − m_F": "m<sub>S</sub> − m<sub>F</sub>" };
  const layout = look.layout([
    { title: "", x: { title: "solve rate p", range: [-0.01, 1.01] },
      y: { title: title[values.show], range: rangeOf(traces.map(({ y }) => y)) } },
  ], { height: 500 });
  layout.margin.t = 16;
  const own = description.estimators[read[0].name];
  return {
    traces,
    layout,
    readout: `<b>${escaped(read[0].name)}</b>: m<sub>S</sub> = ${escaped(own.success)}` +
      `${own.failure === own.success ? " = m<sub>F</sub>" : `, m<sub>F</sub> = ${escaped(own.failure)}`}. Lines: the limit of large ` +
      `groups; points: groups of ${values.group_size}. Solid and filled: m<sub>S</sub>; dashed and open: m<sub>F</sub>.`,
    command: command(read, values.group_size),
    said: [],
  };
}

// A line of Python that prints the masses of every estimator that is seen.
function command(all, size) {
  const read = all.filter(({ name }) => !isFormula(name));
  if (!read.length) return pythonLines(all[0]);
  const calls = read.map(({ name, parameters }) => {
    const given = Object.entries(parameters).map(([key, value]) => `, ${key}=${typeof value === "number" ? value : `'${value}'`}`);
    return `masses('${name}', ${size}${given.join("")})`;
  });
  return `python -c "from simlab.theory import masses; print(${calls.join(", ")}${calls.length > 1 ? ", sep='\\n'" : ""})"`;
}

// The pinned estimators, each with a button that takes it away, and one that pins the present one.
function extra({ state, change, description }) {
  const list = element("ul", { class: "pins", "aria-label": "pinned estimators" });
  const pin = element("button", { type: "button", text: "Pin for comparison", onclick: () => {
    const pinned = state.values["masses.pinned"].split(SEPARATOR).filter(Boolean);
    const weight = state.values["masses.weight"];
    if (!pinned.includes(weight)) change("masses.pinned", [...pinned, weight].join(SEPARATOR));
  } });
  const node = element("div", { class: "control" }, pin, list);
  function show(values) {
    const pinned = values.pinned.split(SEPARATOR).filter(Boolean);
    pin.disabled = pinned.length >= description.most_pinned || pinned.includes(values.weight);
    const colours = paletteOn(description.palette, inks());
    list.replaceChildren(...pinned.map((weight, index) => {
      const colour = colours[(index + 1) % colours.length];
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = colour;
      const remove = element("button", { type: "button", class: "remove", "aria-label": `remove ${weight}`, text: "×",
        onclick: () => change("masses.pinned", pinned.filter((other) => other !== weight).join(SEPARATOR)) });
      return element("li", {}, swatch, element("span", { text: weight }), remove);
    }));
  }
  return { node, show };
}

export default {
  id: "masses",
  title: "Gradient masses",
  question: "How much does an estimator push on successes and on failures, at every solve rate?",
  note: "FADE's masses: the update is m<sub>S</sub> ∇<sub>S</sub> − m<sub>F</sub> ∇<sub>F</sub>. In a fresh state, and at " +
    "equal log-probabilities and lengths, where an estimator reads these.",
  symbols: ["m<sub>S</sub>", "m<sub>F</sub>", "p", "G", "γ"],
  compute,
  extra,
};
