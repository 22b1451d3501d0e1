"use strict";
// Tables that can be sorted by their headings and searched; without scripts they are as they were made.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const value = (row, place) => row.cells[place].dataset.sort ?? row.cells[place].textContent;
    const order = (one, other) => (isNaN(one) || isNaN(other) ? one.localeCompare(other, undefined, { numeric: true }) : one - other);
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const falls = head.getAttribute("aria-sort") !== "descending";
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falls ? "descending" : "ascending");
        rows.sort((one, other) => (falls ? -1 : 1) * order(value(one, place), value(other, place)));
        body.append(...rows);
      });
    });
    const label = document.createElement("label"), field = document.createElement("input");
    field.type = "search";
    field.placeholder = table.dataset.search;
    label.className = "search";
    label.append("Search ", field);
    table.parentElement.before(label);
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
});
