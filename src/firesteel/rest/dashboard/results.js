// What a job leaves behind: outputs that readers see, and rows that it returns.
import { get, url } from "./api.js";
import { bytes, exact, plural } from "./format.js";
import { ofJob } from "./ofjob.js";
import { useView } from "./live.js";
import { Awaited, Figure, Nothing, Panel, Problem } from "./parts.js";
import { hasEnded } from "./states.js";
import { useMay } from "./user.js";
import { html, useState } from "./ui.js";

const PREVIEW_ROWS = 100;

export function JobResults({ job }) {
  const view = useView(hasEnded(job.status) ? url`/jobs/${job.job_id}/execution-result` : null, ofJob(job.job_id));
  if (!hasEnded(job.status)) return html`<${Panel} title="Outputs"><${Nothing}>Outputs become visible when the whole job has succeeded.<//><//>`;
  return html`<${Awaited} view=${view}>${(data) => (data.result ? html`<${Result} job=${job} result=${data.result} />` : html`<${Nothing}>The result is being stored.<//>`)}<//>`;
}

function Result({ job, result }) {
  const may = useMay();
  const num = (value) => html`<td class="num"><${Figure} value=${value} /></td>`;
  return html`<${Panel} title="Outputs">
      ${result.sinks.length === 0 ? html`<${Nothing}>${job.status === "FINISHED" ? "It has no sink whose output was committed." : "Nothing was made visible."}<//>` : html`<div class="scroll" tabindex="0" role="region" aria-label="Outputs"><table>
        <thead><tr><th scope="col">Sink</th><th scope="col">Target</th><th scope="col">Mode</th><th scope="col" class="num">Files</th><th scope="col" class="num">Rows</th><th scope="col" class="num">Size</th></tr></thead>
        <tbody>${result.sinks.map((sink) => html`<tr><th scope="row">${sink.function}</th><td class="target"><code>${sink.target}</code>${sink.told && html`<p class="stale">${sink.told}</p>`}</td><td>${sink.mode}</td>${num(exact(sink.files))}${num(exact(sink.rows))}${num(bytes(sink.size_bytes))}</tr>`)}</tbody>
      </table></div>`}
    <//>
    ${result.returned.length > 0 && html`<${Panel} title="Returned rows">
      <div class="scroll" tabindex="0" role="region" aria-label="Returned rows"><table>
        <thead><tr><th scope="col">Function</th><th scope="col" class="num">Rows</th><th scope="col" class="num">Size</th></tr></thead>
        <tbody>${result.returned.map((rows) => html`<tr><th scope="row">${rows.function}</th>${num(exact(rows.rows))}${num(bytes(rows.size_bytes))}</tr>`)}</tbody>
      </table></div>
      ${may.read(job) && result.returned.map((rows) => html`<${Preview} key=${rows.function} job=${job} returned=${rows} />`)}
      <p class="hint">They are Arrow data: <code>firesteel wait ${job.job_id.slice(0, 8)}…</code> prints them, clients fetch them as a DataFrame.</p>
    <//>`}`;
}

// The first rows, read when somebody asks for them: they may be many.
function Preview({ job, returned }) {
  const [state, setState] = useState({ busy: false, shown: null, error: null });
  const read = async () => {
    setState({ busy: true, shown: null, error: null });
    try {
      const [{ arrow }, { firstRows, fromBase64 }] = await Promise.all([get(url`/jobs/${job.job_id}/rows?function=${returned.function}`), import("./arrow.js")]);
      setState({ busy: false, shown: firstRows(fromBase64(arrow), PREVIEW_ROWS), error: null });
    } catch (error) {
      setState({ busy: false, shown: null, error });
    }
  };
  const { busy, shown, error } = state;
  if (error) return html`<${Problem} error=${error} again=${read} />`;
  if (!shown) return html`<p class="preview"><button class="quiet" disabled=${busy} onClick=${read}>${busy ? "Reading …" : `Show rows of ${returned.function}`}</button></p>`;
  const few = shown.rows.length < returned.rows;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Rows of ${returned.function}`}><table class="preview-rows">
      <thead><tr>${shown.names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${shown.rows.map((row) => html`<tr>${row.map((value) => html`<td>${value === null ? html`<span class="absent">null</span>` : value}</td>`)}</tr>`)}</tbody>
    </table></div>
    ${few && html`<p class="more">the first ${plural(shown.rows.length, "row")} of ${exact(returned.rows)}</p>`}`;
}
