// The box of the guided tour: what it says at each step, and the buttons that go on, back and end it.

import { play, TOUR } from "./tour.js";

const byId = (id) => document.getElementById(id);

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

  // Show what the tour says at a step; nothing at 0.
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

  // Go to a step, whose control then moves.
  go(place) {
    this.visit(`${TOUR[place - 1].view}&tour=${place}`);
    this.stop = play(TOUR[place - 1], this.change);
    byId("tour-title").scrollIntoView({ block: "nearest" });
  }
}
