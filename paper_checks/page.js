// Filters the cards; without it the page shows them all.
const bar = document.querySelector("nav");
const [words, paper, verdict] = bar.querySelectorAll("input, select");
const cards = [...document.querySelectorAll("article")];
const texts = cards.map((card) => card.textContent.toLowerCase());

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/);
  cards.forEach((card, place) => {
    card.hidden =
      (paper.value && card.dataset.paper !== paper.value) ||
      (verdict.value && card.dataset.verdict !== verdict.value) ||
      !wanted.every((word) => texts[place].includes(word));
  });
  document.querySelectorAll("section").forEach((section) => {
    section.hidden = !section.querySelector("article:not([hidden])");
  });
  bar.querySelector("output").value = `${cards.filter((card) => !card.hidden).length} of ${cards.length} claims`;
}

function show(ofPaper, ofVerdict) {
  [words.value, paper.value, verdict.value] = ["", ofPaper, ofVerdict];
  filter();
}

bar.hidden = false;
bar.addEventListener("input", filter);
bar.addEventListener("reset", () => setTimeout(filter));
document.addEventListener("click", ({ target }) => {
  const link = target.closest("a[href^='#']");
  if (!link) return;
  if (link.dataset.verdict !== undefined) show(link.dataset.paper, link.dataset.verdict);
  else if (document.getElementById(link.hash.slice(1))?.closest("[hidden]")) show("", "");
});
