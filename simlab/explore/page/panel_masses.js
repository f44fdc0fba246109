// Panel 2: what estimators put on successes and on failures, at every solve rate.

import { isFormula } from "./formula.js";
import { rangeOf } from "./look.js";
import { isTabled, tableOf, tableQuestions } from "./mass_tables.js";
import { hasLimit, masses } from "./masses.js";
import { fullInWords, swatchOf } from "./pins_control.js";
import { element, escaped, short } from "./text.js";
import { readWeight, SEPARATOR, writeWeight } from "./weight_text.js";

const POINTS = 160;
const RATES = Array.from({ length: POINTS + 1 }, (_, i) => i / POINTS);

const ALIKE = 0.005; // of solve rates that are told as one
const DASHES_AGAIN = [3, 2]; // of m_S and m_F, where the colours were all taken before
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

// {limit, line, finite} of a weight: whether its line is the limit of large groups, the line, and groups of the size;
// null while its table has not come.
function curvesOf(weight, { values, defaults, estimators, slices }) {
  const size = values.group_size;
  const shares = Array.from({ length: size + 1 }, (_, s) => s / size);
  if (isTabled(weight, estimators)) {
    const table = tableOf(weight, size, slices);
    return table && { limit: false, line: { rates: shares, ...table }, finite: { rates: shares, ...table } };
  }
  const finite = curve(defaults, weight, shares, size);
  const limit = hasLimit(defaults, weight.name, weight.parameters);
  return { limit, line: limit ? limitCurve(defaults, weight) : finite, finite };
}

function tracesOf(weight, colour, curves, { values, look }) {
  if (!curves) return [];
  const size = values.group_size;
  const { limit, line, finite } = curves;
  const scale = values.show === "peak 1" ? largest(line) : 1;
  const name = writeWeight(weight);
  const group = { legendgroup: name };
  const turn = look.turn(colour);
  const lines = shown(line, values.show, scale).map(([suffix, dash, y], index) =>
    look.line(`${name} ${suffix}`, line.rates, y, {
      colour, dash: turn ? DASHES_AGAIN[dash] : dash, ...group, width: 2.2, hovertemplate: "%{y:.4f}", csv: `${name} ${suffix}${limit ? ", G to infinity" : ""}`,
      showlegend: index === 0 || dash > 0,
    }));
  const points = shown(finite, values.show, scale).map(([suffix, dash, y]) => ({
    ...look.line(`${name} ${suffix} at G = ${size}`, finite.rates, y, { colour, ...group, showlegend: false }),
    mode: "markers",
    hovertemplate: "%{y:.4f}",
    marker: {
      symbol: turn ? "diamond" : "circle", size: size > 64 ? 4 : 7, color: dash ? look.ink.card : look.colour(colour),
      line: { color: look.colour(colour), width: 1.6 },
    },
  }));
  return [...lines, ...points];
}

const readAll = (values, { estimators }) =>
  [values.weight, ...values.pinned.split(SEPARATOR).filter(Boolean)].map((text) => readWeight(text, estimators));

function compute({ values, description, look, slices }) {
  const read = readAll(values, description);
  const defaults = Object.fromEntries(Object.entries(description.estimators).map(([name, own]) => [name, own.defaults]));
  const curves = read.map((weight) => curvesOf(weight, { values, defaults, estimators: description.estimators, slices }));
  const drawn = read.flatMap((weight, index) => tracesOf(weight, index, curves[index], { values, look }));
  const traces = drawn.length ? drawn : [look.line("", [0, 1], [null, null], { showlegend: false })];
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
    readout: `${curves[0] ? pushInWords(read[0], curves[0].line) : ""}${extremesInWords(read, curves)}${formulaInWords(read[0], own)} Lines: the limit of large ` +
      `groups, where there is one; points: groups of ${values.group_size}. Solid and filled: m<sub>S</sub>; dashed and open: m<sub>F</sub>.` +
      (look.turn(read.length - 1) ? ` Where colours come again, dash-dotted: m<sub>S</sub>; dotted: m<sub>F</sub>.` : ""),
    command: command(read, values.group_size, description),
    said: [],
  };
}

function formulaInWords({ name }, { success, failure }) {
  if (success === null) return `<b>${escaped(name)}</b> has no closed form: its masses are those that it computes itself.`;
  return `<b>${escaped(name)}</b>: m<sub>S</sub> = ${escaped(success)}` +
    `${failure === success ? " = m<sub>F</sub>" : `, m<sub>F</sub> = ${escaped(failure)}`}.`;
}

// {half, peak} of what a weight pushes, |m_S| + |m_F| over solve rates that are equally frequent: the rate below which half of it
// lies, and the rate where it is largest; null where it pushes nothing.
export function pushOf({ rates, success, failure }) {
  const there = rates.map((p, i) => [p, success[i] === null ? null : Math.abs(success[i]) + Math.abs(failure[i])]).filter(([, push]) => push !== null);
  const parts = there.slice(1).map(([p, push], i) => ({ from: there[i], to: [p, push], area: ((p - there[i][0]) * (push + there[i][1])) / 2 }));
  const total = parts.reduce((sum, { area }) => sum + area, 0);
  if (!(total > 0)) return null;
  const peak = there.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  let before = 0;
  for (const { from: [low, start], to: [high, end], area } of parts) {
    if (before + area < total / 2) {
      before += area;
      continue;
    }
    // Between two rates the push is linear, and what lies below a rate is quadratic.
    const [wanted, slope] = [total / 2 - before, (end - start) / (high - low)];
    const along = Math.abs(slope) < 1e-12 ? wanted / start : (Math.sqrt(start ** 2 + 2 * slope * wanted) - start) / slope;
    return { half: low + along, peak };
  }
  return null;
}

// The finding: towards which prompts a weight turns training.
function pushInWords(weight, line) {
  const push = pushOf(line);
  if (!push) return `<b>${escaped(writeWeight(weight))}</b> pushes nothing at any solve rate. `;
  return `Over prompts of all solve rates alike, half of what <b>${escaped(writeWeight(weight))}</b> pushes comes from those with ` +
    `p below <b>${short(push.half, 2)}</b>, most at p = <b>${short(push.peak, 2)}</b>. `;
}

// Which of several weights turns training most to prompts that are seldom solved, and which to those that often are; "" for one.
function extremesInWords(read, curves) {
  const halves = read.map((weight, i) => ({ name: escaped(writeWeight(weight)), half: (curves[i] && pushOf(curves[i].line)?.half) ?? null }))
    .filter(({ half }) => half !== null).sort((left, right) => left.half - right.half);
  if (halves.length < 2) return "";
  const [first, last] = [halves[0], halves.at(-1)];
  if (last.half - first.half < ALIKE) return `The ${halves.length} weights turn to the same prompts. `;
  return `Of the ${halves.length} weights <b>${first.name}</b> turns most to prompts that are seldom solved (half below p = ` +
    `${short(first.half, 2)}), <b>${last.name}</b> most to those that often are (half below ${short(last.half, 2)}). `;
}

// A line of Python that prints the masses of every estimator that is seen.
function command(read, size, { estimators }) {
  if (read.some((weight) => isFormula(weight.name) || isTabled(weight, estimators))) return commandOfAll(read, size);
  const calls = read.map(({ name, parameters }) => {
    const given = Object.entries(parameters).map(([key, value]) => `, ${key}=${typeof value === "number" ? value : `'${value}'`}`);
    return `masses('${name}', ${size}${given.join("")})`;
  });
  return `python -c "from simlab.theory import masses; print(${calls.join(", ")}${calls.length > 1 ? ", sep='\\n'" : ""})"`;
}

// The same where formulas, or estimators without a closed form, are among them.
function commandOfAll(read, size) {
  const files = [...new Set(read.map(({ name }) => name).filter((name) => name.includes(":")))];
  const register = files.length ? `from simlab.explore.own import register_files; register_files([${files.map((name) => `'${name}'`).join(", ")}]); ` : "";
  const asked = read.map((weight) => `{'weight': '${writeWeight(weight)}', 'group_size': ${size}}`);
  return `python -c "${register}from simlab.explore.mass_request import answered; print(*map(answered, [${asked.join(", ")}]), sep='\\n')"`;
}

// The pinned estimators, each with a button that takes it away, and one that pins the present one.
function extra({ state, change, description }) {
  const list = element("ul", { class: "pins", "aria-label": "pinned estimators" });
  const pin = element("button", { type: "button", text: "Pin for comparison", onclick: () => {
    const pinned = state.values["masses.pinned"].split(SEPARATOR).filter(Boolean);
    const weight = state.values["masses.weight"];
    if (!pinned.includes(weight)) change("masses.pinned", [...pinned, weight].join(SEPARATOR));
  } });
  const full = element("p", { class: "full" });
  const node = element("div", { class: "control" }, pin, full, list);
  function show(values) {
    const pinned = values.pinned.split(SEPARATOR).filter(Boolean);
    pin.disabled = pinned.length >= description.most_pinned || pinned.includes(values.weight);
    full.textContent = fullInWords(pinned.length, description.most_pinned, "estimators");
    list.replaceChildren(...pinned.map((weight, index) => {
      const swatch = swatchOf(index + 1, description);
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
  symbols: ["m<sub>S</sub>", "m<sub>F</sub>", "p", "q", "G", "γ"],
  compute,
  extra,
  questions: { path: "masses", of: (values, description) => tableQuestions(readAll(values, description), values.group_size, description.estimators) },
};
