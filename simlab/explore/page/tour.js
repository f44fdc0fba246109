// The guided tour: six views, each with its finding and one control that moves by itself.

import { byId } from "./text.js";

export const TOUR = [
  { title: "Three regimes", view: "panel=map&map.quantity=retained mass&map.pinned=4,0;512,0&map.cell=32,0", moves: ["map.at", [0, 0.25, 0.5, 0.75, 1]],
    text: "Small groups teach too seldom to lose much, large ones see the rare answers. In between, training reaches the correct mass and loses " +
      "the rare answers: the pale cells. Each row is another gamma." },
  { title: "The lemma", view: "panel=miss&miss.target_mass=0.02", moves: ["miss.group_size", [1, 2, 4, 8, 16, 32, 64, 128, 256]],
    text: "Why in between? The thick line is the chance that a group teaches and yet holds nothing of a rare target. It is small at both ends." },
  { title: "Gamma delays", view: "panel=run&run.compare=runs", moves: ["run.compare", ["runs", "difference", "at equal correct mass"]],
    text: "With gamma, less of the rare answers is lost in as many steps. Read at equal correct mass, the two curves nearly meet: here gamma makes training " +
      "slower more than it makes it another one." },
  { title: "Masses", view: "preset=f-grpo-fig4", moves: ["masses.group_size", [4, 8, 16, 32]],
    text: "Every weight is two masses: what it puts on successes and on failures, at each solve rate. Gamma moves both towards prompts that are seldom solved." },
  { title: "pass@k", view: "panel=bank", moves: ["bank.at", [0, 0.1, 0.25, 0.5, 1]],
    text: "Sixty-four prompts of mixed difficulty are trained: pass@1 rises, while the chance to see a rare mode falls and prompts lose theirs." },
  { title: "Interference", view: "panel=interference", moves: ["interference.level", [0.2, 0.3, 0.4]],
    text: "Prompts that share features change one another. What easy prompts teach harms hard ones, so that pass@256 falls below the base model's." },
];

const SECONDS = 0.9; // between two moves of the tour

// Moves a control through some values; returns a function that ends this.
export function play([name, values], change, seconds) {
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    change(name, values.at(-1));
    return () => {};
  }
  let place = 0;
  const timer = window.setInterval(() => {
    change(name, values[place]);
    place += 1;
    if (place === values.length) window.clearInterval(timer);
  }, 1000 * seconds);
  return () => window.clearInterval(timer);
}

export class TourBox {
  // `visit(view)` opens a view, `change(name, value)` moves a control, `place()` is the step of the page, 0 for none.
  constructor({ visit, change, place, onEnd }) {
    Object.assign(this, { visit, change });
    this.stop = () => {};
    byId("tour-start").addEventListener("click", () => this.go(1));
    byId("tour-back").addEventListener("click", () => this.go(place() - 1));
    byId("tour-next").addEventListener("click", () => this.go(place() + 1));
    byId("tour-end").addEventListener("click", () => {
      this.show(0);
      onEnd();
    });
    // Whoever takes a control moves it from then on.
    for (const touch of ["pointerdown", "keydown"]) byId("controls").addEventListener(touch, () => this.stop());
  }

  show(place) {
    this.stop();
    const step = TOUR[place - 1];
    byId("tour").hidden = !step;
    if (!step) return;
    byId("tour-title").textContent = `${place} of ${TOUR.length}: ${step.title}.`;
    byId("tour-text").textContent = step.text;
    byId("tour-back").disabled = place === 1;
    byId("tour-next").disabled = place === TOUR.length;
  }

  go(place) {
    this.visit(`${TOUR[place - 1].view}&tour=${place}`);
    this.stop = play(TOUR[place - 1].moves, this.change, SECONDS);
    byId("tour-title").scrollIntoView({ block: "nearest" });
  }
}
