// The panel of one step: where it moves probability, term by term.

import { baseline, correctMassTerms, firstOrderChange, geometric, logitUpdate, sum, unsampledCorrectTerms } from "./closed_forms.js";
import { axes, rangeOf, transparent } from "./look.js";
import { massQuestions, otherMasses, registering } from "./panel_masses.js";
import { element, escaped, exact, short } from "./text.js";

const [SLIDERS, ESTIMATOR, GRADED] = ["the sliders", "the estimator", "graded rewards"];
const IDLE = { [SLIDERS]: ["weight"], [ESTIMATOR]: ["correct_reward", "incorrect_reward"], [GRADED]: ["correct_reward", "incorrect_reward", "group_size"] };

const inside = (bits, count) => Array.from({ length: count }, (_, i) => bits[i] === "1");

export function stepOf(values) {
  const [right, wrong] = [values.correct_modes, values.incorrect_modes];
  const policy = [...geometric(right, values.correct_mass, values.correct_ratio), ...geometric(wrong, 1 - values.correct_mass, values.incorrect_ratio)];
  const sampled = [...inside(values.sampled_correct, right), ...inside(values.sampled_incorrect, wrong)];
  const distinct = sampled.filter(Boolean).length;
  return { policy, sampled, distinct, correct: policy.map((_, i) => i < right), learningRate: values.learning_rate,
    groupSize: Math.max(values.rewards === GRADED ? 1 : values.group_size, distinct) };
}

const nameOf = ({ correct_modes: right }, index) => (index < right ? `c${index + 1}` : `w${index - right + 1}`);

function bars(look, x, y, colours, panel, name, outline) {
  return {
    type: "bar", name, x, y, showlegend: false, ...axes(panel), hovertemplate: "%{y:.5f}",
    marker: { color: colours, line: { color: outline, width: 1.5 } },
  };
}

function termBars(look, names, terms, panel, name) {
  const all = [...terms, sum(terms)];
  const colours = all.map((term, i) => (i === terms.length ? look.ink.text : look.colour(term >= 0 ? 0 : 1)));
  return bars(look, [...names, "sum"], all, colours, panel, name, colours);
}

// The names of the actions in the group.
const heldOf = (values) => stepOf(values).sampled.flatMap((held, i) => (held ? [nameOf(values, i)] : []));

const correctOf = (names) => names.map((name) => Number(name.startsWith("c")));
export function questions(values) {
  if (values.rewards === ESTIMATOR) return massQuestions([values.weight], stepOf(values).groupSize);
  const held = heldOf(values);
  return values.rewards === GRADED && held.length ? [{ weight: values.weight, rewards: held.map((name) => values[name]), correct: correctOf(held) }] : [];
}

// The step with the rewards of the sliders, those that an estimator gives in a group with the policy's solve rate, or its advantages
// of graded rewards; 0 while the server has not answered.
export function rewardedStep(values, answers) {
  const step = stepOf(values);
  const { success = [0, 0], failure = [0, 0], advantages = [] } = answers?.[0] ?? {};
  const remaining = [...advantages];
  if (values.rewards === GRADED) return { ...step, rewards: step.sampled.map((held) => (held && remaining.shift()) || 0) };
  const [ofRight, ofWrong] = values.rewards === SLIDERS ? [values.correct_reward, values.incorrect_reward] : sharesOf(values, success, failure);
  return { ...step, ofRight, ofWrong, rewards: step.sampled.map((held, i) => (held ? (step.correct[i] ? ofRight : ofWrong) : 0)) };
}

function sharesOf(values, success, failure) {
  const size = success.length - 1;
  const right = Math.round(values.correct_mass * size);
  const share = (mass, count) => (count > 0 ? (mass * size) / count : 0);
  return [share(success[right], right), -share(failure[right], size - right) + 0];
}

function compute({ values, look, answers }) {
  const step = rewardedStep(values, answers);
  const [graded, refused] = [values.rewards === GRADED, answers?.[0]?.refused];
  const notes = !graded && step.groupSize > values.group_size
    ? [`a group of ${values.group_size} cannot hold ${step.distinct} actions; held at ${step.groupSize}`] : [];
  notes.push(...otherMasses(questions(values), answers));
  const names = step.policy.map((_, index) => nameOf(values, index));
  const own = step.correct.map((right) => look.colour(right ? 0 : 1));
  const fill = own.map((colour, i) => (step.sampled[i] ? colour : transparent(colour, 0.15)));
  const change = firstOrderChange(step.policy, logitUpdate(step));
  const gained = correctMassTerms(step);
  const lost = unsampledCorrectTerms(step);
  const traces = [
    { ...bars(look, names, step.policy, fill, 0, "probability", own), textposition: "outside", cliponaxis: false,
      text: step.rewards.map((reward, i) => (step.sampled[i] && !refused ? String(Number(reward.toFixed(look.narrow ? 1 : 2))) : "")) },
    bars(look, names, change, fill, 1, "change", own),
    termBars(look, ["sampled<br>correct", "sampled<br>incorrect", "missed<br>incorrect", "missed<br>correct"], gained, 2, "term of dQ_pos"),
    termBars(look, ["own<br>logits", "sampled<br>correct", "sampled<br>incorrect", "unsampled"], lost, 3, "term of dQ_upos"),
  ];
  const axis = (panel) => ({
    title: "", range: rangeOf([traces[panel].y]), zeroline: true, zerolinecolor: look.ink.faint, tickformat: "~g",
  });
  const named = { title: "", type: "category", tickangle: 0, ...(look.narrow ? { tickfont: { size: 10 } } : {}) };
  const layout = look.layout([
    { title: "policy p; filled: in the group, with its R", x: named, y: { ...axis(0), zeroline: false } },
    { title: "first-order change dp of each action", x: named, y: axis(1) },
    { title: "change of the correct mass, dQ<sub>pos</sub>", x: named, y: axis(2) },
    { title: "change of the missed correct mass, dQ<sub>upos</sub>", x: named, y: axis(3) },
  ], { columns: 2, legend: false });
  layout.hovermode = "closest";
  layout.bargap = 0.25;
  const shown = graded ? `Advantages ${heldOf(values).map((name) => `${name} <b>${short(step.rewards[names.indexOf(name)], 3)}</b>`).join(", ") || "of an empty group"}`
    : `Rewards <b>${short(step.ofRight, 3)}</b> and <b>${short(step.ofWrong, 3)}</b>`;
  const readout = refused ? `<b>${escaped(refused)}</b>` : `${shown}, expected reward S<sub>R</sub> = <b>${short(baseline(step), 3)}</b>. The correct mass changes by ` +
    `<b>${short(sum(gained), 3)}</b>, the correct actions that the group missed by <b>${short(sum(lost), 3)}</b>.`;
  return { traces, layout, readout, command: graded ? commandOfGroup(values) : command(step), notes, table: tableOfActions(names, step, change) };
}

function tableOfActions(names, step, change) {
  const rows = names.map((name, i) => [name, Number(step.correct[i]), Number(step.sampled[i]), step.rewards[i], step.policy[i], change[i]]);
  return { columns: ["action", "correct", "in the group", "R", "p", "dp"], rows };
}

const commandOfGroup = ({ weight, ...values }) => `python -c "${registering([weight])}from simlab.explore.answers import answer_advantages as f; ` +
  `print(f({'weight': '${weight}', 'rewards': [${heldOf(values).map((name) => exact(values[name]))}], 'correct': [${correctOf(heldOf(values))}]}))"`;

function command(step) {
  const list = (values) => `[${values.join(",")}]`;
  const flags = (values) => list(values.map((value) => (value ? "True" : "False")));
  const numbers = `correct_reward=${exact(step.ofRight)}, incorrect_reward=${exact(step.ofWrong)}, ` +
    `learning_rate=${exact(step.learningRate)}, group_size=${step.groupSize}`;
  return "python -c \"import numpy as np; from simlab.theory import correct_mass_change as f; " +
    `print(f(np.array(${list(step.policy)}), np.array(${flags(step.correct)}), np.array(${flags(step.sampled)}), ` +
    `${numbers}))"`;
}

// Numbers in [0, 1) from a seed (mulberry32).
function randoms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export function drawnGroup(values) {
  const { policy } = stepOf(values);
  const next = randoms(values.seed);
  const bits = policy.map(() => "0");
  for (let rollout = 0; rollout < values.group_size; rollout += 1) {
    let remaining = next();
    const action = policy.findIndex((p) => (remaining -= p) < 0);
    bits[action < 0 ? policy.length - 1 : action] = "1";
  }
  return [bits.slice(0, values.correct_modes).join(""), bits.slice(values.correct_modes).join("")];
}

function extra({ state, change }) {
  const row = element("div", { class: "switches", role: "group", "aria-label": "actions in the group" });
  const draw = element("button", { type: "button", text: "Draw a group with the seed", onclick: () =>
    drawnGroup(state.of("step")).forEach((bits, side) => change(["step.sampled_correct", "step.sampled_incorrect"][side], bits)) });
  const heading = element("div", { class: "heading" }, element("span", { text: "in the group" }));
  const node = element("div", { class: "control" }, heading, row, draw);
  let count = "";
  function show(values) {
    const { sampled, correct } = stepOf(values);
    if (count !== `${values.correct_modes} ${values.incorrect_modes}`) {
      count = `${values.correct_modes} ${values.incorrect_modes}`;
      row.replaceChildren(...sampled.map((_, index) => element("button", {
        type: "button", text: nameOf(values, index), class: correct[index] ? "right" : "wrong",
        onclick: () => toggle({ state, change }, index),
      })));
    }
    [...row.children].forEach((button, index) => button.setAttribute("aria-pressed", String(sampled[index])));
  }
  return { node, show };
}

function toggle({ state, change }, index) {
  const values = state.of("step");
  const bits = stepOf(values).sampled.map((held, i) => Number(held !== (i === index))).join("");
  if (index < values.correct_modes) change("step.sampled_correct", bits.slice(0, values.correct_modes));
  else change("step.sampled_incorrect", bits.slice(values.correct_modes));
}

export default {
  id: "step",
  title: "One step",
  question: "Where does one update move probability, and what does it take from what the group missed?",
  note: "F-GRPO Eq. 17 and Proposition 3.2, to first order: distinct sampled actions get R<sub>c</sub> or R<sub>w</sub>, or " +
    "their advantage, one rollout each, where rewards are graded; all others 0. Click a bar to put an action into the group.",
  symbols: ["R<sub>c</sub>", "R<sub>w</sub>", "S<sub>R</sub>", "Q<sub>pos</sub>", "Q<sub>upos</sub>", "p", "dp", "G", "η"],
  compute,
  extra,
  questions: { path: ({ rewards }) => (rewards === GRADED ? "advantages" : "masses"), of: questions },
  // A graded reward is seen while its action is in the group.
  isIdle: (setting, values) => (/^[cw]\d$/.test(setting) ? values.rewards !== GRADED || !heldOf(values).includes(setting)
    : IDLE[values.rewards].includes(setting)),
  click: (point, tools) => { if (point.curveNumber < 2) toggle(tools, point.pointNumber); },
};
