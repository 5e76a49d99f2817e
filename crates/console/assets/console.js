// Copy buttons, forms that stay on their page when they are refused, and a check of what htmx inserts. Without JavaScript
// the pages work the same.
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
  ready();
});

function ready() {
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}

const LOG_IN = "/console/login";
// Forms on their way. A second click must not send a form again.
const sending = new Set();
window.addEventListener("pageshow", () => sending.clear());

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  event.preventDefault();
  if (sending.has(form)) return;
  sending.add(form);
  // The form stays among those on their way until the next page is there.
  if (!(await leaves(form, event.submitter))) sending.delete(form);
});

// Sends a form. Returns whether the browser goes to another page.
async function leaves(form, submitter) {
  let response, text;
  try {
    response = await send(form, submitter);
    text = await response.text();
  } catch {
    warn(form, "The server did not answer. Look whether the change was made before you send the form again.");
    return false;
  }
  const next = new URL(response.url);
  if (next.pathname === LOG_IN && next.searchParams.get("done") === "ended-unsent") {
    const reason = "The session has ended, so the form was not sent. Send it again after you have logged in: ";
    warn(form, reason).firstChild.append(logInElsewhere());
  } else if (response.redirected) {
    location.assign(response.url);
    return true;
  } else {
    const answer = new DOMParser().parseFromString(text, "text/html");
    if (response.ok) show(answer);
    else refuse(form, answer);
  }
  return false;
}

function send(form, submitter) {
  const fields = new FormData(form, submitter);
  const hasFiles = form.enctype === "multipart/form-data";
  return fetch(target(form), { method: "POST", body: hasFiles ? fields : new URLSearchParams(fields) });
}

function target(form) {
  return new URL(form.getAttribute("action") ?? "", location.href).href;
}

// Shows the page that answers a form, such as a new token. Loading it again does not repeat the change.
function show(answer) {
  document.title = answer.title;
  const content = document.adoptNode(answer.getElementById("content"));
  document.getElementById("content").replaceWith(content);
  window.htmx?.process(content);
  ready();
  content.tabIndex = -1;
  content.focus();
  window.scrollTo(0, 0);
}

// Shows why a form was refused. The form keeps what was typed and the files that were chosen.
function refuse(form, answer) {
  const again = [...answer.querySelectorAll("form")].find((other) => target(other) === target(form));
  if (again?.elements.proof) {
    show(answer);
    return;
  }
  // The server may demand other hidden fields for another attempt, such as a new key of a mail.
  if (again) {
    for (const hidden of form.querySelectorAll("input[type=hidden]")) hidden.remove();
    form.prepend(...again.querySelectorAll("input[type=hidden]"));
  }
  const reason = answer.querySelector("[role=alert] p") ?? answer.querySelector("h1");
  warn(form, reason.textContent, answer.querySelector(".violations"));
}

function warn(form, text, details) {
  document.getElementById("refused")?.remove();
  const alert = document.createElement("div");
  alert.id = "refused";
  alert.className = "note bad";
  alert.setAttribute("role", "alert");
  const reason = document.createElement("p");
  reason.textContent = text;
  alert.append(reason);
  if (details) alert.append(details);
  form.before(alert);
  alert.scrollIntoView({ block: "nearest" });
  return alert;
}

function logInElsewhere() {
  const link = document.createElement("a");
  link.href = LOG_IN;
  link.target = "_blank";
  link.textContent = "log in in another window";
  return link;
}
