// What the symbols of the page mean: each is a button whose meaning is seen while it is pointed at or has the focus.

import { element } from "./text.js";

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

// A row of the symbols that a panel uses.
export function symbolsOf(names) {
  return names.map((name, place) => {
    const tip = element("span", { class: "tip", role: "tooltip", id: `symbol-${place}`, text: SYMBOLS[name] });
    const button = element("button", { type: "button", class: "symbol", "aria-describedby": `symbol-${place}`, html: name });
    return element("span", { class: "help" }, button, tip);
  });
}

// A button with the help of a control.
export function helpOf(id, label, help) {
  const tip = element("span", { class: "tip", role: "tooltip", id: `${id}-help`, text: help });
  return element("span", { class: "help" },
    element("button", { type: "button", class: "symbol", "aria-label": `help: ${label}`, "aria-describedby": `${id}-help`, text: "?" }), tip);
}
