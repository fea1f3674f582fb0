// Files of pipelines: uploaded, looked at, run.
import { freshId, send, upload, url } from "./api.js";
import { plural } from "./format.js";
import { useStream, useView } from "./live.js";
import { Awaited, Confirm, Nothing, Panel, Problem, Time } from "./parts.js";
import { useMay } from "./user.js";
import { html, useRef, useState } from "./ui.js";

const BUILD_S = 180; // a worker may take 150 s to make a job of a file


export function SubmitPage() {
  const may = useMay();
  const { state } = useStream();
  const view = useView("/jars");
  const [chosen, setChosen] = useState(null);
  if (state === "still") return html`<h1>Submit</h1><${Nothing}>This is an archive: nothing is run here.<//>`;
  return html`<header class="head"><div class="title"><h1>Submit</h1></div></header>
    ${may.submit ? html`<${Upload} done=${(id) => { setChosen(id); view.reload(); }} />` : html`<${Nothing}>To submit takes the role <code>submit</code>.<//>`}
    <${Awaited} view=${view}>${({ files }) => html`<${Files} files=${files} chosen=${chosen} choose=${setChosen} may=${may} reload=${view.reload} />`}<//>`;
}

function Upload({ done }) {
  const [state, setState] = useState({ busy: "", error: null, over: false });
  const input = useRef(null);
  const take = async (file) => {
    if (!file) return;
    setState({ busy: file.name, error: null, over: false });
    try {
      const { filename } = await upload(file);
      setState({ busy: "", error: null, over: false });
      done(filename.split("/").pop());
    } catch (error) {
      setState({ busy: "", error, over: false });
    }
    input.current.value = "";
  };
  const over = (is) => (event) => {
    event.preventDefault();
    setState((before) => ({ ...before, over: is }));
  };
  return html`<section class="panel drop ${state.over ? "over" : ""}" aria-label="Upload" onDragOver=${over(true)} onDragLeave=${over(false)} onDrop=${(event) => { event.preventDefault(); take(event.dataTransfer.files[0]); }}>
    <label class="button primary">Choose a file<input ref=${input} class="hidden" type="file" accept=".py,.zip,.whl" onChange=${(event) => take(event.target.files[0])} /></label>
    <span role="status">${state.busy ? `Uploading ${state.busy} …` : html`or drop it here: a pipeline's or a script's <code>.py</code>, a <code>.zip</code> or a <code>.whl</code>`}</span>
    ${state.error && html`<${Problem} error=${state.error} />`}
  </section>`;
}

function Files({ files, chosen, choose, may, reload }) {
  const [deleting, setDeleting] = useState(null);
  if (!files.length) return html`<${Panel} title="Uploaded files"><${Nothing}>None yet.<//><//>`;
  return html`<${Panel} title="Uploaded files" aside=${plural(files.length, "file")}>
    <ul class="uploads">${files.map((file) => html`<li key=${file.id}>
      <div class="upload"><strong>${file.name}</strong> <small>uploaded <${Time} ms=${file.uploaded} /></small>
        ${may.submit && html`<span class="actions"><button class=${chosen === file.id ? "quiet" : "primary"} aria-expanded=${String(chosen === file.id)} onClick=${() => choose(chosen === file.id ? null : file.id)}>Run</button><button class="danger-quiet" aria-label=${`Delete ${file.name}`} onClick=${() => setDeleting(file)}>Delete</button></span>`}</div>
      ${chosen === file.id && html`<${RunForm} file=${file} />`}
    </li>`)}</ul>
    ${deleting && html`<${Confirm} title=${`Delete ${deleting.name}?`} verb="Delete" act=${async () => { await send("DELETE", url`/jars/${deleting.id}`); reload(); }} close=${() => setDeleting(null)}><p>Jobs that run are not disturbed.</p><//>`}
  <//>`;
}

// ── what to run it with ─────────────────────────────────────────────────────────────────────────
const lines = (text) => String(text).split("\n").map((line) => line.trim()).filter(Boolean);

function pairs(text) {
  return Object.fromEntries(lines(text).map((line) => {
    const [key] = line.split(/[=:]/);
    return [key.trim(), line.slice(key.length + 1).trim()];
  }));
}

function asked(form, file) {
  const fields = new FormData(form);
  const body = { programArgsList: lines(fields.get("parameters")) };
  const entry = fields.get("entry") || (file.entry.length === 1 ? file.entry[0].name : "");
  if (entry) body.entryClass = entry;
  if (fields.get("parallelism")) body.parallelism = Number(fields.get("parallelism"));
  if (fields.get("savepoint").trim()) {
    body.savepointPath = fields.get("savepoint").trim();
    body.allowNonRestoredState = fields.has("leave");
  }
  if (lines(fields.get("options")).length) body.flinkConfiguration = pairs(fields.get("options"));
  return body;
}

function RunForm({ file }) {
  const [state, setState] = useState({ busy: "", error: null, plan: null });
  const form = useRef(null);
  const [id] = useState(freshId);
  const plan = async () => {
    setState({ busy: "plan", error: null, plan: null });
    try {
      setState({ busy: "", error: null, plan: (await send("POST", url`/jars/${file.id}/plan`, asked(form.current, file), { silentS: BUILD_S })).plan });
    } catch (error) {
      setState({ busy: "", error, plan: null });
    }
  };
  const run = async (event) => {
    event.preventDefault();
    setState((before) => ({ ...before, busy: "run", error: null }));
    try {
      const { jobid } = await send("POST", url`/jars/${file.id}/run`, { ...asked(form.current, file), jobId: id }, { silentS: BUILD_S });
      location.hash = `#/jobs/${jobid}`;
    } catch (error) {
      setState((before) => ({ ...before, busy: "", error }));
    }
  };
  return html`<form class="run" ref=${form} onSubmit=${run}>
    ${file.entry.length > 1 && html`<label>Pipeline <select name="entry">${file.entry.map((entry) => html`<option value=${entry.name}>${entry.name}</option>`)}</select></label>`}
    ${file.entry.length === 0 && html`<label>Pipeline <input name="entry" placeholder="the only one in it" /></label>`}
    <label>Parameters, one a line <textarea name="parameters" rows="4" placeholder="input=/data/in" spellcheck="false"></textarea></label>
    <label>Options of the job, one a line <textarea name="options" rows="2" placeholder="restart-strategy.type=fixed-delay" spellcheck="false"></textarea></label>
    <label>Parallelism, where functions state none <input name="parallelism" type="number" min="1" max="32768" inputmode="numeric" /></label>
    <div class="savepoint"><label>Savepoint that a stream starts from <input name="savepoint" spellcheck="false" placeholder="none: from its beginning" /></label>
      <label class="check"><input type="checkbox" name="leave" /> Leave out state that no sink claims</label></div>
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${state.plan && html`<div class="plan" role="status"><strong>${state.plan.name}</strong> has ${state.plan.nodes.length === 1 ? "one vertex" : `${state.plan.nodes.length} vertices`}: <ol>${state.plan.nodes.map((node) => html`<li>${decoded(node.description)} <small>${decoded(node.operator)} · parallelism ${node.parallelism}</small></li>`)}</ol></div>`}
    <div class="buttons"><button type="button" class="quiet" disabled=${state.busy !== ""} onClick=${plan}>${state.busy === "plan" ? "Reading …" : "Show its plan"}</button><button class="primary" disabled=${state.busy !== ""}>${state.busy === "run" ? "Submitting …" : "Submit"}</button></div>
  </form>`;
}

// Texts of plans are HTML, for Flink's own dashboard.
function decoded(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
}
