// What the server reads or computes at once, slices of open results and tables of masses: the latest settings win, and
// what was answered is kept.

const MOST_KEPT = 128;

export class Reader {
  // `onSlices(slices)` hears of the slices of the last question, `onError(text)` of what was wrong with it.
  constructor(onSlices, onError) {
    Object.assign(this, { onSlices, onError });
    this.asked = "";
    this.kept = new Map();
  }

  // Ask some questions at a path of the server.
  async ask(path, questions) {
    const asked = JSON.stringify(questions);
    if (asked === this.asked) return;
    this.asked = asked;
    try {
      const slices = await Promise.all(questions.map((question) => this.read(path, question)));
      if (asked === this.asked) this.onSlices(slices);
    } catch (error) {
      if (asked === this.asked) this.onError(error.message);
    }
  }

  async read(path, question) {
    const body = JSON.stringify(question);
    if (!this.kept.has(body)) {
      const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body })
        .catch(() => { throw new Error("the server cannot be reached; is it still running?"); });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      this.kept.set(body, found);
      if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(body);
  }
}
