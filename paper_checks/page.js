// Filters the cards; without it the page shows them all.
const bar = document.querySelector("nav");
const [words, ...choices] = bar.querySelectorAll("input, select");
const NAMES = ["paper", "verdict", "severity", "whose"]; // of the choices, as the cards have them
const cards = [...document.querySelectorAll("article")];
const texts = cards.map((card) => card.textContent.toLowerCase());

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/);
  cards.forEach((card, place) => {
    const isOther = choices.some((choice, i) => choice.value && card.dataset[NAMES[i]] !== choice.value);
    card.hidden = isOther || !wanted.every((word) => texts[place].includes(word));
  });
  document.querySelectorAll("#claims section").forEach((section) => {
    section.hidden = !section.querySelector("article:not([hidden])");
  });
  bar.querySelector("output").value = `${cards.filter((card) => !card.hidden).length} of ${cards.length} claims`;
}

function show(chosen) {
  words.value = "";
  choices.forEach((choice, i) => { choice.value = chosen[NAMES[i]] || ""; });
  filter();
}

bar.hidden = false;
bar.addEventListener("input", filter);
bar.addEventListener("reset", () => setTimeout(filter));
document.addEventListener("click", ({ target }) => {
  const link = target.closest("a[href^='#']");
  if (!link) return;
  if (link.dataset.verdict !== undefined) show(link.dataset);
  else if (document.getElementById(link.hash.slice(1))?.closest("[hidden]")) show({});
});
