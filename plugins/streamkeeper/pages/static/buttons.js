// The dialogs of the buttons: a filled-in dialog creates a run of a DAG by Airflow's API, in the viewer's own session.
//
// A dialog has the id of its run: if it is sent twice, Airflow answers 409 and there is one run. Typed text stays until
// the dialog is closed.
(function () {
  "use strict";
  const LOOK_MS = 1500;
  const WAITS = ["deferred", "awaiting_input"];
  const MASK = "***";

  class Refused extends Error {
    constructor(status, text) {
      super(text);
      this.status = status;
    }
  }

  function later(signal) {
    return new Promise(function (resolve, reject) {
      if (signal.aborted) return reject(new DOMException("closed", "AbortError"));
      const timer = setTimeout(resolve, LOOK_MS);
      signal.addEventListener("abort", function () {
        clearTimeout(timer);
        reject(new DOMException("closed", "AbortError"));
      });
    });
  }

  // The error of an answer from Airflow's API or from this page, as one line.
  function told(status, text) {
    let detail = text;
    try {
      detail = JSON.parse(text).detail;
    } catch (error) {
      if (text.trimStart().startsWith("<")) detail = "";
    }
    if (Array.isArray(detail)) {
      detail = detail.map(function (each) { return [].concat(each.loc || []).slice(1).join(".") + ": " + each.msg; }).join("; ");
    } else if (detail && typeof detail === "object") {
      detail = detail.message || detail.reason || JSON.stringify(detail);
    }
    if (status === 401) return "your session has expired: sign in to Airflow in another tab, then send this again";
    if (status === 403) return detail || "you do not have the right to do this: request it";
    return (detail || "Airflow answered " + status).replace(/\s+/g, " ").slice(0, 600);
  }

  async function ask(address, signal, method, body) {
    const options = { method: method || "GET", credentials: "same-origin", signal: signal, headers: { Accept: "application/json" } };
    if (body !== undefined) {
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    let answer;
    try {
      answer = await fetch(address, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "Airflow does not answer: send this again; it is carried out only once");
    }
    const text = await answer.text();
    if (!answer.ok) throw new Refused(answer.status, told(answer.status, text));
    return { text: text, url: answer.url };
  }

  async function read(address, signal) {
    return JSON.parse((await ask(address, signal)).text);
  }

  // The object at the address, or null if it does not exist (yet).
  async function find(address, signal) {
    try {
      return await read(address, signal);
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  function show(line, text) {
    line.hidden = !text;
    (line.querySelector("span") || line).textContent = text;
  }

  function fail(form, text) {
    show(form.querySelector(".error"), text);
    if (text) form.querySelector(".error").scrollIntoView({ block: "nearest" });
  }

  function progress(form, text) {
    show(form.querySelector("[role=status]"), text);
  }

  function busy(form, is) {
    form.toggleAttribute("data-busy", is);
    for (const button of form.querySelectorAll(".send [type=submit], .accept button")) button.disabled = is;
  }

  // The fields as the DAG takes them, without default values. Throws Refused, naming the field.
  function fields(form) {
    const conf = {};
    for (const field of form.querySelectorAll("[data-kind]")) {
      const title = field.labels[0] ? field.labels[0].textContent.trim() : field.name;
      if ("same" in field.dataset && field.value === field.defaultValue) continue;
      const value = valueOf(field, title);
      const usual = field.dataset.default;
      if (value === undefined || (usual && JSON.stringify(value) === JSON.stringify(JSON.parse(usual)))) continue;
      conf[field.name] = value;
    }
    return conf;
  }

  function valueOf(field, title) {
    const text = field.value;
    switch (field.dataset.kind) {
      case "flag":
        return field.checked;
      case "number":
        return Number(text);
      case "lines":
        return text.split("\n").map(function (line) { return line.trim(); }).filter(Boolean);
      case "json":
        return jsonOf(text, title);
      default:
        return text.trim() === "" && !field.required ? undefined : text.trim();
    }
  }

  function jsonOf(text, title) {
    if (text.trim() === "") return undefined;
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new Refused(0, title + " is not JSON: " + error.message);
    }
    if (value === null || typeof value !== "object" || Array.isArray(value)) {
      throw new Refused(0, title + ' must be an object like {"name": "value"}');
    }
    const hidden = Object.keys(value).filter(function (name) { return value[name] === MASK; });
    if (hidden.length) {
      throw new Refused(0, title + ": " + hidden.join(", ") + " is not shown here; enter it, preferably as a secret:// reference");
    }
    return value;
  }

  // The id of this dialog's run, made from the dialog's own id and the number of its finished runs.
  function runOf(form) {
    const over = Number(form.dataset.over || 0);
    return over ? form.dataset.run + "." + over : form.dataset.run;
  }

  function isOver(form) {
    form.dataset.over = Number(form.dataset.over || 0) + 1;
  }

  async function sendRun(form, dry, signal) {
    const conf = Object.assign({ job: form.dataset.job }, fields(form));
    if (dry) conf.dry_run = true;
    const run = runOf(form);
    const note = (conf.job + (conf.reason ? ": " + conf.reason : "")).slice(0, 1000);
    const body = { dag_run_id: run, logical_date: null, conf: conf, note: note };
    try {
      await ask(form.dataset.api + "/dags/" + form.dataset.dag + "/dagRuns", signal, "POST", body);
    } catch (error) {
      if (error.status !== 409) throw error;
    }
    const link = form.querySelector("[role=status] a");
    link.href = form.dataset.airflowRuns + "/" + encodeURIComponent(run);
    progress(form, "Airflow has accepted the run and has not started it yet.");
    await follow(form, run, dry, signal);
  }

  function addressOf(form, run) {
    return form.dataset.api + "/dags/" + form.dataset.dag + "/dagRuns/" + encodeURIComponent(run);
  }

  // Wait until the run's operation is recorded, then open its page; for a dry run, until its findings are there.
  async function follow(form, run, dry, signal) {
    const asked = new URLSearchParams({ dag: form.dataset.dag, run: run, job: form.dataset.job, part: "words" });
    const misses = { count: 0 };
    for (;;) {
      const state = await patiently(misses, function () { return read(addressOf(form, run), signal); });
      const page = "opens" in form.dataset ? await patiently(misses, function () { return pageOf(form, asked, signal); }) : null;
      if (page && !dry) return leave(page.url);
      if (page && showWords(form, page.text)) return ended(form, "");
      if (state && (state.state === "success" || state.state === "failed")) return await endOf(form, run, state.state, dry, signal);
      if (state && state.state === "running") progress(form, dry ? "The dry run is in progress." : "The run is in progress; its operation is not recorded yet.");
      if (state && form.dataset.asks && !dry) await offerAnswer(form, run, signal);
      await later(signal);
    }
  }

  // A single failed request may be a server under load; repeated failures are reported.
  async function patiently(misses, look) {
    try {
      const found = await look();
      misses.count = 0;
      return found;
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401 || error.status === 403) throw error;
      misses.count += 1;
      if (misses.count > 20) throw error;
      return null;
    }
  }

  async function pageOf(form, asked, signal) {
    try {
      return await ask(form.dataset.runs + "?" + asked, signal);
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  function leave(address) {
    const url = new URL(address);
    url.search = "";
    location.assign(url.href);
  }

  // Show the part of the operation's page; returns whether it is final.
  function showWords(form, html) {
    const part = new DOMParser().parseFromString(html, "text/html").getElementById("words");
    if (!part) return false;
    const words = form.querySelector(".found");
    part.removeAttribute("id");
    for (const each of part.querySelectorAll("[id]")) each.removeAttribute("id");
    part.removeAttribute("aria-labelledby");
    words.replaceChildren(...part.childNodes);
    words.hidden = false;
    return part.hasAttribute("data-over");
  }

  function ended(form, text) {
    isOver(form);
    progress(form, text);
    busy(form, false);
    const words = form.querySelector(".found");
    if (!words.hidden) words.focus();
  }

  // Show the results of a run without an operation.
  async function endOf(form, run, state, dry, signal) {
    const tasks = addressOf(form, run) + "/taskInstances/";
    const left = async function (names, key) {
      for (const task of (names || "").split(" ").filter(Boolean)) {
        const found = await find(tasks + task + "/xcomEntries/" + key, signal);
        if (found && found.value) return String(found.value);
      }
      return "";
    };
    const report = dry ? await left(form.dataset.wordsOf, "report") : "";
    if (report) {
      form.querySelector(".found").replaceChildren(...report.split("\n").filter(Boolean).map(lineOf));
      form.querySelector(".found").hidden = false;
    }
    if (state === "failed") {
      isOver(form);
      throw new Refused(0, (await left(form.dataset.toldBy, "error")) || "the run failed: see its task logs in Airflow");
    }
    if (report) return ended(form, "");
    const sentence = await left(form.dataset.toldBy, "return_value");
    ended(form, sentence || "The run has ended: there was nothing to do.");
    form.dataset.changed = "";
  }

  // A line of a task's report in this project's Markdown: a heading, a list item or a sentence; markup becomes text.
  function lineOf(line) {
    const [, start, rest] = line.match(/^(#+ | *- )?(.*)$/);
    const element = document.createElement(start && start.startsWith("#") ? "h3" : "p");
    if (start && start.includes("-")) element.className = start.startsWith(" ") ? "point inner" : "point";
    element.textContent = rest.replace(/(\\.)|\*\*|`|<br>/g, function (found, escaped) {
      return escaped ? escaped.slice(1) : found === "<br>" ? " " : "";
    });
    return element;
  }

  // For a recovery with loss or duplication: the announced effects, and the two answers.
  async function offerAnswer(form, run, signal) {
    const area = form.querySelector(".accept");
    const path = addressOf(form, run) + "/taskInstances/" + form.dataset.asks;
    const task = await find(path, signal);
    const asks = task !== null && WAITS.includes(task.state);
    if (asks && area.hidden) {
      const announced = await find(addressOf(form, run) + "/taskInstances/diagnose/xcomEntries/announced?deserialize=true", signal);
      const lines = announced && Array.isArray(announced.value) ? announced.value : [String((announced && announced.value) || "")];
      area.querySelector("ul").replaceChildren(...lines.filter(Boolean).map(function (line) {
        const item = document.createElement("li");
        item.textContent = line;
        return item;
      }));
      area.dataset.path = path;
      for (const button of area.querySelectorAll("button")) button.disabled = false;
      progress(form, "The run waits until a person accepts or declines.");
      area.hidden = false;
      area.scrollIntoView({ block: "nearest" });
    }
    area.hidden = !asks;
  }

  // An answer at the moment of the question can be lost when Airflow asks again: repeat it until the task has taken it.
  async function answer(path, option, reason, signal, tell) {
    for (;;) {
      const task = await find(path, signal);
      if (task !== null && (task.state === "success" || task.state === "failed" || task.state === "skipped")) return;
      if (task !== null && WAITS.includes(task.state)) {
        const asked = await find(path + "/-1/hitlDetails", signal);
        if (asked !== null && !asked.response_received) {
          const said = { chosen_options: [option], params_input: { reason: reason } };
          try {
            await ask(path + "/-1/hitlDetails", signal, "PATCH", said);
          } catch (error) {
            if (error.status !== 409) throw error;
          }
        }
        tell("The answer is recorded; the run continues.");
      } else {
        tell("The run has not asked yet.");
      }
      await later(signal);
    }
  }

  async function carryOut(form, work) {
    if ("busy" in form.dataset) return;
    const closed = new AbortController();
    form.closest("dialog").addEventListener("close", function () { closed.abort(); }, { once: true });
    fail(form, "");
    busy(form, true);
    try {
      await work(closed.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Refused)) console.error(error);
      progress(form, "");
      fail(form, error instanceof Refused ? error.message : "the page failed: " + error.message);
      busy(form, false);
    }
  }

  function submitted(event) {
    const form = event.target.closest("form.ask");
    if (!form) return;
    event.preventDefault();
    const how = event.submitter ? event.submitter.value : "send";
    carryOut(form, async function (signal) {
      if (form.dataset.answer === undefined) return await sendRun(form, how === "dry", signal);
      const path = form.dataset.api + "/" + form.dataset.answer;
      const reason = fields(form).reason;
      await answer(path, how, reason, signal, function (text) { progress(form, text); });
      leave(new URL(form.dataset.page, location.href).href);
    });
  }

  function accepted(event) {
    const button = event.target.closest(".accept button");
    if (!button) return;
    const area = button.closest(".accept");
    const form = button.closest("form");
    const reason = area.querySelector("textarea").value.trim();
    for (const each of area.querySelectorAll("button")) each.disabled = true;
    const closed = new AbortController();
    form.closest("dialog").addEventListener("close", function () { closed.abort(); }, { once: true });
    answer(area.dataset.path, button.value, reason, closed.signal, function (text) { progress(form, text); }).catch(function (error) {
      if (error.name === "AbortError") return;
      fail(form, error.message);
      for (const each of area.querySelectorAll("button")) each.disabled = false;
    });
  }

  // A field in a closed section cannot show its error.
  function unfold(event) {
    const fold = event.target.closest("details");
    if (fold) fold.open = true;
  }

  document.addEventListener("submit", submitted);
  document.addEventListener("click", accepted);
  document.addEventListener("invalid", unfold, true);
  document.addEventListener("close", function (event) {
    const form = event.target.querySelector && event.target.querySelector("form.ask[data-changed]");
    if (form) location.reload();
  }, true);
})();
