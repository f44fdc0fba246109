// Undo: the addresses that the page had, one for each change or drag.

const DRAG = 600; // milliseconds within which changes are one
const MOST_KEPT = 100;

export class Undo {
  constructor() {
    this.addresses = [];
    this.last = -Infinity;
  }

  // Remember the address before a change.
  keep(address) {
    const now = performance.now();
    if (now - this.last > DRAG && this.addresses.at(-1) !== address) this.addresses.push(address);
    if (this.addresses.length > MOST_KEPT) this.addresses.shift();
    this.last = now;
  }

  // The address to go back to; undefined if there is none.
  back() {
    this.last = -Infinity;
    return this.addresses.pop();
  }

  get isEmpty() {
    return this.addresses.length === 0;
  }
}
