for (const button of document.querySelectorAll("button.copy")) {
  const text = document.getElementById(button.dataset.of);
  button.hidden = false;
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(text);
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {  // a page in a frame, or one that is not served over TLS
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
}
