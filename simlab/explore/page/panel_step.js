// The panel of one step: where it moves probability, term by term.

import { baseline, correctMassTerms, firstOrderChange, geometric, logitUpdate, sum, unsampledCorrectTerms } from "./closed_forms.js";
import { axes, rangeOf, transparent } from "./look.js";
import { massQuestions, otherMasses } from "./panel_masses.js";
import { element, exact, short } from "./text.js";

const inside = (bits, count) => Array.from({ length: count }, (_, i) => bits[i] === "1");

export function stepOf(values) {
  const [right, wrong] = [values.correct_modes, values.incorrect_modes];
  const policy = [
    ...geometric(right, values.correct_mass, values.correct_ratio),
    ...geometric(wrong, 1 - values.correct_mass, values.incorrect_ratio),
  ];
  const sampled = [...inside(values.sampled_correct, right), ...inside(values.sampled_incorrect, wrong)];
  const distinct = sampled.filter(Boolean).length;
  return { policy, sampled, distinct, correct: policy.map((_, i) => i < right), groupSize: Math.max(values.group_size, distinct),
    rewardCorrect: values.correct_reward, rewardIncorrect: values.incorrect_reward, learningRate: values.learning_rate };
}

const nameOf = (values, index) =>
  index < values.correct_modes ? `c${index + 1}` : `w${index - values.correct_modes + 1}`;

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

const questions = (values) =>
  (values.rewards === "the sliders" ? [] : massQuestions([values.weight], stepOf(values).groupSize));

// The step with the rewards of the sliders, or those that an estimator gives in a group with the policy's solve rate.
export function rewardedStep(values, answers) {
  const step = stepOf(values);
  if (values.rewards === "the sliders") return step;
  const { success = [0, 0], failure = [0, 0] } = answers?.[0] ?? {}; // none while the server has not answered
  const size = success.length - 1;
  const right = Math.round(values.correct_mass * size);
  const share = (mass, count) => (count > 0 ? (mass * size) / count : 0);
  return { ...step, rewardCorrect: share(success[right], right), rewardIncorrect: -share(failure[right], size - right) + 0 };
}

function compute({ values, look, answers }) {
  const step = rewardedStep(values, answers);
  const notes = step.groupSize > values.group_size
    ? [`a group of ${values.group_size} cannot hold ${step.distinct} actions; held at ${step.groupSize}`] : [];
  notes.push(...otherMasses(questions(values), answers));
  const names = step.policy.map((_, index) => nameOf(values, index));
  const own = step.correct.map((right) => look.colour(right ? 0 : 1));
  const fill = own.map((colour, i) => (step.sampled[i] ? colour : transparent(colour, 0.15)));
  const change = firstOrderChange(step.policy, logitUpdate(step));
  const gained = correctMassTerms(step);
  const lost = unsampledCorrectTerms(step);
  const traces = [
    bars(look, names, step.policy, fill, 0, "probability", own),
    bars(look, names, change, fill, 1, "change", own),
    termBars(look, ["sampled<br>correct", "sampled<br>incorrect", "missed<br>incorrect", "missed<br>correct"], gained, 2,
      "term of dQ_pos"),
    termBars(look, ["own<br>logits", "sampled<br>correct", "sampled<br>incorrect", "unsampled"], lost, 3, "term of dQ_upos"),
  ];
  const axis = (panel) => ({
    title: "", range: rangeOf([traces[panel].y]), zeroline: true, zerolinecolor: look.ink.faint, tickformat: "~g",
  });
  const named = { title: "", type: "category", tickangle: 0, ...(look.narrow ? { tickfont: { size: 10 } } : {}) };
  const layout = look.layout([
    { title: "policy p: filled actions are in the group", x: named, y: { ...axis(0), zeroline: false } },
    { title: "first-order change dp of each action", x: named, y: axis(1) },
    { title: "change of the correct mass, dQ<sub>pos</sub>", x: named, y: axis(2) },
    { title: "change of the missed correct mass, dQ<sub>upos</sub>", x: named, y: axis(3) },
  ], { columns: 2, legend: false });
  layout.hovermode = "closest";
  layout.bargap = 0.25;
  const readout =
    `Rewards <b>${short(step.rewardCorrect, 3)}</b> and <b>${short(step.rewardIncorrect, 3)}</b>, expected reward S<sub>R</sub> = <b>${short(baseline(step), 3)}</b>. The correct mass changes by ` +
    `<b>${short(sum(gained), 3)}</b>, the correct actions that the group missed by <b>${short(sum(lost), 3)}</b>.`;
  return { traces, layout, readout, command: command(step), notes, table: tableOfActions(names, step, change) };
}

function tableOfActions(names, step, change) {
  const rows = names.map((name, i) => [name, Number(step.correct[i]), Number(step.sampled[i]), step.policy[i], change[i]]);
  return { columns: ["action", "correct", "in the group", "p", "dp"], rows };
}

function command(step) {
  const list = (values) => `[${values.join(",")}]`;
  const flags = (values) => list(values.map((value) => (value ? "True" : "False")));
  const numbers = [
    `correct_reward=${exact(step.rewardCorrect)}`, `incorrect_reward=${exact(step.rewardIncorrect)}`,
    `learning_rate=${exact(step.learningRate)}`, `group_size=${step.groupSize}`,
  ].join(", ");
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
  const right = values.correct_modes;
  return [bits.slice(0, right).join(""), bits.slice(right).join("")];
}

function extra({ state, change }) {
  const row = element("div", { class: "switches", role: "group", "aria-label": "actions in the group" });
  const draw = element("button", { type: "button", text: "Draw a group with the seed", onclick: () => {
    const [right, wrong] = drawnGroup(state.of("step"));
    change("step.sampled_correct", right);
    change("step.sampled_incorrect", wrong);
  } });
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
  const right = index < values.correct_modes;
  const name = right ? "sampled_correct" : "sampled_incorrect";
  const count = right ? values.correct_modes : values.incorrect_modes;
  const bits = inside(values[name], count).map((held, i) => (held !== (i === (right ? index : index - values.correct_modes)) ? "1" : "0"));
  change(`step.${name}`, bits.join(""));
}

export default {
  id: "step",
  title: "One step",
  question: "Where does one update move probability, and what does it take from what the group missed?",
  note: "F-GRPO Eq. 17 and Proposition 3.2, to first order: distinct sampled actions get R<sub>c</sub> or R<sub>w</sub>, " +
    "all others 0. Click a bar to put an action into the group.",
  symbols: ["R<sub>c</sub>", "R<sub>w</sub>", "S<sub>R</sub>", "Q<sub>pos</sub>", "Q<sub>upos</sub>", "p", "dp", "G", "η"],
  compute,
  extra,
  questions: { path: "masses", of: questions },
  // Either the sliders or the estimator give the rewards.
  isIdle: (setting, values) => (values.rewards === "the sliders" ? setting === "weight" : ["correct_reward", "incorrect_reward"].includes(setting)),
  click: (point, tools) => { if (point.curveNumber < 2) toggle(tools, point.pointNumber); },
};
