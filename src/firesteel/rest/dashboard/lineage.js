// Where a job's rows come from and where they go: places outside it, by the vertices that read and write them.
import { url } from "./api.js";
import { bytes, exact, plural } from "./format.js";
import { useView } from "./live.js";
import { ofJob } from "./ofjob.js";
import { Awaited, Figure, Nothing, Panel } from "./parts.js";
import { hasEnded } from "./states.js";
import { html } from "./ui.js";

export function Lineage({ job }) {
  const view = useView(url`/jobs/${job.job_id}/lineage`, ofJob(job.job_id));
  return html`<${Awaited} view=${view}>${(data) => html`
    <${Places} job=${job} title="Inputs" rows=${data.inputs} verb="reads" unknown="known to its code alone" none="It has no source." />
    <${Places} job=${job} title="Outputs" rows=${data.outputs} verb="writes" unknown=${hasEnded(job.status) ? "nothing was made visible" : "told when the job has ended"} none="It has no sink." />`}<//>`;
}

function Places({ job, title, rows, verb, unknown, none }) {
  const names = Object.fromEntries(job.vertices.map((vertex) => [vertex.id, vertex.name]));
  const num = (value) => html`<td class="num"><${Figure} value=${value} /></td>`;
  return html`<${Panel} title=${title}>${rows.length === 0 ? html`<${Nothing}>${none}<//>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    <thead><tr><th scope="col">Place</th><th scope="col">Function that ${verb} it</th><th scope="col">Vertex</th>${verb === "writes" && html`<th scope="col">Mode</th><th scope="col" class="num">Files</th>`}<th scope="col" class="num">Rows</th><th scope="col" class="num">Bytes</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><td class="target">${row.place ? html`<code>${row.place}</code>${row.columns?.length > 0 && html`<${Columns} columns=${row.columns} />`}` : html`<span class="absent">${unknown}</span>`}</td><th scope="row">${row.function}</th>
      <td>${row.vertex in names ? html`<a href=${`#/jobs/${job.job_id}/vertices/${row.vertex}`}>${names[row.vertex]}</a>` : html`<${Figure} />`}</td>
      ${verb === "writes" && html`<td><${Figure} value=${row.mode || null} /></td>${num(exact(row.files))}`}${num(exact(row.rows))}${num(bytes(row.bytes))}</tr>`)}</tbody>
  </table></div>`}<//>`;
}

function Columns({ columns }) {
  return html`<details><summary>${plural(columns.length, "column")}</summary>
    <ul>${columns.map((column) => html`<li><code>${column.name}</code> ${column.type}</li>`)}</ul></details>`;
}
