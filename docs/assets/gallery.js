// Shows the cards of the gallery whose facts match the filters.
document.addEventListener("input", (event) => {
  const form = event.target.closest(".gallery-filters");
  if (!form) return;
  const wanted = Object.fromEntries(new FormData(form));
  for (const card of document.querySelectorAll(".gallery .card")) {
    const facts = JSON.parse(card.dataset.facts);
    card.hidden = Object.entries(wanted).some(([fact, value]) => value && facts[fact] !== value);
  }
});
