// Checkpoints and savepoints of a job, as REST tells them in Flink's shape.
import { url } from "./api.js";
import { bytes, count, duration, exact } from "./format.js";
import { ofJob } from "./ofjob.js";
import { useView } from "./live.js";
import { Awaited, Figure, Nothing, Panel, State, Time } from "./parts.js";
import { html } from "./ui.js";

const STATES = { COMPLETED: "FINISHED", IN_PROGRESS: "RUNNING", FAILED: "FAILED" };

export function Checkpoints({ job }) {
  const view = useView(url`/jobs/${job.job_id}/checkpoints`, ofJob(job.job_id));
  const settings = useView(url`/jobs/${job.job_id}/checkpoints/config`);
  if (view.error?.status === 404) return html`<${Panel} title="Checkpoints"><${Nothing}>Nothing is told of this job's checkpoints.<//><//>`;
  return html`<${Awaited} view=${view}>${(told) => html`<${Told} told=${told} settings=${settings.data} />`}<//>`;
}

function Told({ told, settings }) {
  const { counts = {}, latest = {}, history = [], summary } = told;
  const last = [["Last checkpoint", latest.completed], ["Last savepoint", latest.savepoint], ["Last failure", latest.failed], ["Started from", latest.restored]].filter(([, each]) => each);
  return html`<${Panel} title="Checkpoints" aside=${settings && whenOf(settings)}>
      <dl class="facts">${[["Completed", counts.completed], ["In progress", counts.in_progress], ["Failed", counts.failed], ["Restored", counts.restored]].map(([name, value]) => html`<div><dt>${name}</dt><dd><${Figure} value=${count(value)} /></dd></div>`)}
        ${summary?.end_to_end_duration && counts.completed > 0 && html`<div><dt>Duration, on average</dt><dd><${Figure} value=${duration(summary.end_to_end_duration.avg)} /></dd></div>`}
      </dl>
      ${last.length > 0 && html`<ul class="latest">${last.map(([name, each]) => html`<li key=${name}><strong>${name}</strong> ${each.id} · <${Time} ms=${each.trigger_timestamp ?? each.restore_timestamp} />${each.failure_message && html` · <span class="verdict">${each.failure_message}</span>`}${each.external_path && html`<br /><code>${each.external_path}</code>`}</li>`)}</ul>`}
    <//>
    <${Panel} title="History" aside=${history.length > 0 && "newest first"}>
      ${history.length === 0 ? html`<${Nothing}>None has been taken so far.<//>` : html`<div class="scroll" tabindex="0" role="region" aria-label="History of checkpoints"><table>
        <thead><tr><th scope="col">Id</th><th scope="col">Kind</th><th scope="col">State</th><th scope="col">Begun</th><th scope="col" class="num">Lasted</th><th scope="col" class="num">Size</th><th scope="col">Place</th></tr></thead>
        <tbody>${history.map((each) => html`<${Row} key=${`${each.id}-${each.is_savepoint}`} each=${each} />`)}</tbody>
      </table></div>`}
    <//>`;
}

function Row({ each }) {
  const word = each.status.toLowerCase().replace("_", " ");
  return html`<tr>
    <th scope="row">${exact(each.id)}</th><td>${each.is_savepoint ? "savepoint" : "checkpoint"}</td>
    <td><${State} state=${STATES[each.status] ?? "CREATED"} /><span class="hidden">${word}</span>${each.failure_message && html`<br /><small>${each.failure_message}</small>`}</td>
    <td><${Time} ms=${each.trigger_timestamp} /></td>
    <td class="num"><${Figure} value=${duration(each.end_to_end_duration)} /></td><td class="num"><${Figure} value=${bytes(each.state_size)} /></td>
    <td class="target">${each.external_path ? html`<code>${each.external_path}</code>` : html`<${Figure} />`}${each.discarded && html` <span class="tag">discarded</span>`}</td>
  </tr>`;
}

const FOREVER_MS = 2 ** 62; // what Flink says where none is taken by the clock

function whenOf({ interval, mode }) {
  return interval > 0 && interval < FOREVER_MS ? `every ${duration(interval)}` : mode ? mode.replaceAll("_", " ").toLowerCase() : "";
}
