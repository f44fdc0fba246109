// The panel of masses: what estimators put on successes and on failures, at every solve rate.

import { pinList } from "./controls.js";
import { rangeOf } from "./look.js";
import { isFormula, readWeight, SEPARATOR } from "./settings.js";
import { element, escaped, short } from "./text.js";

const ALIKE = 0.005; // solve rates that are no further apart are one
const DASHES_AGAIN = [3, 2]; // of m_S and m_F, where the colours were all taken before

const weightsOf = (values) => [values.weight, ...values.pinned.split(SEPARATOR).filter(Boolean)];

export const massQuestions = (weights, size) => weights.map((weight) => ({ weight, group_size: size }));

// A note on answers in advance that are of other parameters or another group size.
export function otherMasses(questions, answers) {
  const others = questions.flatMap(({ weight, group_size: size }, i) => {
    const { shown = weight, group_size: other = size } = answers?.[i] ?? {};
    return [...(shown === weight ? [] : [`${shown} for ${weight}`]), ...(other === size ? [] : [`groups of ${other} for ${size}`])];
  });
  return others.length ? [`shown is what was computed in advance: ${[...new Set(others)].join(", ")} (simlab explore)`] : [];
}

// {name, limit, line, finite} of a weight: its line is the limit of large groups, where there is one, or that of the groups.
function curvesOf(weight, answer) {
  const { success, failure, limit, push, shown } = answer;
  const finite = { rates: success.map((_, s) => s / (success.length - 1)), success, failure };
  return { name: shown ?? weight, limit: Boolean(limit), line: limit ?? finite, finite, push };
}

const largest = ({ success, failure }) => Math.max(...success.map(Math.abs), ...failure.map(Math.abs)) || 1;

// The lines of a curve as they are shown: a list of [suffix, dash, values].
function shownLines({ success, failure }, show, scale) {
  if (show === "m_S − m_F") {
    return [["m<sub>S</sub> − m<sub>F</sub>", 0, success.map((value, i) => (value === null ? null : value - failure[i]))]];
  }
  const scaled = (values) => values.map((value) => (value === null ? null : value / scale));
  const same = success.every((value, i) => Math.abs(value - failure[i]) < 1e-12);
  if (same) return [["m<sub>S</sub> = m<sub>F</sub>", 0, scaled(success)]];
  return [["m<sub>S</sub>", 0, scaled(success)], ["m<sub>F</sub>", 1, scaled(failure)]];
}

function tracesOf({ name, limit, line, finite }, colour, { values, look }) {
  const size = finite.rates.length - 1;
  const scale = values.show === "peak 1" ? largest(line) : 1;
  const group = { legendgroup: name };
  const turn = look.turn(colour);
  const lines = shownLines(line, values.show, scale).map(([suffix, dash, y], index) =>
    look.line(`${name} ${suffix}`, line.rates, y, {
      colour, dash: turn ? DASHES_AGAIN[dash] : dash, ...group, width: 2.2, hovertemplate: "%{y:.4f}",
      csv: `${name} ${suffix}${limit ? ", G to infinity" : ""}`, showlegend: index === 0 || dash > 0,
    }));
  const points = shownLines(finite, values.show, scale).map(([suffix, dash, y]) => ({
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

function compute({ values, description, look, answers }) {
  const weights = weightsOf(values);
  const curves = answers ? weights.map((weight, i) => curvesOf(weight, answers[i])) : [];
  const drawn = curves.flatMap((curve, index) => tracesOf(curve, index, { values, look }));
  const traces = drawn.length ? drawn : [look.line("", [0, 1], [null, null], { showlegend: false })];
  const title = { masses: "mass", "peak 1": "mass, the largest 1", "m_S − m_F": "m<sub>S</sub> − m<sub>F</sub>" };
  const layout = look.layout([
    { title: "", x: { title: "solve rate p", range: [-0.01, 1.01] },
      y: { title: title[values.show], range: rangeOf(traces.map(({ y }) => y)) } },
  ], { height: 500 });
  layout.margin.t = 16;
  return { traces, layout,
    readout: `${pushInWords(curves[0])}${extremesInWords(curves)}${formulaInWords(weights[0], description)} Lines: the limit of large ` +
      `groups, where there is one; points: groups of ${curves.length ? curves[0].finite.rates.length - 1 : values.group_size}. Solid and filled: m<sub>S</sub>; dashed and open: m<sub>F</sub>.` +
      (look.turn(weights.length - 1) ? ` Where colours come again, dash-dotted: m<sub>S</sub>; dotted: m<sub>F</sub>.` : ""),
    command: command(weights, values.group_size, description),
    notes: otherMasses(massQuestions(weights, values.group_size), answers),
  };
}

function formulaInWords(weight, { estimators }) {
  const { name } = readWeight(weight, estimators);
  const { success, failure } = estimators[name];
  if (success === null) return `<b>${escaped(name)}</b> has no closed form: its masses are those that it computes itself.`;
  return `<b>${escaped(name)}</b>: m<sub>S</sub> = ${escaped(success)}` +
    `${failure === success ? " = m<sub>F</sub>" : `, m<sub>F</sub> = ${escaped(failure)}`}.`;
}

function pushInWords(curve) {
  if (!curve) return "";
  const [name, push] = [escaped(curve.name), curve.push];
  if (!push) return `<b>${name}</b> pushes nothing at any solve rate. `;
  return `Over prompts of all solve rates alike, half of what <b>${name}</b> pushes comes from those with ` +
    `p below <b>${short(push.half, 2)}</b>, most at p = <b>${short(push.peak, 2)}</b>. `;
}

// The weights that turn training most to prompts that are seldom and that are often solved; "" for a single weight.
function extremesInWords(curves) {
  const halves = curves.filter(({ push }) => push).map(({ name, push }) => ({ name: escaped(name), half: push.half }))
    .sort((left, right) => left.half - right.half);
  if (halves.length < 2) return "";
  const [first, last] = [halves[0], halves.at(-1)];
  if (last.half - first.half < ALIKE) return `The ${halves.length} weights turn to the same prompts. `;
  return `Of the ${halves.length} weights <b>${first.name}</b> turns most to prompts that are seldom solved (half below p = ` +
    `${short(first.half, 2)}), <b>${last.name}</b> most to those that often are (half below ${short(last.half, 2)}). `;
}

function command(weights, size, { estimators }) {
  const read = weights.map((weight) => readWeight(weight, estimators));
  if (read.some(({ name }) => isFormula(name) || name.includes(":"))) return commandOfAll(weights, read, size);
  const calls = read.map(({ name, parameters }) => {
    const pairs = Object.entries(parameters).map(([key, value]) => `, ${key}=${typeof value === "number" ? value : `'${value}'`}`);
    return `masses('${name}', ${size}${pairs.join("")})`;
  });
  return `python -c "from simlab.theory import masses; print(${calls.join(", ")}${calls.length > 1 ? ", sep='\\n'" : ""})"`;
}

// The Python that registers the estimators of the user's files among some names.
export function registering(names) {
  const files = [...new Set(names.map((name) => name.split("(")[0]).filter((name) => name.includes(":")))].map((name) => `'${name}'`);
  return files.length ? `from simlab.explore.weights import register_files; register_files([${files.join(", ")}]); ` : "";
}

// The same where formulas, or estimators of the user's files, are among them.
function commandOfAll(weights, read, size) {
  const questions = weights.map((weight) => `{'weight': '${weight}', 'group_size': ${size}}`);
  return `python -c "${registering(read.map(({ name }) => name))}from simlab.explore.answers import answer_masses; print(*map(answer_masses, [${questions.join(", ")}]), sep='\\n')"`;
}

function extra({ state, change, description }) {
  const pin = (weights) => change("masses.pinned", weights.join(SEPARATOR));
  const list = pinList({
    label: "Pin for comparison", plural: "estimators", most: description.most_pinned, colourOf: (place) => place,
    onPin: () => { const [weight, ...pinned] = weightsOf(state.of("masses")); pin([...pinned, weight]); },
    onRemove: (place) => pin(weightsOf(state.of("masses")).slice(1).filter((_, other) => other !== place)),
  }, description);
  function show(values) {
    const [weight, ...pinned] = weightsOf(values);
    list.show(pinned, pinned.includes(weight));
  }
  return { node: element("div", { class: "control" }, ...list.nodes), show };
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
  questions: { path: () => "masses", of: (values) => massQuestions(weightsOf(values), values.group_size) },
};
