// Browser code in addition to htmx: Airflow's theme and address bar, views that refresh themselves, a dialog.
//
// data-refresh="5"   of an element with hx-trigger="refresh": reloaded after this many seconds while the page is visible
// data-dialog        of an element whose hx-target is #dialog: its content is shown as a dialog
// data-close         closes the dialog that it is in
// data-airflow       of a link to a page of Airflow: opened by Airflow if this page is in its frame
// data-send          of a form's field or a whole form: sends the form when it changes
(function () {
  "use strict";
  const page = document.documentElement;

  // Airflow's window if this page is in a frame of it; else null.
  function airflow() {
    try {
      return window.parent !== window && window.parent.document ? window.parent : null;
    } catch (error) {
      return null; // another origin's frame
    }
  }

  function takeTheme() {
    const parent = airflow();
    if (!parent) return;
    const theirs = parent.document.documentElement;
    const dark = theirs.classList.contains("dark") || theirs.dataset.theme === "dark";
    page.dataset.theme = dark ? "dark" : "light";
  }

  // Airflow follows this page's address only on loading; htmx changes it without a load.
  function tellAddress() {
    const parent = airflow();
    const found = parent && parent.location.pathname.match(/^(.*\/plugin\/[^/]+)\//);
    if (found) {
      const here = location.pathname + location.search + location.hash;
      parent.history.replaceState(parent.history.state, "", found[1] + here);
    }
  }

  // A sandboxed frame may not navigate its parent: Airflow's router does it, as after the back button.
  function openInAirflow(event) {
    const link = event.target.closest("a[data-airflow]");
    const parent = airflow();
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!link || !parent || !plain) return;
    event.preventDefault();
    parent.history.pushState(null, "", link.href);
    parent.dispatchEvent(new PopStateEvent("popstate", { state: null }));
  }

  function notice(text) {
    const line = document.getElementById("notice");
    if (!line) return;
    line.hidden = !text;
    if (line.textContent !== text) line.textContent = text;
  }

  function tellFailure(event) {
    const answer = event.detail.xhr;
    const said = answer && answer.status ? answer.responseText : "Airflow does not answer";
    // A whole page in place of a part comes from a proxy or a login.
    const text = said.length > 2000 || said.trimStart().startsWith("<") ? "the answer was " + answer.status : said;
    notice("This page is not up to date: " + text);
  }

  function refreshOften() {
    const asked = new WeakMap();
    setInterval(function () {
      if (document.visibilityState !== "visible" || !window.htmx) return;
      for (const part of document.querySelectorAll("[data-refresh]")) {
        const every = 1000 * Math.max(1, Number(part.dataset.refresh) || 0);
        // A replaced part is a new element: its interval starts when it is first seen.
        if (!asked.has(part)) asked.set(part, Date.now());
        if (Date.now() - asked.get(part) < every) continue;
        asked.set(part, Date.now());
        window.htmx.trigger(part, "refresh");
      }
    }, 500);
  }

  function loaded(event) {
    notice("");
    const dialog = event.detail.target;
    if (dialog && dialog.matches("dialog") && !dialog.open) dialog.showModal();
  }

  takeTheme();
  const parent = airflow();
  if (parent) {
    new MutationObserver(takeTheme).observe(parent.document.documentElement, { attributes: true });
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.body.addEventListener("htmx:afterSwap", loaded);
    document.body.addEventListener("htmx:responseError", tellFailure);
    document.body.addEventListener("htmx:sendError", tellFailure);
    document.body.addEventListener("htmx:replacedInHistory", tellAddress);
    document.body.addEventListener("htmx:pushedIntoHistory", tellAddress);
    document.addEventListener("click", openInAirflow);
    document.addEventListener("click", function (event) {
      const button = event.target.closest("[data-close]");
      if (button) button.closest("dialog").close();
    });
    document.addEventListener("change", function (event) {
      const field = event.target.closest("[data-send]");
      if (field) (field.form || field).requestSubmit();
    });
    refreshOften();
  });
})();
