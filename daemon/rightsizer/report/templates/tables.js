"use strict";
// Tables that can be sorted by their headings, searched and filtered, with sums of the rows shown; without scripts they are as they were made.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const value = (row, place) => row.cells[place].dataset.sort ?? row.cells[place].textContent;
    const order = (one, other) => (isNaN(one) || isNaN(other) ? one.localeCompare(other, undefined, { numeric: true }) : one - other);
    const field = document.createElement("input"), choices = [];
    const sums = [...(table.tFoot?.rows[0].cells ?? [])].filter((cell) => "sum" in cell.dataset);
    const show = () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) {
        const isChosen = choices.every(([place, choice]) => !choice.value || row.cells[place].textContent === choice.value);
        row.hidden = !isChosen || !row.textContent.toLowerCase().includes(wanted);
      }
      for (const cell of sums) {
        const sum = rows.reduce((total, row) => total + (row.hidden ? 0 : Number(row.cells[cell.cellIndex].dataset.sort)), 0);
        const text = sum.toLocaleString("en-US", { maximumFractionDigits: sum < 10 ? 1 : 0 });
        cell.textContent = cell.dataset.sum === "dollars" ? `$${text}` : text;
      }
    };
    const label = (name, control) => {
      const found = document.createElement("label");
      found.className = "search";
      found.append(`${name} `, control);
      table.parentElement.before(found);
    };
    heads.forEach((head, place) => {
      if ("filter" in head.dataset) {
        const names = [...new Set(rows.map((row) => row.cells[place].textContent))].sort();
        if (names.length > 1) {
          const choice = document.createElement("select");
          choice.append(new Option("all", ""), ...names.map((name) => new Option(name)));
          choice.addEventListener("change", show);
          choices.push([place, choice]);
          label(head.textContent[0].toUpperCase() + head.textContent.slice(1), choice);
        }
      }
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
    field.type = "search";
    field.placeholder = table.dataset.search;
    field.addEventListener("input", show);
    label("Search", field);
    show();
  }
});
