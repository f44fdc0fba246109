// The panel of the simulation: a policy trained over many seeds, with theory drawn over it.

import { compared, DIFFERENCE, halfWidth, highest, joined, pairable, theoryName, theoryOf, toPin } from "./compare.js";
import { SHARES } from "./look.js";
import { commandsOf, correctOf, namesOf, runsOf, sweepCommand } from "./settings.js";
import { escaped, short, signed } from "./text.js";

const METRICS = [
  ["q_pos", "correct mass Q<sub>pos</sub>", { range: SHARES }],
  ["retained_mass", "retained mass M<sub>ret</sub>", { range: SHARES }],
  ["entropy", "entropy (nats)", { rangemode: "tozero" }],
  ["tail_miss_rate", "groups that taught and missed the target", { range: SHARES }],
];

// Every run with its name, {name, result, colour}: the pinned ones, and the sliders' last; colours are those of the pins.
function named(values, description, results) {
  const names = namesOf("run", runsOf("run", values, description), description);
  const all = names.map((name, place) => ({ name, result: results[place], colour: place }));
  return [...all.slice(1), all[0]].filter(({ result }) => result);
}

function linesOf(way, metric, panel, run, first, look) {
  const { x, mean, half } = compared(way, metric, run.result, first.result);
  return look.meanLines(run.name, x, mean, half, {
    panel, high: !way.startsWith(DIFFERENCE) && highest(metric), colour: run.colour, width: 2.2, showlegend: panel === 0, legendgroup: run.name,
    csv: `${metric}, ${way}: ${run.name}, mean of ${run.result.seeds} seeds`,
  });
}

function theory(values, result, look) {
  const known = METRICS.map(([metric], panel) => [metric, panel, theoryOf(result, metric)]).filter(([, , line]) => line);
  return known.map(([metric, panel, line], place) => look.line(`${theoryName(values.optimizer)} of the sliders' run`, result.step, line,
    { colour: look.ink.text, dash: 1, width: 1.8, hovertemplate: "%{y:.4f}", panel, showlegend: place === 0,
      csv: metric === "tail_miss_rate" ? "tail-miss probability (Lemma 3.1) of the simulated masses" : `${metric}, expected steps` }));
}

function panelsOf(way) {
  const isDifference = way.startsWith("difference");
  const atMass = way.endsWith("mass");
  return METRICS.map(([name, title, range], panel) => {
    const metric = atMass && name === "q_pos" ? "step" : name;
    const label = metric === "step" ? "steps until Q<sub>pos</sub> is reached" : title;
    const bottom = panel > 1;
    return { metric, layout: {
      title: isDifference ? `difference of ${label}` : label,
      x: { title: bottom ? (atMass ? "correct mass Q<sub>pos</sub>" : "step") : "", rangemode: "tozero", ...(atMass ? { range: [0, 1] } : {}) },
      y: { title: "", ...(isDifference || metric === "step" ? {} : range) },
    } };
  });
}

function compute({ values, description, look, results }) {
  const runs = named(values, description, results);
  const way = values.compare;
  const panels = panelsOf(way);
  const [first, ...others] = runs;
  const shown = way.startsWith("difference") ? others : runs;
  const lines = shown.flatMap((run) => panels.flatMap(({ metric }, panel) => linesOf(way, metric, panel, run, first, look)));
  const traces = runs.length
    ? [...lines, ...(way === "runs" && results[0] ? theory(values, results[0], look) : [])]
    : panels.map((_, panel) => look.line("", [0, values.steps], [null, null], { panel, showlegend: false }));
  const layout = look.layout(panels.map((panel) => panel.layout), { columns: 2 });
  return { traces, layout, readout: readout(values, description, runs, results[0]), command: commandsOf("run", values, description, command), notes: notesOf(values, runs) };
}

function notesOf({ compare: way, pinned }, runs) {
  if (way === "runs" || !runs.length) return [];
  if (!pairable(runs.map(({ result }) => result))) return ["these runs were computed in advance without their seeds, by which runs are compared: simlab explore"];
  return toPin(way, pinned, "run");
}

function differencesInWords([first, ...others]) {
  return others.filter((run) => pairable([run.result, first.result])).map((run) => {
    const gain = (metric) => {
      const { mean, half } = compared(DIFFERENCE, metric, run.result, first.result);
      return mean.at(-1) === null ? "" : `${signed(mean.at(-1), 2)} ± ${short(half.at(-1), 2)}`;
    };
    return `<b>${escaped(run.name)}</b> against ${escaped(first.name)}: Q<sub>pos</sub> ${gain("q_pos")}, M<sub>ret</sub> ${gain("retained_mass")}.`;
  }).join(" ");
}

function readout(values, description, runs, result) {
  if (!result) return "";
  const end = (name) => {
    const half = halfWidth(result.metrics[name], result.seeds);
    return `<b>${short(result.metrics[name].mean.at(-1), 3)}</b> ± ${short(half.at(-1), 2)}`;
  };
  const drift = result.theory
    ? `Dashed: ${values.optimizer === "sgd" ? "the expected step, taken again and again (exact at first)"
      : "Adam's steps of expected gradients, without the noise that slows it"}, and Lemma 3.1 at the simulated masses.`
    : result.metrics.tail_miss_expected
      ? "Dashed: Lemma 3.1 at the simulated masses. The expected drift is known for one epoch of a weight of rewards alone."
      : "No theory is drawn: it takes a sampler that is the policy itself, and a verifier that does not err.";
  return `After ${values.steps} steps, over ${result.seeds} seeds: Q<sub>pos</sub> ${end("q_pos")}, ` +
    `M<sub>ret</sub> ${end("retained_mass")}. ${differencesInWords(runs)} ${drift}`;
}

function command(values, description) {
  const { actions, correct: share, anchor_logit: anchor, correct_logit: correct } = values;
  const parameters = { "problem.actions": actions, "problem.correct": correctOf(share, actions),
    "problem.anchor_logit": anchor, "problem.correct_logit": correct };
  for (const [setting, usual] of Object.entries({ epochs: 1, lag: 0, false_positive: 0 })) {
    if (values[setting] !== usual) parameters[setting] = values[setting];
  }
  return sweepCommand("anchored", values, description, { records: 50, parameters });
}

export default {
  id: "run",
  title: "Simulation",
  question: "What does training do to a policy, over many seeds?",
  note: "One softmax policy: an anchor that is likely and correct, rare correct actions, and incorrect ones (F-GRPO App. J).",
  symbols: ["Q<sub>pos</sub>", "M<sub>ret</sub>", "p", "G", "γ"],
  compute,
  simulated: { join: joined, seeds: (values) => values.seeds },
  pinned: { colourOf: (place) => place },
  locked: (setting) => !["weight", "group_size", "compare"].includes(setting),
};
