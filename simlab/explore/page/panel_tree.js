// The panel of the tree: decisions with their probabilities on the branches, before and after training.

import { leaves, reach, uniform, word } from "./closed_forms.js";
import { EQUAL_MASS, gainAt, joinedMetrics, pairable, readAt } from "./compare.js";
import { axes } from "./look.js";
import { commandsOf, namesOf, runsOf } from "./settings.js";
import { escaped, exact, short, signed } from "./text.js";

const SEEDS = 32;
const WIDTHS = [[0.002, 0.5], [0.01, 1], [0.05, 1.8], [0.15, 3.2], [0.4, 5], [Infinity, 7.5]]; // up to a reach: a width
const LABELLED = 0.05; // reach from which a branch says its probability
const NAMED = 0.04; // probability from which a leaf that pays nothing is named
const ROUNDING = 1e-9; // a half-width of no more is that of rounding

function join(old, fresh) {
  const methods = {};
  const [n, m] = [old.seeds, fresh.seeds];
  for (const [name, { metrics }] of Object.entries(fresh.methods)) {
    const before = old.methods[name];
    methods[name] = { metrics: joinedMetrics(before.metrics, metrics, n, m), policies: before.policies };
  }
  return { ...old, seeds: n + m, methods };
}

// The nodes and leaves: x by level, y by the leaves below; whether they lead to a word that pays.
function placeNodes({ depth, branching, rewarded }) {
  return Array.from({ length: depth + 1 }, (_, level) => level).flatMap((level) => {
    const wide = branching ** (depth - level);
    return Array.from({ length: branching ** level }, (_, place) => {
      const name = word(place * wide, depth, branching).slice(0, level);
      const pays = rewarded.some((other) => other.startsWith(name));
      return { x: level, y: -(place * wide + (wide - 1) / 2), level, name, pays };
    });
  });
}

// The branches under some policies: the node that each leads to and where it comes `from`, its probability p, and that its end is reached.
function branchesOf(nodes, policies) {
  const reached = reach(policies);
  const branching = policies[0].length;
  return nodes.slice(1).map((node, i) => {
    const parent = Math.floor(i / branching);
    return { ...node, from: nodes[parent], p: policies[parent][i % branching], reached: reached[i + 1] };
  });
}

function lines(look, branches, panel) {
  const groups = new Map();
  for (const { from, x, y, pays, reached } of branches) {
    const width = WIDTHS.find(([most]) => reached < most)[1];
    const key = `${pays} ${width}`;
    if (!groups.has(key)) groups.set(key, { pays, width, x: [], y: [] });
    groups.get(key).x.push(from.x, x, null);
    groups.get(key).y.push(from.y, y, null);
  }
  return [...groups.values()].sort((left, right) => left.pays - right.pays).map((group) => ({
    type: "scatter", mode: "lines", x: group.x, y: group.y, ...axes(panel), hoverinfo: "skip", showlegend: false,
    line: { width: group.width, color: group.pays ? look.colour(0) : look.colour(1) }, opacity: group.pays ? 0.9 : 0.55,
  }));
}

function texts(look, { depth }, branches, panel) {
  const shares = branches.filter(({ level, p, reached }) => reached >= LABELLED && (level < depth || p < 0.995));
  const ends = branches.filter(({ level, pays, reached }) => level === depth && (pays || reached >= NAMED));
  const along = (axis) => ({ from, level, ...to }) => from[axis] + (level === 1 ? 0.62 : 0.68) * (to[axis] - from[axis]);
  const shared = { type: "scatter", mode: "text", ...axes(panel), hoverinfo: "skip", showlegend: false };
  return [
    { ...shared, x: shares.map(along("x")), y: shares.map(along("y")), text: shares.map(({ p }) => percent(p)),
      textfont: { size: 10.5, color: look.ink.text } },
    { ...shared, x: ends.map(({ x }) => x), y: ends.map(({ y }) => y),
      text: ends.map(({ name, pays, reached }) => ` ${pays ? `<b>${name}</b>` : name} ${percent(reached)}`),
      textposition: "middle right", textfont: { size: 11.5, color: look.ink.text } },
  ];
}

const percent = (p) => (p > 0 && p < 0.01 ? "<1 %" : `${Math.round(100 * p)} %`);

function points(branches, panel) {
  return {
    type: "scatter", mode: "markers", x: branches.map(({ x }) => x), y: branches.map(({ y }) => y), ...axes(panel),
    showlegend: false, name: "probability", marker: { size: 9, color: "rgba(0,0,0,0)" },
    text: branches.map(({ name, p, reached }) => `${name}: branch ${short(p, 3)}, reached ${short(reached, 3)}`),
    hovertemplate: "%{text}<extra></extra>",
  };
}

function outcome({ metrics }, seeds, record, level) {
  const of = (name) => {
    const { mean, half } = readAt({ metrics, seeds }, name, record, level, "q_pos");
    return `<b>${short(mean, 3)}</b>${half > ROUNDING ? ` ± ${short(half, 1)}` : ""}`;
  };
  return `accuracy ${of("q_pos")}<br>${of("modes_held")} of 6 modes`;
}

// The record at which each method is read: the chosen one, or its first with the accuracy of the least accurate method there.
function placesOf(values, result) {
  const record = Math.round(values.at * (result.step.length - 1));
  const accuracies = Object.entries(result.methods).map(([name, { metrics }]) => [name, metrics.q_pos.mean]);
  if (values.compare !== EQUAL_MASS) return { level: null, record, of: Object.fromEntries(accuracies.map(([name]) => [name, record])) };
  const level = Math.min(...accuracies.map(([, mean]) => mean[record]));
  return { level, record, of: Object.fromEntries(accuracies.map(([name, mean]) => [name, mean.findIndex((one) => one >= level)])) };
}

function pinnedInWords(values, description, [present, ...others], { record, level }) {
  const names = namesOf("tree", runsOf("tree", values, description), description);
  return others.map((run, index) => {
    if (!pairable([run, present])) return "";
    const gains = Object.keys(run.methods).map((method) => {
      const [here, there] = [present, run].map(({ methods, seeds }) => ({ metrics: methods[method].metrics, seeds }));
      const { mean, half } = gainAt(here, there, "modes_held", record, level, "q_pos");
      return mean === null ? `${method} does not come to this accuracy`
        : `${method} ${signed(mean, 2)} ± ${short(half, 1)}`;
    });
    const where = level === null ? "" : ` at an accuracy of ${short(level, 3)}`;
    return ` Modes held${where} more than with ${escaped(names[index + 1])}: ${gains.join(", ")}.`;
  }).join("");
}

function compute({ values, description, look, result, results }) {
  const { tree } = description;
  const nodes = placeNodes(tree);
  const start = uniform(tree.depth, tree.branching);
  const places = result ? placesOf(values, result) : null;
  const shown = result
    ? Object.entries(result.methods).map(([name, method]) => [
      `<b>${name}</b><br><span style="font-size:12px">${outcome(method, result.seeds, places.of[name], places.level)}</span>`, method.policies[places.of[name]], name])
    : [["<b>start</b><br>every action equally likely", start, "start"]];
  const traces = shown.flatMap(([, policies], panel) => {
    const branches = branchesOf(nodes, policies);
    return [...lines(look, branches, panel), ...texts(look, tree, branches, panel), points(branches, panel)];
  });
  const hidden = { showgrid: false, showticklabels: false, ticks: "", showline: false, fixedrange: true };
  const layout = look.layout(
    shown.map(([title]) => ({
      title, x: { title: "", ...hidden, range: [-0.08, tree.depth + 1.15] }, y: { title: "", ...hidden, range: [-64.5, 1.5] },
    })),
    { height: 700, legend: false },
  );
  if (look.narrow) layout.height = shown.length * 620;
  Object.assign(layout.margin, { l: 8, r: 8, t: 76, b: 10 });
  layout.hovermode = "closest";
  return { traces, layout, notes: [], table: tableOf(tree, shown),
    readout: readout(description, values, result, places) + (result ? pinnedInWords(values, description, results, places) : ""),
    command: commandsOf("tree", values, description, command) };
}

function findingInWords(result, { of, level }) {
  const read = Object.entries(result.methods).map(([name, { metrics }]) => {
    const [held, accuracy] = ["modes_held", "q_pos"].map((metric) => readAt({ metrics, seeds: result.seeds }, metric, of[name], level, "q_pos").mean);
    return { name, held, accuracy: level ?? accuracy };
  }).filter(({ held }) => held !== null).sort((left, right) => right.held - left.held);
  if (!read.length) return "";
  const [most, fewest] = [read[0], read.at(-1)];
  if (short(most.held, 3) === short(fewest.held, 3)) return `All ${read.length} methods keep <b>${short(most.held, 3)}</b> of 6 right answers. `;
  const say = ({ name, held, accuracy }) => `<b>${name}</b> ${short(held, 3)} of 6 at an accuracy of ${short(accuracy, 3)}`;
  return `Of the right answers the most are kept by ${say(most)}, the fewest by ${say(fewest)}. `;
}

function readout(description, values, result, places) {
  const words = `Blue branches lead to one of the rewarded words ${description.tree.rewarded.join(", ")}. `;
  if (!result) return words;
  const finding = findingInWords(result, places);
  if (places.level !== null) {
    const steps = Object.entries(places.of).map(([name, record]) => `${name} ${result.step[record]}`);
    return `${finding}${words}The numbers are those where each of ${result.seeds} seeds first has an accuracy of ${short(places.level, 3)}, linear between ` +
      `records; the trees are those of seed ${values.seed} at the next record (steps: ${steps.join(", ")}). `;
  }
  return `${finding}${words}Step ${result.step[places.record]} of ${values.steps}: the trees are those of seed ${values.seed}, the numbers above ` +
    `them means over ${result.seeds} seeds.`;
}

function tableOf(tree, shown) {
  const rows = shown.flatMap(([, policies, name]) =>
    leaves(policies).map((p, leaf) => [name, word(leaf, tree.depth, tree.branching), p]));
  return { columns: ["method", "leaf", "probability"], rows };
}

function command(values) {
  const given = {
    quantile: values.quantile, alpha: values.alpha, top_penalty: values.top_penalty, candidates: values.candidates,
    learning_rate: values.learning_rate,
  };
  const bonus = values.entropy_bonus ? `0,${exact(values.entropy_bonus)}` : "0";
  return [
    "simlab sweep --problem tree --estimator grpo --surrogate ppo_clip,casp --optimizer sgd",
    `--group-size ${values.group_size} --steps ${values.steps} --record-every ${Math.round(values.steps / 20)}`,
    `--seeds ${values.seed + SEEDS} --param aggregation=constant --param entropy_bonus=${bonus}`,
    ...Object.entries(given).map(([key, value]) => `--param ${key}=${exact(Number(value))}`),
  ].join(" ");
}

export default {
  id: "tree",
  title: "Tree",
  question: "Which of several right answers does training keep?",
  note: "CaSP's toy (Figure 5): three choices of four letters, six words pay. Its paper states no learning rate, group size " +
    "or coefficients; over these the outcome differs.",
  symbols: ["G"],
  compute,
  simulated: { join, seeds: () => SEEDS },
  pinned: {},
  locked: (setting) => !["at", "compare"].includes(setting),
};
