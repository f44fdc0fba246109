// The panel of tail misses: how often a group teaches without having drawn a rare correct target.

import { active, conditionalTailMiss, missed, tailMiss } from "./closed_forms.js";
import { SHARES } from "./look.js";
import { exact, short } from "./text.js";

const LARGEST_GROUP = 2 ** 17;
const POINTS = 72;

const LINES = [
  ["taught, target missed", (g, mu, tau) => tailMiss(g, mu, tau)],
  ["taught (active)", (g, mu) => active(g, mu)],
  ["target missed, (1 − τ)<sup>G</sup>", (g, mu, tau) => missed(g, tau)],
  ["target missed, if taught", (g, mu, tau) => conditionalTailMiss(g, mu, tau)],
  ["all correct, target missed, (μ − τ)<sup>G</sup>", (g, mu, tau) => (mu - tau) ** g],
  ["all incorrect, (1 − μ)<sup>G</sup>", (g, mu) => (1 - mu) ** g],
];

function geometric(low, high, count) {
  return Array.from({ length: count + 1 }, (_, i) => low * (high / low) ** (i / count));
}

const SIZES = [...new Set(geometric(1, LARGEST_GROUP, POINTS).map(Math.round))];
const MASSES = Array.from({ length: POINTS + 1 }, (_, i) => i / POINTS);
const TARGETS = geometric(1e-6, 1, POINTS);

export function worstGroup(mu, tau) {
  let [worst, highest] = [1, -1];
  for (const size of SIZES) {
    const value = tailMiss(size, mu, tau);
    if (value > highest) [worst, highest] = [size, value];
  }
  return [worst, highest];
}

const RARELY = 0.01;

// The smallest group size, from the worst one on, that misses with a probability of at most `level`; null where none up to
// the largest does.
export function goodGroup(mu, tau, level) {
  let [low, high] = [worstGroup(mu, tau)[0], LARGEST_GROUP];
  if (tailMiss(low, mu, tau) <= level) return low;
  if (tailMiss(high, mu, tau) > level) return null;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (tailMiss(middle, mu, tau) <= level) high = middle;
    else low = middle;
  }
  return high;
}

function goodInWords(mu, tau) {
  const good = goodGroup(mu, tau, RARELY);
  return good === null
    ? `Not even groups of ${LARGEST_GROUP} bring it under ${100 * RARELY} %.`
    : `From <b>G = ${good}</b> on it is at most ${100 * RARELY} %.`;
}

function compute({ values, look }) {
  const { group_size: size, correct_mass: mu } = values;
  const tau = Math.min(values.target_mass, mu);
  const notes = tau < values.target_mass ? [`target mass τ is at most μ; held at ${short(tau)}`] : [];
  const sweeps = [
    { xs: SIZES, at: size, of: (line, x) => line(x, mu, tau) },
    { xs: MASSES.filter((x) => x >= tau), at: mu, of: (line, x) => line(size, x, tau) },
    { xs: TARGETS.filter((x) => x <= mu), at: tau, of: (line, x) => line(size, mu, x) },
  ];
  const names = ["G", "μ", "τ"];
  const traces = sweeps.flatMap(({ xs, at, of }, panel) => [
    look.hair(at, panel),
    ...LINES.map(([name, line], index) =>
      look.line(name, xs, xs.map((x) => of(line, x)), {
        colour: index, dash: index, panel, width: index === 0 ? 3 : 1.6, legendgroup: name, showlegend: panel === 0,
        csv: `${name} against ${names[panel]}`, hovertemplate: "%{y:.4f}",
      })),
    look.marker([at], [tailMiss(size, mu, tau)], { panel }),
  ]);
  const range = { range: SHARES, tickformat: ".1f" };
  const layout = look.layout([
    { title: "against group size", x: { title: "group size G", type: "log", range: [0, Math.log10(LARGEST_GROUP)],
        tickvals: [1, 8, 64, 512, 4096, 32768],
        ticktext: ["1", "8", "64", "512", "4096", "32 768"], tickangle: 0 },
      y: { title: "probability", ...range } },
    { title: "against correct mass", x: { title: "correct mass μ", range: [0, 1] }, y: { title: "", ...range } },
    { title: "against target mass", x: { title: "target mass τ", type: "log", range: [-6, 0], tickvals: [1e-6, 1e-4, 1e-2, 1],
        ticktext: ["10<sup>−6</sup>", "10<sup>−4</sup>", "0.01", "1"], tickangle: 0 },
      y: { title: "", ...range } },
  ]);
  const [worst, highest] = worstGroup(mu, tau);
  const readout =
    `A group of ${size} teaches with probability <b>${short(active(size, mu), 3)}</b>, and teaches without having seen ` +
    `the target with probability <b>${short(tailMiss(size, mu, tau), 3)}</b>. The worst group size here is ` +
    `<b>${worst}</b> (${short(highest, 3)}). ${goodInWords(mu, tau)}`;
  const numbers = [size, exact(mu), exact(tau)].join(", ");
  const command = `python -c "from simlab.theory import tail_miss; print(tail_miss(${numbers}))"`;
  return { traces, layout, readout, command, notes };
}

export default {
  id: "miss",
  title: "Tail miss",
  question: "How often does a group teach the policy without having seen a rare correct target?",
  note: "F-GRPO Lemma 3.1: (1 − τ)<sup>G</sup> − (μ − τ)<sup>G</sup> − (1 − μ)<sup>G</sup>. A group teaches (is active) " +
    "when it holds both a correct and an incorrect rollout.",
  symbols: ["μ", "τ", "G"],
  compute,
};
