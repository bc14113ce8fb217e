"use strict";
// Tables sort by a click on a column; a method's region rows stay below it. Without this script nothing is lost.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].firstChild?.textContent ?? "";
    const words = column ? text : row.cells[0].textContent;
    const number = parseFloat(words.replace("−", "-").replace(/^[<±]\s*/, ""));
    return column && !Number.isNaN(number) ? number : words;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = column ? "descending" : "ascending"; // the highest score first, names from A
      const order = head.ariaSort === first ? (column ? "ascending" : "descending") : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      for (const body of table.tBodies) {
        const blocks = [];
        for (const row of body.rows) {
          if (row.classList.contains("region") && blocks.length) blocks.at(-1).push(row);
          else blocks.push([row]);
        }
        const compare = (a, b) => (typeof a === typeof b
          ? (typeof a === "number" ? a - b : a.localeCompare(b))
          : (typeof a === "number" ? sign : -sign)); // what has no number comes last
        blocks.sort((a, b) => sign * compare(value(a[0], column), value(b[0], column)));
        body.append(...blocks.flat());
      }
    });
  });
}
// What is folded away on the screen is printed.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
