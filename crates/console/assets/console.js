// Copy buttons, refreshing parts, and a check of what htmx inserts. Without JavaScript the pages work the same.
"use strict";

// htmx parses the pages that it loads. They come from this server, which escapes all text; a script in one of them
// would be a fault, so it is refused.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy("default", {
    createHTML: (html) => {
      const foreign = /<script(?![^>]*\ssrc="\/console\/assets\/)|<iframe[^>]*\ssrcdoc/i;
      if (foreign.test(html)) throw new TypeError("a script in a loaded page");
      return html;
    },
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  navigator.clipboard.writeText(text).then(() => {
    button.textContent = "Copied";
    document.getElementById("announce").textContent = "Copied to the clipboard.";
  });
});

document.addEventListener("DOMContentLoaded", () => {
  document.documentElement.classList.add("scripted");
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
});
