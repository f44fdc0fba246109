// Panel 4: a policy trained over many seeds, with what theory says drawn over it.

import { halfWidth, joined } from "./simulate.js";
import { exact, short } from "./text.js";
import { readWeight } from "./weight_text.js";

const SIMULATED = ["weight", "group_size", "learning_rate", "optimizer", "surrogate", "epochs", "lag", "false_positive",
  "actions", "correct", "anchor_logit", "correct_logit", "steps", "seed"];

const PANELS = [
  ["q_pos", "correct mass Q<sub>pos</sub>", { range: [-0.02, 1.03] }],
  ["retained_mass", "retained mass M<sub>ret</sub>", { range: [-0.02, 1.03] }],
  ["entropy", "entropy (nats)", { rangemode: "tozero" }],
  ["tail_miss_rate", "groups that taught and missed the target", { range: [-0.02, 1.03] }],
];

function ask(values) {
  return Object.fromEntries(SIMULATED.map((name) => [name, values[name]]));
}

function shift(values, change, sign) {
  return values.map((value, i) => (value === null ? null : value + sign * change[i]));
}

function lineOf(result, name, panel, look) {
  const { mean } = result.metrics[name];
  const half = halfWidth(result.metrics[name], result.seeds);
  const colour = look.colour(0);
  return [
    ...look.band(result.step, shift(mean, half, -1), shift(mean, half, 1), colour, panel),
    look.line(`simulated: mean and 95 % band of the mean`, result.step, mean, {
      panel, width: 2.2, showlegend: panel === 0, hovertemplate: "%{y:.4f}", csv: `${name}, mean of ${result.seeds} seeds`,
    }),
    { ...look.line("", result.step, half, { panel }), visible: false, csv: `${name}, half-width of the 95 % band` },
  ];
}

function theory(result, look) {
  const lines = [];
  const shared = { colour: 1, dash: 1, width: 2, hovertemplate: "%{y:.4f}" };
  if (result.theory) {
    lines.push(look.line("theory", result.step, result.theory, { ...shared, panel: 0, csv: "q_pos, expected steps" }));
  }
  const expected = result.metrics.tail_miss_expected?.mean;
  if (!expected) return lines;
  lines.push(look.line("theory", result.step, expected, {
    ...shared, panel: 3, showlegend: !result.theory, csv: "tail-miss probability (Lemma 3.1) of the simulated masses",
  }));
  return lines;
}

function compute({ values, description, look, result }) {
  const traces = result
    ? [...PANELS.flatMap(([name], panel) => lineOf(result, name, panel, look)), ...theory(result, look)]
    : PANELS.map((_, panel) => look.line("", [0, values.steps], [null, null], { panel, showlegend: false }));
  const last = { title: "step", rangemode: "tozero" };
  const layout = look.layout(
    PANELS.map(([name, title, y], panel) => ({
      title: description.labels[name] || title, x: { ...last, title: panel > 1 ? "step" : "" }, y: { title: "", ...y },
    })),
    { columns: 2 },
  );
  return { traces, layout, readout: readout(values, description, result), command: command(values, description), said: [] };
}

function readout(values, description, result) {
  if (!description.server) {
    return "This panel needs the server: <code>simlab explore</code>. The command below runs the same simulation.";
  }
  if (!result) return "";
  const end = (name) => {
    const half = halfWidth(result.metrics[name], result.seeds);
    return `<b>${short(result.metrics[name].mean.at(-1), 3)}</b> ± ${short(half.at(-1), 2)}`;
  };
  const drift = result.theory
    ? "Dashed: the expected step, taken again and again (exact at first), and Lemma 3.1 at the simulated masses."
    : result.metrics.tail_miss_expected
      ? "Dashed: Lemma 3.1 at the simulated masses. The expected drift is known for plain steps (sgd) of a stateless weight."
      : "No theory is drawn: it takes a sampler that is the policy itself, and a verifier that does not err.";
  return `After ${values.steps} steps, over ${result.seeds} seeds: Q<sub>pos</sub> ${end("q_pos")}, ` +
    `M<sub>ret</sub> ${end("retained_mass")}. ${drift}`;
}

// The sweep's seeds are counted from 0, so that it holds those of the page.
function command(values, description) {
  const { name, parameters } = readWeight(values.weight, description.estimators);
  const correct = Math.min(Math.max(Math.round(values.correct * values.actions), 2), values.actions - 1);
  const given = {
    ...Object.fromEntries(Object.entries(parameters).map(([key, value]) => [`estimator.${key}`, value])),
    "optimizer.learning_rate": exact(values.learning_rate),
    "problem.actions": values.actions,
    "problem.correct": correct,
    "problem.anchor_logit": exact(values.anchor_logit),
    "problem.correct_logit": exact(values.correct_logit),
  };
  for (const [setting, usual] of Object.entries({ epochs: 1, lag: 0, false_positive: 0 })) {
    if (values[setting] !== usual) given[setting] = exact(values[setting]);
  }
  return [
    `simlab sweep --problem anchored --estimator ${name} --surrogate ${values.surrogate} --optimizer ${values.optimizer}`,
    `--group-size ${values.group_size} --steps ${values.steps} --record-every ${Math.max(Math.round(values.steps / 50), 1)}`,
    `--seeds ${values.seed + values.seeds}`,
    ...Object.entries(given).map(([key, value]) => `--param ${key}=${value}`),
  ].join(" ");
}

export default {
  id: "run",
  title: "Simulation",
  question: "What does training do to a policy, over many seeds?",
  note: "One softmax policy: an anchor that is likely and correct, rare correct actions, and incorrect ones (F-GRPO App. J).",
  compute,
  simulated: { ask, join: joined, seeds: (values) => values.seeds },
};
