// A button that copies a block of code, without the prompt of a shell.
addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return; // an old browser, or a page that it does not trust
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = Object.assign(document.createElement("button"), {
      className: "copy", type: "button", textContent: "copy", ariaLabel: "copy this block",
    });
    button.onclick = async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").innerText.trimEnd() + "\n");
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    };
    block.append(button);
  }
});
