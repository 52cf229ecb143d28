for (const table of document.querySelectorAll("table.sortable")) {
  const [head, ...rows] = table.rows;
  for (const [column, name] of [...head.cells].entries()) {
    const button = document.createElement("button");
    button.append(...name.childNodes);
    name.append(button);
    button.addEventListener("click", () => {
      const first = name.classList.contains("n") ? "descending" : "ascending";  // high scores, names from a to z
      const order = name.ariaSort === "ascending" || (!name.ariaSort && first === "descending") ? "descending" : "ascending";
      for (const other of head.cells) other.removeAttribute("aria-sort");
      name.ariaSort = order;
      rows.sort((one, two) => compare(...[one, two].map((row) => row.cells[column].textContent.trim())));
      if (order === "descending") rows.reverse();
      table.tBodies[0].append(...rows);
    });
  }
}

function compare(one, two) {
  const [first, second] = [one, two].map(number);
  return isNaN(first) || isNaN(second) ? one.localeCompare(two) : first < second ? -1 : Number(first > second);
}

function number(text) {  // "1 180", "0.672 ± 0.103", "67 %", "–"; a date is none
  const found = text.replace(/\s(?=\d{3})/g, "").match(/^(–|[-+]?\d+(\.\d+)?)(?=$|\s)/);
  return found ? parseFloat(found[0].replace("–", "-Infinity")) : NaN;
}

function unfold() {
  document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
}
addEventListener("hashchange", unfold);
unfold();
