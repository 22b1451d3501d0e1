"use strict";
// Tables that can be sorted by their headings, searched and filtered, with sums of the rows shown; without scripts they are as they were made.
const csvButton = (rows) => {
  const button = document.createElement("button");
  // Names are of others: what a spreadsheet would take for a formula is text.
  const cell = (value) => `"${String(value).trim().replace(/^[=+\-@]/, (sign) => (isNaN(value) ? `'${sign}` : sign)).replaceAll('"', '""')}"`;
  button.type = "button";
  button.className = "csv";
  button.textContent = "CSV of these rows";
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([rows().map((row) => row.map(cell).join(",")).join("\r\n")], { type: "text/csv" }));
    link.download = "rightsizer.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return button;
};
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
        const sum = rows.reduce((total, row) => total + (row.hidden ? 0 : Math.max(0, Number(row.cells[cell.cellIndex].dataset.sort))), 0);
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
    table.parentElement.before(csvButton(() => [heads, ...rows.filter((row) => !row.hidden).map((row) => [...row.cells])].map((cells) => cells.map((cell) => cell.dataset.sort ?? cell.textContent))));
    show();
  }
});
